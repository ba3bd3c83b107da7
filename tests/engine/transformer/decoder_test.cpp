// make_decoder: what it makes of a fitting request, which key it names otherwise, and what it charges to the budget.
#include "engine/transformer/decoder.hpp"

#include <set>

#include "tests/effort.hpp"
#include "tests/engine/transformer/model_kit.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kChunk = 8;

class Nothing final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// All that make_decoder() asks for, of a model without bytes.
struct Request {
  EngineConfig engine = engine_of();
  MemoryConfig memory;
  ModelConfig config = tiny_dense();
  std::optional<BundleForm> bundles;
  bool copy = false;  // of the layers' products
  Bytes budget = GiB;
  PolicyLimits limits{kChunk, kChunk, 64, 32, 2};
  std::vector<UnitCaps> units;

  Request() : units(units_of(3, {"npu", "gpu"})) {
    units.back().static_graphs = false;
    config.ffn = 128;
  }
};

// A request that suits the composition of that name.
Request fitting(const std::string& policy) {
  Request request;
  EngineConfig& engine = request.engine;
  engine = engine_of(policy);
  engine.prefill_chunk = kChunk;
  engine.weights.read_ahead = 2 * kPageSize;
  engine.weights.neurons.staging = 64 * KiB;
  if (policy == "npu_dense" || policy == "llm_npu") engine.placement.units = {"cpu0", "cpu1", "npu"};
  request.copy = policy == "llm_npu";
  if (engine.weights.kind == "bundles") {
    request.config.activation = Activation::relu;
    request.bundles = engine.weights.neurons.bundle ? BundleForm::one_read : BundleForm::apart;
    if (engine.weights.neurons.two_phases) request.bundles = BundleForm::two_phases;
  }
  if (engine.ffn.kind == "experts") {
    request.config.experts = 5, request.config.experts_used = 2;
    engine.ffn.experts.loads.assign(request.config.layers, std::vector<double>(5, 0.2));
    engine.kv.format = Format::f16;
  }
  return request;
}

// What making the decoder and loading its weights says: "" when both succeed.
struct Made {
  std::string error;
  Bytes runtime = 0, weight_bytes = 0;
  std::size_t weights = 0;
  Bytes left = 0;  // charged when the decoder has died
};
Made make(const Request& request) {
  Made made;
  Nothing function;
  NullTrace trace;
  VirtualMachineSpec spec = machine_spec(request.units);
  spec.phantom = true;
  spec.memory_limits = {request.budget, 0, 0, 0};
  VirtualMachine host(spec, function, trace);
  Machine& machine = host.machine();
  const FileId file = machine.storage.open_phantom(GiB).value_or_throw();
  const WeightStore weights = phantom_weights(request.config, Format::f16, file, request.bundles);
  const WeightStore copy = request.copy ? phantom_products(request.config, Format::q8_0, file) : WeightStore();
  made.error = message_of([&] {
    Decoder decoder =
        make_decoder(machine, request.engine, request.memory, request.config, weights, request.limits, request.copy ? &copy : nullptr);
    made.runtime = machine.memory.budget(Placement::dram).region_used[static_cast<std::size_t>(Region::runtime)];
    host.run(decoder.load());
  });
  made.weight_bytes = weights.total_bytes();
  made.weights = weights.all().size();
  made.left = machine.memory.budget(Placement::dram).used;
  return made;
}

// Checks that the request is refused with an error that begins with the key.
void expect_refused(const Request& request, const std::string& key) {
  const Made made = make(request);
  EXPECT_TRUE(made.error.starts_with(key + ": ")) << request.engine.policy << ": \"" << made.error << "\" instead of " << key;
  EXPECT_EQ(made.left, 0u);
}

template <class Change>
void expect_refused(const std::string& policy, const std::string& key, Change change) {
  Request request = fitting(policy);
  change(request);
  expect_refused(request, key);
}

TEST(Decoder, each_composition_is_made_where_it_fits) {
  std::set<std::string_view> names;
  for (const PolicyInfo& info : policies()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " is listed twice";
    EXPECT_FALSE(info.description.empty());
    EXPECT_EQ(make(fitting(info.name)).error, "") << info.name;
  }
  EXPECT_GE(names.size(), 13u);
}

// A model in the layout of one composition, and the parts of another.
TEST(Decoder, each_composition_takes_any_model_or_names_what_is_wrong) {
  for (const PolicyInfo& asked : policies()) {
    for (const PolicyInfo& shape : policies()) {
      Request request = fitting(asked.name);
      const Request other = fitting(shape.name);
      if (request.bundles && !other.bundles) continue;  // who loads a model sees to that
      request.config = other.config, request.bundles = other.bundles;
      const std::string error = make(request).error;
      EXPECT_TRUE(error.empty() || error.starts_with("engine.") || error.starts_with("memory.")) << asked.name << ": " << error;
      EXPECT_TRUE(error.empty() || error.find(": ") != std::string::npos) << error;
    }
  }
}

