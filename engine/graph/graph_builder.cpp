// How families of models become operators.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/graph/attention_pass.hpp"
#include "engine/graph/geometry_pass.hpp"
#include "engine/graph/norm_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "engine/graph/order_pass.hpp"
#include "engine/graph/product_pass.hpp"

namespace vitro {
namespace {

// Weights and tensors of an FFN: the only one of its layer, that of an expert, or one beside experts.
struct FfnParts {
  Role gate = Role::ffn_gate, up = Role::ffn_up, down = Role::ffn_down;
  std::string_view prefix = "ffn", gate_out = "gate", up_out = "up", hidden = "hidden", down_out = "down";
};
constexpr FfnParts kPlain, kExpert{.down_out = "partial"};
// Of a layer before those with experts, whose tensors have another width.
constexpr FfnParts kLeading{.gate_out = "leading_gate", .up_out = "leading_up", .hidden = "leading_hidden"};
constexpr FfnParts kShared{Role::shared_gate, Role::shared_up, Role::shared_down, "ffn_shared",
                           "shared_gate",     "shared_up",     "shared_hidden",   "shared_down"};

class Builder {
 public:
  Builder(const ModelConfig& config, GraphOptions options) : c_(config), options_(options) {}

  OperatorGraph build() {
    OperatorId x = embed();
    for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
      layer_ = static_cast<std::int16_t>(layer);
      x = attention(x);
      x = c_.has_experts(layer_) ? experts(x) : dense_ffn(x);
    }
    layer_ = -1;
    head(x);
    return std::move(graph_);
  }

 private:
  OperatorId add(Op op, std::string_view name, Split split, std::string_view output, std::uint32_t width,
                 std::initializer_list<OperatorId> inputs, std::optional<Role> weight = {}) {
    Operator node;
    node.op = op;
    node.name = layer_ < 0 ? std::string(name) : fmt::format("blk.{}.{}", layer_, name);
    node.layer = layer_;
    node.block = block_;
    node.split = split;
    node.rows = rows_;
    node.output = output;
    node.width = width;
    node.weight = weight;
    const OperatorId id = boost::add_vertex(std::move(node), graph_);
    std::uint8_t index = 0;
    for (const OperatorId input : inputs) boost::add_edge(input, id, Operand{index++}, graph_);
    return id;
  }

  // Of the model's kind. One that subtracts the mean is one operator from the start.
  OperatorId norm(OperatorId x, std::string_view name, Role weight, Role bias) {
    if (c_.norm == Norm::rms) return norm(x, name, weight, "normed", c_.width);
    const OperatorId id = add(ops::LayerNorm{c_.norm_eps}, name, Split::replicated, "normed", c_.width, {x}, weight);
    graph_[id].bias = bias;
    return id;
  }
  OperatorId norm(OperatorId x, std::string_view name, Role weight, std::string_view output, std::uint32_t width) {
    const OperatorId rms = add(ops::InverseRms{c_.norm_eps}, fmt::format("{}.rms", name), Split::replicated, "rms", 1, {x});
    return add(ops::ScaleRows{}, name, Split::replicated, output, width, {x, rms}, weight);
  }
  // Of each head by itself, in place.
  OperatorId head_norm(OperatorId x, std::string_view name, Role weight) {
    const std::string output = graph_[x].output;
    return add(ops::RmsNorm{c_.norm_eps}, name, Split::kv_heads, output, graph_[x].width, {x}, weight);
  }

  OperatorId matmul(OperatorId x, std::string_view name, std::string_view output, std::uint32_t width, Role weight) {
    return add(ops::Matmul{}, name, Split::rows, output, width, {x}, weight);
  }

