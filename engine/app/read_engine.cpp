#include "engine/app/read_engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/app/experiment.hpp"
#include "engine/app/old_engine_keys.hpp"
#include "engine/base/path.hpp"
#include "engine/parts/plugin.hpp"
#include "engine/parts/register_parts.hpp"

namespace vitro {
namespace {

FfnConfig read_ffn(Reader reader, const std::vector<BroughtPolicy>& brought) {
  FfnConfig ffn;
  ffn.kind = reader.choice("kind", ffn_kinds().names(), ffn.kind);
  ffn.clusters = read_clusters(reader.section("clusters"));
  ffn.experts = read_moe(reader.section("experts"), with_brought(PolicyKind::drift, drift_rules().names(), brought),
                         with_brought(PolicyKind::place, place_rules().names(), brought));
  reader.finish();
  return ffn;
}

void read_graph(Reader reader, EngineConfig& engine) {
  const std::string name = reader.choice("fuse", {kFuseNames.begin(), kFuseNames.end()}, kFuseNames.back());
  engine.fuse = static_cast<Fuse>(std::ranges::find(kFuseNames, name) - kFuseNames.begin());
  engine.activations = reader.choice("activations", {"f32", "f16"}, "f32") == "f16" ? Format::f16 : Format::f32;
  reader.finish();
}

void read_function(Reader& reader, EngineConfig& engine) {
  const std::string function = reader.choice("function", {"compute", "replay", "draw"}, "compute");
  engine.function = function == "compute" ? FunctionKind::compute : function == "replay" ? FunctionKind::replay : FunctionKind::draw;
  engine.record = reader.text("record", "");
  engine.replay = reader.text("replay", "");
  // `numerics: off` computes nothing: outcomes come from the recording if there is one, else from the profile.
  if (!reader.boolean("numerics", true) && engine.numerics()) {
    engine.function = engine.replay.empty() ? FunctionKind::draw : FunctionKind::replay;
    reader.rewrite("function", Node::scalar(engine.replay.empty() ? "draw" : "replay", {}, true));
  }
  reader.forget("numerics");
  if (engine.function == FunctionKind::replay && engine.replay.empty())
    reader.fail("replay", "is missing: engine.function: replay needs a recording (expected a file)");
}

// The numeric contract where none is asked for: integer products of quantised weights, which leave float weights their float products. A
// Hexagon's matrix unit multiplies in fp16, and a GPU reads half of the bytes in fp16.
std::string_view own_numerics(const std::vector<std::string>& units) {
  if (std::ranges::count(units, "hexagon") > 0) return "fp16";
  return std::ranges::any_of(units, is_gpu_name) ? "a16" : "int8";
}

}  // namespace

EngineConfig read_engine(Reader reader, DrawProfile& profile, bool of_model) {
  if (reader.has("plugins")) {
    for (const Node& path : reader.list("plugins")) {
      if (!path.is_scalar()) fail_at(path.origin(), reader.name_of("plugins"), "has an entry that is not a path (expected [./libmine.so])");
      load_parts(path_named_by(path), fmt::format("{}: {}", path.origin().str(), reader.name_of("plugins")));
    }
  }
  EngineConfig engine;
  engine.policy = reader.text("policy", "dense");
  engine.policies = read_brought(reader);
  engine.ffn = read_ffn(reader.section("ffn"), engine.policies);
  engine.weights = read_weights(reader.section("weights"), weights_kinds().names(),
                                with_brought(PolicyKind::eviction, evictions().names(), engine.policies), engine.ffn.kind == "clusters",
                                with_brought(PolicyKind::look_ahead, look_ahead_rules().names(), engine.policies));
  engine.attention = read_attention(reader.section("attention"));
  std::vector<BroughtKeep> keeps;
  for (const BroughtPolicy& policy : engine.policies) {
    if (policy.kind == PolicyKind::keep) keeps.push_back({policy.name, policy.follows_budget});
  }
  engine.kv = read_kv_with(reader.section("kv"), keeps);
  engine.placement = read_placement(reader.section("placement"), placement_kinds());
  const bool by_neuron = engine.ffn.kind == "clusters" || (engine.ffn.kind == "dense" && engine.weights.kind == "bundles");
  for (const PlacementConfig::Split& split : engine.placement.splits) {
    if (!split.streamed_at.empty() && !by_neuron) {
      throw ConfigError(fmt::format("{}: is of neurons that are read one by one, but engine.ffn.kind: {} computes whole matrices, which "
                                    "engine.weights brings as it says (expected clusters, or dense with engine.weights.kind: bundles)",
                                    split.streamed_at, engine.ffn.kind));
    }
    if (!split.by_layer_at.empty() && engine.ffn.kind == "experts") {
      throw ConfigError(fmt::format("{}: has nothing to act on: engine.ffn.kind: experts gives experts to graphs by their load (expected "
                                    "dense or clusters)",
                                    split.by_layer_at));
    }
  }
  engine.products = read_products(reader.section("products"), own_numerics(engine.placement.units), engine.weights.repack);
  engine.lora = read_lora(reader.section("lora"));
  read_graph(reader.section("graph"), engine);
  engine.prefill_chunk = static_cast<std::uint32_t>(reader.integer("prefill_chunk", 1, 4096, engine.prefill_chunk));
  const std::string order = reader.choice("prefill_order", {"chunks", "layers", "auto"}, "auto");
  engine.prefill_order = order == "chunks" ? PrefillOrder::chunks : order == "layers" ? PrefillOrder::layers : PrefillOrder::automatic;
  engine.prefill_span = static_cast<std::uint32_t>(reader.integer("prefill_span", 1, 1 << 24, 0));
  read_function(reader, engine);
  if (reader.has("profile") || (engine.function == FunctionKind::draw && !of_model)) profile = read_profile(reader.section("profile"));
  reader.ignore("plan");  // its keys were put in place when the experiment was composed
  reader.ignore("name");
  reader.ignore("description");
  reader.finish(earlier_keys());
  return engine;
}

}  // namespace vitro