TEST(Decoder, units_have_to_be_there_once_and_enough_of_them) {
  for (const PolicyInfo& info : policies()) {
    const bool one = fitting(info.name).engine.placement.kind == "unit";  // it refuses two for that
    const auto with_another = [&](const std::string& name) {
      expect_refused(info.name, "engine.units", [&](Request& request) {
        std::vector<std::string>& units = request.engine.placement.units;
        if (units.empty()) units = {"cpu0"};
        if (one) units.clear();
        units.push_back(name);
      });
    };
    with_another("cpu9");
    expect_refused(info.name, "engine.units", [](Request& request) {
      std::vector<std::string>& units = request.engine.placement.units;
      if (units.empty()) units = {"cpu0"};
      units.push_back(units.front());
    });
    expect_refused(info.name, "engine.threads", [](Request& request) {
      request.engine.placement.units.clear();
      request.engine.placement.threads = 4;
    });
  }
}

Request with_units(const std::string& policy, std::vector<std::string> units) {
  Request request = fitting(policy);
  request.engine.placement.units = std::move(units);
  return request;
}

TEST(Decoder, accelerators_take_a_cores_products_wherever_weights_lie) {
  for (const char* policy : {"dense", "mmap", "neuron_cluster", "npumoe", "coreml_cpu"}) {
    EXPECT_EQ(make(with_units(policy, {"cpu0", "npu"})).error, "") << policy;
  }
  EXPECT_EQ(make(with_units("dense", {"npu"})).error, "") << "beside the first core";
  EXPECT_EQ(make(with_units("dense", {"cpu0", "cpu1", "npu"})).error, "") << "each core hands its share over";
  for (const char* policy : {"npu_dense", "llm_npu"}) {
    EXPECT_EQ(make(with_units(policy, {"cpu0", "cpu1"})).error, "") << policy << " takes the machine's accelerator";
    EXPECT_EQ(make(with_units(policy, {"npu"})).error, "") << policy << ", beside the first core";
    Request lacking = with_units(policy, {"cpu0", "cpu1"});
    lacking.units = units_of(3);
    expect_refused(lacking, "engine.placement.kind");
  }
  expect_refused(with_units("qnn", {"cpu0", "npu"}), "engine.units");
  Request two = with_units("dense", {"cpu0", "npu", "gpu"});
  two.units.back().static_graphs = true;
  EXPECT_EQ(make(two).error, "") << "one core hands one half to each";
}

TEST(Decoder, an_accelerator_takes_shares_beside_the_cores) {
  for (const char* policy : {"neuron_cluster", "dense", "mmap"}) {
    Request hybrid = fitting(policy);
    hybrid.engine.placement.unit = "npu";
    hybrid.engine.placement.splits = {{1, 0.5, 0.5, 0}, {4, 1, 1, 0.25}};
    hybrid.engine.ffn.clusters.hot_cluster = 32;
    EXPECT_EQ(make(hybrid).error, "") << policy;
    hybrid.engine.placement.unit = "npu9";
    expect_refused(hybrid, "engine.placement.unit");
  }
}

TEST(Decoder, embedding_and_keys_and_values_may_lie_in_flash_beside_any_parts) {
  for (const PolicyInfo& info : policies()) {
    Request request = fitting(info.name);
    request.engine.weights.embedding_in_flash = true;
    EXPECT_EQ(make(request).error, "") << info.name;
    request.engine.kv.dram_tokens = 8;
    EXPECT_EQ(make(request).error, "") << info.name;
    request.engine.kv = {};
    request.engine.kv.format = Format::int8_fp8;
    EXPECT_EQ(make(request).error, "") << info.name;
    request.config.tied_embedding = true;
    expect_refused(request, "engine.weights.embedding");
  }
}