  OperatorId move(OperatorId x, std::string_view name, std::string_view output, Movement movement) {
    const OperatorId id = add(ops::Move{}, name, Split::kv_heads, output, graph_[x].width, {x});
    graph_[id].path = {movement};
    return id;
  }
  // Columns of a product for several, those from `first` on.
  OperatorId slice(OperatorId x, std::string_view name, Split split, std::string_view output, std::uint32_t first, std::uint32_t width) {
    const OperatorId id = add(ops::Move{}, name, split, output, width, {x});
    graph_[id].path = {{.first = first, .row = graph_[x].width}};
    return id;
  }
  // What a product writes, as heads: the same bytes under other extents.
  OperatorId heads_of(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_heads", tensor);
    return move(x, name, name, {});
  }
  // Attention of an exported model has heads first, our kernels have rows first.
  OperatorId heads_first(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_by_head", tensor);
    return move(x, name, name, {HeadOrder::rows_first, HeadOrder::heads_first});
  }
  OperatorId rows_first(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_by_row", tensor);
    return move(x, name, name, {HeadOrder::heads_first, HeadOrder::rows_first});
  }

  OperatorId residual(OperatorId x, OperatorId y, std::string_view name) {
    return add(ops::Add{}, name, Split::rows, "x", c_.width, {x, y});
  }

  OperatorId embed() {
    block_ = BlockKind::embed;
    return add(ops::Embed{}, "token_embd", Split::single, "x", c_.width, {}, Role::token_embedding);
  }

  OperatorId turned(OperatorId x, std::string_view tensor) {
    // In place, but for what every unit has normalised for itself.
    const std::string output = c_.qk_norm == QkNorm::whole ? fmt::format("{}_turned", tensor) : graph_[x].output;
    const ops::Rope turn{c_.rope.base, c_.rope.dims, c_.rope.style, c_.rope.position_scale};
    return add(turn, fmt::format("rope_{}", tensor), Split::kv_heads, output, graph_[x].width, {x});
  }

  struct Qkv {
    OperatorId q, k, v;
  };
  Qkv qkv(OperatorId normed) {
    const Qkv made{matmul(normed, "attn_q", "q", c_.q_width(), Role::attn_q), matmul(normed, "attn_k", "k", c_.kv_width(), Role::attn_k),
                   matmul(normed, "attn_v", "v", c_.kv_width(), Role::attn_v)};
    if (c_.qkv_bias) {
      graph_[made.q].bias = Role::attn_q_bias;
      graph_[made.k].bias = Role::attn_k_bias;
      graph_[made.v].bias = Role::attn_v_bias;
    }
    return made;
  }
  Qkv joined_qkv(OperatorId normed) {
    const OperatorId all = matmul(normed, "attn_qkv", "qkv", c_.qkv_width(), Role::attn_qkv);
    if (c_.qkv_bias) graph_[all].bias = Role::attn_qkv_bias;
    const std::uint32_t q = c_.q_width(), kv = c_.kv_width();
    return {slice(all, "attn_q", Split::kv_heads, "q", 0, q), slice(all, "attn_k", Split::kv_heads, "k", q, kv),
            slice(all, "attn_v", Split::kv_heads, "v", q + kv, kv)};
  }

  // Of a row: one for each head and position that it may see.
  std::uint32_t scores_width() const {
    const std::uint32_t positions = options_.positions > 0 ? options_.positions : c_.context;
    const std::uint64_t width = std::uint64_t{c_.heads} * (c_.window > 0 ? std::min(c_.window, positions) : positions);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(width, ~0u));  // more than any memory has
  }

