#include "engine/model/role.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vitro {
namespace {

enum class Of : std::uint8_t { model, layer };
// expert: a matrix, or one for each expert under a name of its own; order: of the columns of a matrix.
enum class Kind : std::uint8_t { matrix, vector, expert, order };

struct Row {
  Role role;
  std::string_view name;  // in packed files, experiments and messages
  std::string_view file;  // of a layer: behind "blk.N."
  Of of;
  Kind kind;
};

constexpr std::array<Row, kRoles> kRows{{
    {Role::token_embedding, "token_embedding", "token_embd.weight", Of::model, Kind::matrix},
    {Role::output_norm, "output_norm", "output_norm.weight", Of::model, Kind::vector},
    {Role::output, "output", "output.weight", Of::model, Kind::matrix},
    {Role::rope_factors, "rope_factors", "rope_freqs.weight", Of::model, Kind::vector},
    {Role::attn_norm, "attn_norm", "attn_norm.weight", Of::layer, Kind::vector},
    {Role::attn_q, "attn_q", "attn_q.weight", Of::layer, Kind::matrix},
    {Role::attn_k, "attn_k", "attn_k.weight", Of::layer, Kind::matrix},
    {Role::attn_v, "attn_v", "attn_v.weight", Of::layer, Kind::matrix},
    {Role::attn_q_bias, "attn_q_bias", "attn_q.bias", Of::layer, Kind::vector},
    {Role::attn_k_bias, "attn_k_bias", "attn_k.bias", Of::layer, Kind::vector},
    {Role::attn_v_bias, "attn_v_bias", "attn_v.bias", Of::layer, Kind::vector},
    {Role::attn_output, "attn_output", "attn_output.weight", Of::layer, Kind::matrix},
    {Role::attn_q_norm, "attn_q_norm", "attn_q_norm.weight", Of::layer, Kind::vector},
    {Role::attn_k_norm, "attn_k_norm", "attn_k_norm.weight", Of::layer, Kind::vector},
    {Role::attn_sub_norm, "attn_sub_norm", "attn_sub_norm.weight", Of::layer, Kind::vector},
    {Role::ffn_sub_norm, "ffn_sub_norm", "ffn_sub_norm.weight", Of::layer, Kind::vector},
    {Role::ffn_norm, "ffn_norm", "ffn_norm.weight", Of::layer, Kind::vector},
    {Role::ffn_gate, "ffn_gate", "ffn_gate.weight", Of::layer, Kind::expert},
    {Role::ffn_up, "ffn_up", "ffn_up.weight", Of::layer, Kind::expert},
    {Role::ffn_down, "ffn_down", "ffn_down.weight", Of::layer, Kind::expert},
    {Role::router, "router", "ffn_gate_inp.weight", Of::layer, Kind::matrix},
    {Role::ffn_bundle, "ffn_bundle", "ffn_bundle", Of::layer, Kind::matrix},
    {Role::ffn_scales, "ffn_scales", "ffn_scales", Of::layer, Kind::matrix},
    {Role::predictor_in, "predictor_in", "fc1.weight", Of::layer, Kind::matrix},
    {Role::predictor_out, "predictor_out", "fc2.weight", Of::layer, Kind::matrix},
    {Role::output_norm_bias, "output_norm_bias", "output_norm.bias", Of::model, Kind::vector},
    {Role::attn_norm_bias, "attn_norm_bias", "attn_norm.bias", Of::layer, Kind::vector},
    {Role::ffn_norm_bias, "ffn_norm_bias", "ffn_norm.bias", Of::layer, Kind::vector},
    {Role::attn_output_bias, "attn_output_bias", "attn_output.bias", Of::layer, Kind::vector},
    {Role::output_bias, "output_bias", "output.bias", Of::model, Kind::vector},
    {Role::rope_factors_short, "rope_factors_short", "rope_factors_short.weight", Of::model, Kind::vector},
    {Role::rope_factors_long, "rope_factors_long", "rope_factors_long.weight", Of::model, Kind::vector},
    {Role::shared_gate, "shared_gate", "ffn_gate_shexp.weight", Of::layer, Kind::matrix},
    {Role::shared_up, "shared_up", "ffn_up_shexp.weight", Of::layer, Kind::matrix},
    {Role::shared_down, "shared_down", "ffn_down_shexp.weight", Of::layer, Kind::matrix},
    {Role::shared_router, "shared_router", "ffn_gate_inp_shexp.weight", Of::layer, Kind::vector},
    {Role::value_head, "value_head", "cls.output.weight", Of::model, Kind::vector},
    {Role::value_bias, "value_bias", "cls.output.bias", Of::model, Kind::vector},
    {Role::attn_qkv, "attn_qkv", "attn_qkv.weight", Of::layer, Kind::matrix},
    {Role::attn_qkv_bias, "attn_qkv_bias", "attn_qkv.bias", Of::layer, Kind::vector},
    {Role::ffn_gate_up, "ffn_gate_up", "ffn_up.weight", Of::layer, Kind::matrix},
    {Role::attn_q_order, "attn_q_order", "attn_q.order", Of::layer, Kind::order},
    {Role::attn_k_order, "attn_k_order", "attn_k.order", Of::layer, Kind::order},
    {Role::attn_v_order, "attn_v_order", "attn_v.order", Of::layer, Kind::order},
    {Role::attn_output_order, "attn_output_order", "attn_output.order", Of::layer, Kind::order},
    {Role::ffn_gate_order, "ffn_gate_order", "ffn_gate.order", Of::layer, Kind::order},
    {Role::ffn_up_order, "ffn_up_order", "ffn_up.order", Of::layer, Kind::order},
    {Role::ffn_down_order, "ffn_down_order", "ffn_down.order", Of::layer, Kind::order},
    {Role::output_order, "output_order", "output.order", Of::model, Kind::order},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].role != static_cast<Role>(i)) return false;
  }
  return true;
}
static_assert(in_order());

const Row& row_of(Role role) { return kRows[static_cast<std::size_t>(role)]; }

}  // namespace

std::string_view to_string(Role role) { return row_of(role).name; }

bool is_of_model(Role role) { return row_of(role).of == Of::model; }

bool is_vector(Role role) { return row_of(role).kind == Kind::vector || is_order(role); }

bool is_order(Role role) { return row_of(role).kind == Kind::order; }

bool is_ffn(Role role) {
  return role == Role::ffn_gate || role == Role::ffn_up || role == Role::ffn_gate_up || role == Role::ffn_down ||
         role == Role::ffn_bundle || role == Role::ffn_scales;
}

bool is_joined(Role role) { return role == Role::attn_qkv || role == Role::ffn_gate_up; }

bool is_predictor(Role role) { return role == Role::predictor_in || role == Role::predictor_out; }

std::string tensor_name(Role role, int layer, bool experts) {
  const Row& row = row_of(role);
  if (row.of == Of::model) return std::string(row.file);
  if (row.kind == Kind::expert && experts) return fmt::format("blk.{}.{}_exps.weight", layer, row.name);
  return fmt::format("blk.{}.{}", layer, row.file);
}

std::string down_by_neuron_name(int layer) { return fmt::format("blk.{}.ffn_down_t.weight", layer); }

}  // namespace vitro