TEST(Decoder, what_parts_can_not_do_is_refused_by_its_key) {
  for (const char* policy : {"npumoe", "anemll"}) {
    expect_refused(policy, "engine.placement.graph_units", [](Request& r) { r.engine.placement.graph_units = {"npu7"}; });
    expect_refused(policy, "engine.placement.graph_units", [](Request& r) { r.units = units_of(3); });
  }
  for (const char* policy : {"npumoe", "coreml_naive"}) {
    expect_refused(policy, "engine.ffn.experts.loads", [](Request& r) { r.engine.ffn.experts.loads.pop_back(); });
    expect_refused(policy, "engine.ffn.experts.loads", [](Request& r) { r.engine.ffn.experts.loads[1][0] = 0.5; });
  }
  for (const PolicyInfo& info : policies()) {
    const EngineConfig engine = engine_of(info.name);
    if (engine.ffn.kind == "experts") {
      expect_refused(info.name, "engine.ffn.kind", [](Request& r) { r.config.experts = r.config.experts_used = 0; });
    }
    if (engine.ffn.kind == "clusters") {
      expect_refused(info.name, "engine.ffn.clusters.io_core", [](Request& r) { r.engine.ffn.clusters.io_core = "cpu9"; });
    } else {
      Request bundled = fitting(info.name);
      bundled.bundles = BundleForm::one_read;
      EXPECT_EQ(make(bundled).error, "") << info.name << " computes every neuron";
    }
    if (engine.weights.kind == "dram") {
      expect_refused(info.name, "memory.ffn_in_dram", [](Request& r) { r.memory.ffn_in_dram = 0.5; });
    }
  }
}

TEST(Decoder, sessions_have_to_map_weights_and_keys_and_values) {
  for (const char* policy : {"qnn", "npu_dense", "llm_npu"}) {
    Request request = fitting(policy);
    for (UnitCaps& caps : request.units) caps.session_limit = caps.static_graphs ? 64 * KiB : 0;
    EXPECT_EQ(make(request).error, "") << "as many as the model takes";
    request.engine.placement.sessions = 1;
    expect_refused(request, "engine.sessions");
    request.engine.placement.sessions = 100;
    EXPECT_EQ(make(request).error, "") << policy;
  }
}

TEST(Decoder, the_runtime_is_charged_and_everything_returns) {
  for (const PolicyInfo& info : policies()) {
    const Request request = fitting(info.name);
    const Made made = make(request);
    EXPECT_EQ(made.runtime, round_up(runtime_bytes(request.config, made.weight_bytes, made.weights), kPageSize)) << info.name;
    EXPECT_GT(made.runtime, 0u);
    EXPECT_EQ(made.left, 0u) << info.name;
  }
}

// Beside any parts that an accelerator takes attention of, on a machine with two of them.
TEST(Decoder, keys_and_values_may_be_staged_wherever_an_accelerator_attends) {
  for (const PolicyInfo& info : policies()) {
    Request request = fitting(info.name);
    request.engine.kv.format = Format::int4_e5m2;
    request.engine.placement.stages_kv = true;
    EXPECT_EQ(make(request).error, "") << info.name;
    request.engine.kv.dram_tokens = 8;
    EXPECT_EQ(make(request).error, "") << info.name;
    request.engine.kv.per_query_head = true;
    EXPECT_EQ(make(request).error, "") << info.name;
  }
}

// With more experts to a graph it waits for more of them at once.
TEST(Decoder, the_smallest_working_set_of_mapped_weights_is_known_before_the_first_step) {
  for (const bool experts : {false, true}) {
    const auto least = [&](std::uint32_t group) {
      for (Bytes budget = 64 * KiB; budget < 4 * MiB; budget += kPageSize) {
        Request request = fitting(experts ? "npumoe" : "mmap");
        request.engine.weights.kind = "paged";
        if (experts) request.engine.ffn.experts.group = group;
        request.budget = budget;
        const std::string error = make(request).error;
        if (error.empty()) return budget;
        EXPECT_TRUE(error.starts_with("memory.budget: ")) << error;
      }
      return Bytes{0};
    };
    EXPECT_GT(least(1), 0u);
    if (experts) {
      EXPECT_GT(least(5), least(1));
    }
  }
}

// From nothing to plenty: a budget either does or is refused as too small, and more of it never hurts.
TEST(Decoder, a_budget_is_enough_or_named) {
  const Bytes few = test::all_or_few(1, 4);
  for (const PolicyInfo& info : policies()) {
    bool enough = false;
    for (Bytes budget = 0; budget <= 4 * MiB; budget += few * (budget < 64 * KiB ? kPageSize : 48 * KiB)) {
      Request request = fitting(info.name);
      request.budget = budget;
      const Made made = make(request);
      EXPECT_TRUE(made.error.empty() || made.error.starts_with("memory.budget")) << info.name << ", " << budget << ": " << made.error;
      EXPECT_FALSE(enough && !made.error.empty()) << info.name << ": less than " << budget << " was enough, but now " << made.error;
      EXPECT_EQ(made.left, 0u) << info.name << ", " << budget;
      enough = enough || made.error.empty();
      EXPECT_FALSE(enough && budget < runtime_bytes(request.config, made.weight_bytes, made.weights));
    }
    EXPECT_TRUE(enough) << info.name;
  }
}

}  // namespace
}  // namespace vitro