  OperatorId attention(OperatorId x) {
    block_ = BlockKind::attention;
    const OperatorId normed = norm(x, "attn_norm", Role::attn_norm, Role::attn_norm_bias);
    auto [q, k, v] = c_.joined_qkv ? joined_qkv(normed) : qkv(normed);
    if (c_.qk_norm == QkNorm::whole) {
      q = norm(q, "attn_q_norm", Role::attn_q_norm, "q_normed", c_.q_width());
      k = norm(k, "attn_k_norm", Role::attn_k_norm, "k_normed", c_.kv_width());
    }
    q = heads_of(q, "q");
    k = heads_of(k, "k");
    v = heads_of(v, "v");
    if (c_.qk_norm == QkNorm::heads) {
      q = head_norm(q, "attn_q_norm", Role::attn_q_norm);
      k = head_norm(k, "attn_k_norm", Role::attn_k_norm);
    }
    q = turned(q, "q");
    k = turned(k, "k");
    q = rows_first(heads_first(q, "q"), "q");
    k = rows_first(heads_first(k, "k"), "k");
    v = rows_first(heads_first(v, "v"), "v");
    OperatorId kept = add(ops::KvAppend{c_.layers}, "kv_append", Split::kv_heads, "kv", 0, {k, v});
    if (options_.stages_kv) kept = add(ops::KvStage{c_.layers}, "kv_stage", Split::kv_heads, "kv_staged", 0, {kept});
    // A factor of q and one of k are one of their products.
    const float factor = c_.rope.attention_factor * c_.rope.attention_factor;
    const ops::AttentionScores dots{factor / std::sqrt(static_cast<float>(c_.head_dim)), c_.window, c_.layers};
    const OperatorId scores = add(dots, "attention.scores", Split::kv_heads, "scores", scores_width(), {q, kept});
    const OperatorId weights =
        add(ops::AttentionWeights{c_.window}, "attention.weights", Split::kv_heads, "score_weights", scores_width(), {scores});
    const ops::AttentionValues values{c_.window, c_.layers};
    OperatorId attend = add(values, "attention", Split::kv_heads, "attended", c_.q_width(), {weights, kept});
    attend = heads_of(rows_first(heads_first(attend, "attended"), "attended"), "attended");
    if (c_.sub_norms) attend = norm(attend, "attn_sub_norm", Role::attn_sub_norm, "attended_normed", c_.q_width());
    const OperatorId out = matmul(attend, "attn_output", "projected", c_.width, Role::attn_output);
    if (c_.attn_output_bias) graph_[out].bias = Role::attn_output_bias;
    return residual(x, out, "attn_residual");
  }

  OperatorId dense_ffn(OperatorId x) {
    block_ = BlockKind::ffn;
    const OperatorId normed = norm(x, "ffn_norm", Role::ffn_norm, Role::ffn_norm_bias);
    // An FfnBlock computes experts alone, so a leading dense FFN stays operators.
    if (c_.experts > 0) return residual(x, down(hidden(normed, kLeading), kLeading), "ffn_residual");
    const OperatorId ffn = options_.whole_ffns ? whole_ffn(normed, kPlain.down_out) : down(hidden(normed, kPlain), kPlain);
    return residual(x, ffn, "ffn_residual");
  }

  OperatorId whole_ffn(OperatorId normed, std::string_view output) {
    const OperatorId ffn = add(ops::Reduce{}, "ffn_clusters", Split::single, output, c_.width, {normed});
    graph_[ffn].whole_ffn = true;
    return ffn;
  }

  // `route`: an edge without data, so that no order can put an expert before the choice of experts.
  OperatorId hidden(OperatorId normed, const FfnParts& ffn, std::optional<OperatorId> route = {}) {
    const std::uint32_t width = ffn.gate == Role::shared_gate ? c_.shared_ffn : c_.ffn_of(layer_);
    const std::string gate_name = fmt::format("{}_gate", ffn.prefix), up_name = fmt::format("{}_up", ffn.prefix);
    OperatorId gate, up;
    if (c_.joined_gate_up) {
      const OperatorId both = matmul(normed, "ffn_gate_up", "gate_up", 2 * width, Role::ffn_gate_up);
      gate = slice(both, gate_name, Split::rows, ffn.gate_out, 0, width);
      up = slice(both, up_name, Split::rows, ffn.up_out, width, width);
    } else {
      gate = matmul(normed, gate_name, ffn.gate_out, width, ffn.gate);
      up = matmul(normed, up_name, ffn.up_out, width, ffn.up);
    }
    if (route) {
      boost::add_edge(*route, gate, Operand{1}, graph_);
      boost::add_edge(*route, up, Operand{1}, graph_);
    }
    OperatorId glu = add(ops::Glu{c_.activation}, fmt::format("{}_act", ffn.prefix), Split::rows, ffn.hidden, width, {gate, up});
    if (c_.sub_norms) glu = norm(glu, "ffn_sub_norm", Role::ffn_sub_norm, "hidden_normed", c_.ffn);
    return glu;
  }
  OperatorId down(OperatorId glu, const FfnParts& ffn) {
    return matmul(glu, fmt::format("{}_down", ffn.prefix), ffn.down_out, c_.width, ffn.down);
  }

