#include "engine/experiment/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "engine/decode/policies.hpp"
#include "engine/experiment/read_moe.hpp"
#include "engine/experiment/read_workload.hpp"
#include "engine/ffn/cluster_policy.hpp"
#include "engine/ffn/eviction.hpp"
#include "engine/kernels/variants.hpp"
#include "engine/moe/moe_policy.hpp"

namespace vitro {
namespace {

// A Hexagon has no float32 products: beside one, what is not asked for is what its matrix unit takes.
VariantId read_variant(Reader& reader, const std::vector<std::string>& units) {
  const char* otherwise = std::ranges::count(units, "hexagon") > 0 ? "fp16" : "float";
  const std::string activations = reader.choice("activations", {"float", "fp16", "int8", "int8_tables", "reference"}, otherwise);
  return activations == "fp16" ? variant::kHmx : variant::by_name(activations);
}

ClusterConfig read_clusters(Reader reader, const ClusterFamily& family) {
  ClusterConfig clusters = family.defaults;
  clusters.pipeline = reader.choice("pipeline", family.pipelines, clusters.pipeline);
  const std::vector<std::string_view> evictions = eviction_names();
  clusters.eviction = reader.choice("eviction", std::vector<std::string>(evictions.begin(), evictions.end()), clusters.eviction);
  clusters.neurons = static_cast<std::uint32_t>(reader.integer("neurons", 1, 1 << 20, clusters.neurons));
  clusters.io_core = reader.text("io_core", "");
  clusters.io_depth = static_cast<std::uint32_t>(reader.integer("io_depth", 1, 1024, clusters.io_depth));
  clusters.staging = static_cast<Bytes>(reader.quantity("staging", Dimension::bytes, static_cast<double>(clusters.staging)));
  clusters.dense_rows = static_cast<std::uint32_t>(reader.integer("dense_rows", 1, 1 << 20, clusters.dense_rows));
  if (reader.has("threshold")) clusters.threshold = static_cast<float>(reader.number("threshold", 0, 1e6));
  clusters.predictors = reader.boolean("predictors", true);
  clusters.measure = reader.boolean("measure", false);
  clusters.bundle = reader.boolean("bundle", clusters.bundle);
  clusters.two_phases = reader.boolean("two_phases", clusters.two_phases);
  if (clusters.two_phases && !family.two_phases) reader.fail("two_phases", fmt::format("is nothing that {} has", family.policy));
  clusters.cache = reader.boolean("cache", clusters.cache);
  clusters.keep_silent = reader.choice("keep", {"named", "fired"}, "named") == "named";
  clusters.window = static_cast<std::uint32_t>(reader.integer("window", 0, 1 << 20, clusters.window));
  if (clusters.window > 0 && clusters.eviction != "window") {
    reader.fail("window", fmt::format("does not go with {}: {}", reader.name_of("eviction"), clusters.eviction));
  }
  clusters.report_bound = reader.boolean("report_bound", false);
  reader.finish();
  return clusters;
}

HybridConfig read_hybrid(Reader reader) {
  HybridConfig hybrid;
  hybrid.unit = reader.text("unit");
  hybrid.cluster = static_cast<std::uint32_t>(reader.integer("cluster", 1, 1 << 20, hybrid.cluster));
  if (reader.has("in_dram")) hybrid.in_dram = reader.share("in_dram", 0);
  hybrid.prefill = reader.boolean("prefill", hybrid.prefill);
  for (const Node& node : reader.list("splits")) {
    Reader split(node, reader.name_of("splits"));
    HybridConfig::Split next;
    next.batch = static_cast<std::uint32_t>(split.integer("batch", 1, 1024));
    if (!hybrid.splits.empty() && next.batch <= hybrid.splits.back().batch) split.fail("batch", "does not ascend");
    next.hot = split.share("hot", 0);
    next.attention = split.share("attention", 0);
    next.head = split.share("head", 0);
    split.ignore("why");
    split.finish();
    hybrid.splits.push_back(next);
  }
  if (hybrid.splits.empty()) reader.fail("splits", "is empty (expected entries such as {batch: 1, hot: 25%})");
  reader.finish();
  return hybrid;
}

ProductMethods read_products(Reader reader) {
  constexpr Method kMethods[] = {Method::automatic, Method::lut,     Method::fused,       Method::convert,
                                 Method::copy,      Method::scatter, Method::uncoalesced, Method::native};
  std::vector<std::string> names;
  for (const Method method : kMethods) names.emplace_back(to_string(method));
  const auto method_of = [&](const char* key) {
    const std::string name = reader.choice(key, names, "automatic");
    return kMethods[std::find(names.begin(), names.end(), name) - names.begin()];
  };
  ProductMethods products;
  products.decode = method_of("decode");
  products.prefill = method_of("prefill");
  products.decode_rows = static_cast<std::uint32_t>(reader.integer("decode_rows", 1, 4096, 1));
  products.share_precompute = reader.boolean("share_precompute", true);
  reader.finish();
  return products;
}

// What `layout` means for the policy: none for whole matrices.
std::optional<BundleForm> read_bundles(Reader& reader, const EngineConfig& engine, const ClusterFamily* family) {
  // Matrices that lie apart are what engine.clusters.bundle: false makes of bundles, and no layout of their own here.
  std::vector<std::string> layouts{"rows"};
  for (const BundleForm form : kBundleForms) {
    if (!lies_apart(form)) layouts.emplace_back(to_string(form));
  }
  const std::string layout = reader.choice("layout", layouts, "auto");
  if (layout == "auto" && family == nullptr) return std::nullopt;
  const std::optional<BundleForm> form = form_by_name(layout);
  const bool one_read = form == BundleForm::automatic || form == BundleForm::one_read;
  if (form.has_value() != (family != nullptr) || (form && !one_read && !family->two_phases)) {
    reader.fail("layout", fmt::format("{} does not go with engine.policy: {}", layout, engine.policy));
  }
  if (!form) return form;
  if (engine.clusters.bundle) return family->two_phases ? form : BundleForm::one_read;
  if (one_read) return BundleForm::apart;
  if (form == BundleForm::two_phases) return BundleForm::apart_two_phases;
  reader.fail("layout",
              fmt::format("{} does not go with engine.clusters.bundle: false (expected auto, bundles or bundles_two_phase)", layout));
}

// engine.kernels may say what products are made of in place of an instruction set; then that is the machine's best.
void read_code_products(Reader& reader, EngineConfig& engine) {
  const std::string name = engine.kernels;
  const bool wide = name.size() == 6 && name.starts_with("lut_w") && name.back() >= '1' && name.back() <= '4';
  if (name != "lut" && name != "dot" && !wide) return;
  engine.kernels = "auto";
  engine.code_products = name == "dot" ? CodeProducts::dot : CodeProducts::look_up;
  if (name == "dot" && engine.matmul == variant::kInt8Tables) {
    reader.fail("kernels", "dot never looks up, and engine.activations: int8_tables does nothing else (expected lut, or activations int8)");
  }
  if (name == "dot") return;
  if (wide) engine.look_up_bits = static_cast<std::uint32_t>(name.back() - '0');
  if ((engine.matmul != variant::kInt8 && engine.matmul != variant::kInt8Tables) || !engine.repack) {
    reader.fail("kernels", fmt::format("{} looks up products of int8 activations in a layout of its own (expected engine.activations: int8 "
                                       "and no engine.repack: false beside it)",
                                       name));
  }
}

EngineConfig read_engine(Reader reader, DrawProfile& profile) {
  EngineConfig engine;
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  engine.policy = reader.choice("policy", names, "dense");
  if (reader.has("units")) {
    if (reader.has("threads")) reader.fail("threads", "is given beside engine.units (expected one of the two)");
    const Node& units = *reader.raw("units");
    for (const Node& unit : units.is_scalar() ? std::vector<Node>{units} : reader.list("units")) {
      if (!unit.is_scalar())
        fail_at(unit.origin(), reader.name_of("units"), "holds something that is no unit name (expected names such as cpu0)");
      if (std::find(engine.units.begin(), engine.units.end(), unit.text()) != engine.units.end()) {
        fail_at(unit.origin(), reader.name_of("units"), fmt::format("\"{}\" is named twice", unit.text()));
      }
      engine.units.push_back(unit.text());
    }
    if (engine.units.empty()) reader.fail("units", "is empty (expected names such as cpu0)");
  }
  // Policies of one accelerator: its usual name.
  if (engine.units.empty() && engine.policy == "qnn") engine.units = {"npu"};
  if (engine.units.empty() && engine.policy == "gpu_dense") engine.units = {"gpu"};
  engine.threads = static_cast<std::uint32_t>(reader.integer("threads", 1, 1024, 1));
  engine.kernels = reader.text("kernels", "auto");
  engine.matmul = read_variant(reader, engine.units);
  // 4-bit weights on a matrix unit for fp16: a contract of its own, which the CPU has, too.
  if (engine.kernels == "hmx_q4") {
    if (reader.has("activations")) reader.fail("activations", "is given beside engine.kernels: hmx_q4, whose activations are fp16");
    engine.matmul = variant::kHmx;
    engine.kernels = "auto";
  }
  const std::string prefill = reader.choice("prefill_activations", {"same", "fp16", "int8_rows"}, "same");
  if (prefill != "same") engine.prefill_matmul = prefill == "fp16" ? variant::kHmx : variant::kInt8Rows;
  if (reader.choice("attention", {"exact", "lut_exp"}, "exact") == "lut_exp") engine.attention = variant::kLutExp;
  engine.repack = reader.boolean("repack", true);
  read_code_products(reader, engine);
  engine.kv_format = *format_by_name(reader.choice("kv_format", {"f32", "f16", "int8_fp8"}, "f32"));
  if (engine.kv_format == Format::int8_fp8 && engine.attention == variant::kLutExp) {
    reader.fail("kv_format", "int8_fp8 does not go with engine.attention: lut_exp (expected f32 or f16)");
  }
  engine.kv_per_query_head = reader.choice("kv_per", {"kv_head", "query_head"}, "kv_head") == "query_head";
  engine.kv_block_tokens = static_cast<std::uint32_t>(reader.integer("kv_block_tokens", 1, 4096, 16));
  if (reader.has("kv_dram_tokens")) engine.kv_dram_tokens = static_cast<std::uint32_t>(reader.integer("kv_dram_tokens", 0, 1 << 24));
  engine.kv_prefetch = reader.boolean("kv_prefetch", true);
  if (!engine.kv_prefetch && !engine.kv_dram_tokens) reader.fail("kv_prefetch", "goes with engine.kv_dram_tokens");
  engine.embedding_in_flash = reader.choice("embedding", {"dram", "flash"}, "dram") == "flash";
  engine.prefill_chunk = static_cast<std::uint32_t>(reader.integer("prefill_chunk", 1, 4096, 128));
  engine.read_ahead = static_cast<Bytes>(reader.quantity("read_ahead", Dimension::bytes, 128.0 * KiB));
  if (engine.read_ahead < kPageSize || engine.read_ahead % kPageSize != 0) {
    reader.fail("read_ahead", fmt::format("{} bytes (expected a multiple of {} bytes, such as 128 KiB)", engine.read_ahead, kPageSize));
  }
  const ClusterFamily* family = find_cluster_family(engine.policy);
  if (family != nullptr) engine.clusters = family->defaults;
  if (std::optional<Reader> clusters = reader.optional_child("clusters")) {
    engine.clusters = read_clusters(std::move(*clusters), family != nullptr ? *family : cluster_families().front());
  }
  engine.bundles = read_bundles(reader, engine, family);
  if (std::optional<Reader> hybrid = reader.optional_child("hybrid")) {
    engine.hybrid = read_hybrid(std::move(*hybrid));
    // The hot region reads whole clusters, and takes what others have to give up.
    if (family == nullptr || !family->hybrid || !engine.clusters.bundle || engine.clusters.eviction == "none") {
      reader.fail("hybrid", "goes with engine.policy: neuron_cluster, bundles, and an eviction");
    }
  }
  if (const MoeFamily* mixture = find_moe_family(engine.policy)) {
    engine.moe = mixture->defaults;
    if (std::optional<Reader> moe = reader.optional_child("moe")) engine.moe = read_moe(std::move(*moe), *mixture);
  }
  if (std::optional<Reader> products = reader.optional_child("products")) engine.products = read_products(std::move(*products));
  if (engine.policy == "llm_npu") {
    engine.outliers = reader.quantity("outliers", Dimension::ratio, 0);
    if (engine.outliers < 0 || engine.outliers >= 1) reader.fail("outliers", "is no part of the products (expected 0% to below 100%)");
  }
  engine.sessions = static_cast<std::uint32_t>(reader.integer("sessions", 1, 64, 0));
  const std::string function = reader.choice("function", {"compute", "replay", "draw"}, "compute");
  engine.function = function == "compute" ? FunctionKind::compute : function == "replay" ? FunctionKind::replay : FunctionKind::draw;
  engine.record = reader.text("record", "");
  engine.replay = reader.text("replay", "");
  // `numerics: off` computes nothing: outcomes come from the recording if there is one, else from the profile.
  if (!reader.boolean("numerics", true) && engine.numerics())
    engine.function = engine.replay.empty() ? FunctionKind::draw : FunctionKind::replay;
  if (std::optional<Reader> drawn = reader.optional_child("profile")) profile = read_profile(std::move(*drawn));
  if (engine.function == FunctionKind::replay && engine.replay.empty()) reader.fail("replay", "is missing: engine.function is replay");
  reader.ignore("plan");  // its keys were put in place when the experiment was composed
  reader.ignore("name");
  reader.ignore("description");
  reader.finish();
  return engine;
}

MemoryConfig read_memory(Reader reader) {
  MemoryConfig memory;
  if (reader.has("budget")) memory.budget = static_cast<Bytes>(reader.quantity("budget", Dimension::bytes));
  if (reader.has("ffn_in_dram")) {
    memory.ffn_in_dram = reader.share("ffn_in_dram", 0);
    if (memory.budget) reader.fail("ffn_in_dram", "is given beside memory.budget (expected one of the two)");
  }
  reader.finish();
  return memory;
}

ModelSource read_model(Reader reader) {
  ModelSource model;
  if (reader.has("gguf")) {
    model.gguf = reader.text("gguf");
    model.pack = reader.text("pack", "");
    reader.finish();
  } else {
    model.shape = reader.node();
  }
  return model;
}

}  // namespace

Experiment read_experiment(const Node& root) {
  Reader reader(root, "");
  Experiment experiment;
  experiment.resolved = root;
  experiment.name = reader.text("experiment");
  experiment.machine = reader.choice("machine", {"sim", "host"}, "sim");
  if (const Node* device = reader.raw("device")) experiment.device = *device;
  if (experiment.machine == "sim" && experiment.device.is_null()) reader.fail("device", "is missing: a simulation needs a device file");
  experiment.model = read_model(reader.child("model"));
  if (experiment.model.shape && experiment.model.shape->find("profile") != nullptr) {  // the model's own; engine.profile replaces it
    experiment.profile = read_profile(Reader(*experiment.model.shape->find("profile"), "model.profile"));
  }
  if (std::optional<Reader> engine = reader.optional_child("engine")) {
    experiment.engine = read_engine(std::move(*engine), experiment.profile);
  } else {
    experiment.engine.matmul = variant::kFloat;
    experiment.engine.read_ahead = 128 * KiB;
  }
  experiment.workload = read_workload(reader.child("workload"), experiment.engine.numerics());
  // `seed` at the top is the workload's: sweeps over seeds read better so.
  experiment.workload.seed =
      static_cast<std::uint64_t>(reader.integer("seed", 0, std::int64_t{1} << 62, static_cast<std::int64_t>(experiment.workload.seed)));
  if (std::optional<Reader> memory = reader.optional_child("memory")) experiment.memory = read_memory(std::move(*memory));
  if (experiment.model.shape && experiment.engine.numerics()) {
    reader.fail("model", "has shapes but no weights: set engine.function to draw or replay, or name a gguf file");
  }
  if (const Node* expect = reader.raw("expect")) experiment.expect = *expect;
  for (const char* key : {"metrics", "sweep", "description"}) reader.ignore(key);
  reader.finish();
  return experiment;
}

}  // namespace vitro
