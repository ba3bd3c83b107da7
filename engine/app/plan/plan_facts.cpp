#include <fmt/format.h>

#include "engine/app/experiment.hpp"
#include "engine/app/loaded_model.hpp"
#include "engine/app/plan.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/pack_plan.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/kv_rows.hpp"
#include "engine/transformer/decoder.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

struct Shapes {
  ModelConfig config;
  std::vector<Weight> weights;
};

Shapes shapes_of(const Node& model, BundleForm bundles) {
  if (const Node* path = model.find("gguf")) {
    PackOptions options;
    options.bundles = bundles;
    PackPlan plan = make_plan(Gguf::open(path->text()), options);
    return {std::move(plan.config), std::move(plan.weights)};
  }
  Reader reader(model, "model");
  const Format format = matrix_format(reader);
  Reader shape = reader.child("shape");
  ModelConfig config = config_from_node(shape);
  const WeightStore store = phantom_weights(config, format, FileId{}, bundles);
  return {std::move(config), store.all()};
}

// The contracts that products with such weights have, wherever their rows stand.
Json contracts_of(Format format) {
  Json names = Json::array();
  for (const VariantId id : variant::kOfMatmuls) {
    if (variant::supports(id, format, Layout::rows)) names.push_back(variant::name(id));
  }
  return names;
}

Json layout_row(const BundleLayout& layout) {
  return {{"block", layout.block},           {"kept", layout.kept_block()},  // of a block, in DRAM
          {"per_block", layout.per_block},   {"blocks", layout.blocks()},
          {"first_part", layout.first_part}, {"row", row_bytes(layout.format, layout.width)}};
}

}  // namespace

nlohmann::ordered_json plan_facts(const Node& experiment) {
  const Node *device = experiment.find("device"), *model = experiment.find("model");
  if (model == nullptr || !model->is_map()) fail_at(experiment.origin(), "model", "is missing");
  const Shapes shapes = shapes_of(*model, BundleForm::one_read);
  const ModelConfig& c = shapes.config;
  Json formats = Json::object(), contracts = Json::object();
  Bytes fixed = 0, all = 0;
  for (const Weight& weight : shapes.weights) {
    all += weight.stored_bytes();
    if (!is_ffn(weight.role)) fixed += weight.stored_bytes();
    formats[std::string(to_string(weight.role))] = to_string(weight.format);
    contracts[std::string(to_string(weight.format))] = contracts_of(weight.format);
  }
  Json layouts = Json::object();
  std::vector<BundleForm> forms{BundleForm::one_read, BundleForm::two_phases};
  if (formats["ffn_bundle"] == to_string(Format::q4_0)) {
    forms.insert(forms.end(), {BundleForm::scales_inline, BundleForm::scales_resident});
  }
  for (const BundleForm form : forms) {
    Json& row = layouts[std::string(to_string(form))];
    Bytes scales = 0;
    for (const Weight& weight : shapes_of(*model, form).weights) {
      if (weight.role == Role::ffn_bundle) row = layout_row(weight.bundles());
      if (weight.role == Role::ffn_scales) scales += weight.stored_bytes();
    }
    row["resident"] = scales;  // beside the blocks, always in DRAM
  }
  Json kv = Json::object();
  for (const Format format : kKvFormats) {
    kv[std::string(to_string(format))] = {{"pair_bytes", kv_pair_bytes(format, c.head_dim)}, {"for_cores", format.is_for_kv()}};
  }
  Json out{{"model",
            {{"name", c.name},
             {"fingerprint", model_fingerprint(*model)},
             {"layers", c.layers},
             {"width", c.width},
             {"heads", c.heads},
             {"kv_heads", c.kv_heads},
             {"head_dim", c.head_dim},
             {"ffn", c.ffn},
             {"vocab", c.vocab},
             {"context", c.context},
             {"experts", c.experts},
             {"experts_used", c.experts_used},
             {"predictor_rank", c.predictor_rank}}},
           {"formats", formats},
           {"contracts", contracts},
           {"layouts", layouts},
           {"kv", kv},
           {"fixed_bytes", fixed},
           {"runtime_bytes", runtime_bytes(c, all, shapes.weights.size())}};
  if (const Node* path = model->find("gguf")) out["model"]["gguf_bytes"] = source_identity(Gguf::open(path->text())).at("bytes");
  if (device != nullptr && !device->is_null()) out["device"] = {{"fingerprint", device_fingerprint(*device)}};
  return out;
}

}  // namespace vitro