  OperatorId chosen_experts(OperatorId normed, OperatorId route) {
    if (!options_.whole_ffns) return down(hidden(normed, kExpert, route), kExpert);
    const OperatorId ffn = whole_ffn(normed, kExpert.down_out);
    boost::add_edge(route, ffn, Operand{1}, graph_);
    return ffn;
  }

  // A shared FFN's two steps stand where units meet anyway: with the router's product, and with the choice.
  OperatorId experts(OperatorId x) {
    block_ = BlockKind::ffn;
    const OperatorId normed = norm(x, "ffn_norm", Role::ffn_norm, Role::ffn_norm_bias);
    const OperatorId logits = matmul(normed, "ffn_gate_inp", "router_logits", c_.experts, Role::router);
    std::optional<OperatorId> shared;
    if (c_.shared_ffn > 0) shared = hidden(normed, kShared);
    const ops::Route choose{c_.experts_used, c_.renormalise_experts, c_.router, c_.expert_scale};
    const OperatorId route = add(choose, "route", Split::single, "experts", 0, {logits});
    if (shared) shared = down(*shared, kShared);
    rows_ = RowSet::routed;
    const OperatorId partial = chosen_experts(normed, route);
    rows_ = RowSet::all;
    OperatorId sum = add(ops::ExpertSum{}, "expert_sum", Split::rows, "down", c_.width, {partial, route});
    if (shared) sum = with_shared(sum, *shared, normed);
    return residual(x, sum, "ffn_residual");
  }

  OperatorId with_shared(OperatorId sum, OperatorId shared, OperatorId normed) {
    if (!c_.shared_gate) return add(ops::Add{}, "ffn_shared_sum", Split::rows, "ffn_sum", c_.width, {sum, shared});
    return add(ops::AddGated{}, "ffn_shared_sum", Split::rows, "ffn_sum", c_.width, {sum, shared, normed}, Role::shared_router);
  }

  void head(OperatorId x) {
    block_ = BlockKind::head;
    rows_ = RowSet::sampled;
    const OperatorId last = add(ops::Gather{}, "last_rows", Split::replicated, "last", c_.width, {x});
    const OperatorId normed = norm(last, "output_norm", Role::output_norm, Role::output_norm_bias);
    if (options_.value) {
      const OperatorId value = matmul(normed, "value", "value", 1, Role::value_head);
      if (c_.value_bias) graph_[value].bias = Role::value_bias;
      return;
    }
    const Role weight = c_.tied_embedding ? Role::token_embedding : Role::output;
    const OperatorId logits = matmul(normed, "output", "logits", c_.vocab, weight);
    if (c_.output_bias) graph_[logits].bias = Role::output_bias;
    add(ops::Sample{}, "sample", Split::single, "tokens", 0, {logits});
  }

  const ModelConfig& c_;
  const GraphOptions options_;
  OperatorGraph graph_;
  std::int16_t layer_ = -1;
  BlockKind block_ = BlockKind::embed;
  RowSet rows_ = RowSet::all;
};

}  // namespace

OperatorGraph build_graph(const ModelConfig& config, GraphOptions options) {
  OperatorGraph graph = Builder(config, options).build();
  if (options.fuse != Fuse::none) graph = fuse_moves(split_products(graph), config);
  if (options.fuse == Fuse::all || options.whole_attention) graph = fuse_attention(graph);
  if (options.fuse == Fuse::all) graph = fuse_norms(graph);
  if (!config.orders.empty()) graph = with_input_orders(graph, config.orders);
  return graph;
}

}  // namespace vitro
