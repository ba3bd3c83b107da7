#include "probe.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/base/config.hpp"
#include "engine/host/host_executor.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/host/probes/probe.hpp"
#include "engine/host/probes/probe_interrupt.hpp"
#include "engine/host/probes/probe_memory.hpp"
#include "engine/host/probes/probe_phase.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/neuron_cluster/cache_probe.hpp"
#include "sim/machines.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

constexpr Format kFormats[] = {Format::f32,  Format::f16,  Format::bf16, Format::q4_0,    Format::q8_0,
                               Format::q4_k, Format::q5_k, Format::q6_k, Format::int8_fp8, Format::int4_fp8,
                               Format::int8_e5m2, Format::int4_e5m2};
constexpr Layout kLayouts[] = {Layout::rows, Layout::tiled, Layout::lut};
constexpr Op kOps[] = {ops::Matmul{}, ops::Accumulate{}, ops::Attention{}, ops::RmsNorm{}, ops::Glu{},
                       ops::Add{},    ops::Rope{},       ops::Select{},    ops::Reduce{}};

// What is simulated is not computed.
class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// Times each call of one operator, between whatever others it stands. Requires: one unit.
class TimedFunction final : public Function {
 public:
  explicit TimedFunction(Function& inner) : inner_(inner) {}
  Outcome execute(const KernelCall& call) override {
    const Picoseconds begin = clock_.now();
    Outcome outcome = inner_.execute(call);
    if (op && kind_of(call.op) == *op) seconds.push_back(to_seconds(clock_.now() - begin));
    return outcome;
  }
  std::optional<OpKind> op;  // none: nothing is timed
  std::vector<double> seconds;

 private:
  Function& inner_;
  HostExecutor clock_;
};

template <class Names>
auto named(Reader& reader, std::string_view key, const Names& values, std::string_view fallback) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(to_string(value));
  const std::string chosen = reader.choice(key, names, fallback);
  for (const auto value : values) {
    if (to_string(value) == chosen) return value;
  }
  throw ConfigError("probe: unreachable choice");
}

std::uint32_t number(Reader& reader, std::string_view key, std::int64_t fallback) {
  return static_cast<std::uint32_t>(reader.integer(key, 0, std::int64_t{1} << 31, fallback));
}
Bytes bytes(Reader& reader, std::string_view key, Bytes fallback) {
  return static_cast<Bytes>(reader.quantity(key, Dimension::bytes, static_cast<double>(fallback)));
}
Picoseconds time(Reader& reader, std::string_view key) { return from_seconds(reader.quantity(key, Dimension::time, 0)); }

// The machine that a probe asks for: {machine: sim, device: {...}} or {machine: host}, and its units.
struct Bench {
  explicit Bench(Reader& reader) {
    const bool sim = reader.choice("machine", {"host", "sim"}, "host") == "sim";
    std::vector<std::string> units;
    if (reader.has("units")) {
      for (const Node& unit : reader.list("units")) units.push_back(unit.text());
    }
    if (sim) {
      function = std::make_unique<NoFunction>();
      MachineRequest request;
      request.kind = "sim";
      if (const Node* device = reader.raw("device")) request.device = *device;
      request.units = units;
      request.phantom = true;
      host = sim::make_machine(request, *function, trace);
      reader.ignore("buffered");
      reader.ignore("spin");
      reader.ignore("policy_computes");
      return;
    }
    function = std::make_unique<ComputeFunction>();
    timed.emplace(*function);
    HostOptions options;
    options.units = units.empty() ? 1 : 0;
    options.unit_names = units;
    options.memory_limits = {32 * GiB, 0, 0, 0};
    options.direct_io = !reader.boolean("buffered", false);
    options.policy_computes = reader.boolean("policy_computes", options.policy_computes);
    options.spin = from_seconds(reader.quantity("spin", Dimension::time, to_seconds(options.spin)));
    reader.ignore("device");
    host = make_host_machine(options, *timed, trace);
  }

  std::unique_ptr<Function> function;
  std::optional<TimedFunction> timed;  // on host
  NullTrace trace;
  std::unique_ptr<MachineHost> host;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

CallShape read_shape(Reader& reader) {
  CallShape shape;
  shape.op = named(reader, "op", kOps, "matmul");
  std::vector<std::string> contracts;
  for (const VariantId id : variant::kOfMatmuls) contracts.emplace_back(variant::name(id));
  shape.variant = variant::by_name(reader.choice("variant", contracts, "float"));
  shape.format = named(reader, "format", kFormats, "f32");
  shape.layout = named(reader, "layout", kLayouts, "rows");
  shape.rows = number(reader, "rows", 0);
  shape.columns = number(reader, "columns", 0);
  shape.batch = number(reader, "batch", 1);
  shape.context = number(reader, "context", 0);
  shape.scattered = reader.boolean("scattered", false);
  return shape;
}

Json kernel(Reader& reader) {
  KernelProbe probe;
  probe.shape = read_shape(reader);
  probe.working_set = bytes(reader, "working_set", 0);
  probe.flush_rows = number(reader, "flush_rows", 0);
  probe.rounds = std::max(1u, number(reader, "rounds", 1));
  probe.repetitions = number(reader, "repetitions", 5);
  Bench bench(reader);
  const bool calls = reader.boolean("each_call", false);
  reader.finish();
  if (calls && bench.timed) bench.timed->op = kind_of(probe.shape.op);
  KernelTimes times = probe_kernel(*bench.host, probe);
  if (calls && bench.timed) times.seconds = std::move(bench.timed->seconds);
  const auto dram = static_cast<std::size_t>(Placement::dram);
  return {{"samples", times.seconds},
          {"macs", times.counts.macs},
          {"elementwise", times.counts.elementwise},
          {"conversions", times.counts.conversions},
          {"read_bytes", times.counts.read[dram]},
          {"written_bytes", times.counts.written[dram]},
          {"row_runs", times.counts.row_runs},
          {"working_set", times.working_set},
          {"calls", times.copies * probe.rounds}};
}

// `units` names all units of the machine; each of `parts` its own.
Json phase(Reader& reader) {
  const std::uint32_t repetitions = std::max(1u, number(reader, "repetitions", 5));
  const std::vector<Node> nodes = reader.list("parts");
  Bench bench(reader);
  reader.finish();
  const std::vector<ComputeUnit*>& units = bench.host->machine().units;
  std::vector<PhasePart> parts;
  for (const Node& node : nodes) {
    Reader part(node, "parts");
    parts.push_back({read_shape(part), {}, std::max(1u, number(part, "copies", 1))});
    for (const Node& name : part.list("units")) {
      const auto found = std::ranges::find(units, name.text(), [](const ComputeUnit* unit) { return unit->caps().name; });
      if (found == units.end()) part.fail("units", "names none of the machine's units");
      parts.back().units.push_back(static_cast<std::size_t>(found - units.begin()));
    }
    if (parts.back().units.empty()) part.fail("units", "is empty");
    part.finish();
  }
  if (parts.empty()) reader.fail("parts", "is empty");
  const PhaseTimes times = probe_phase(*bench.host, parts, repetitions);
  Json answer{{"parts", Json::array()}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    answer["parts"].push_back(
        {{"samples", times.seconds[i]}, {"read_bytes", times.counts[i].read[static_cast<std::size_t>(Placement::dram)]}});
  }
  return answer;
}

Json dispatch(Reader& reader) {
  DispatchProbe probe;
  probe.gap = time(reader, "gap");
  probe.rounds = std::max(1u, number(reader, "rounds", 200));
  probe.skip = number(reader, "skip", 0);
  Bench bench(reader);
  reader.finish();
  return {{"samples", probe_dispatch(*bench.host, probe)}};
}

Json interrupt(Reader& reader) {
  InterruptProbe probe;
  probe.work = read_shape(reader);
  probe.calls = number(reader, "calls", 200);
  probe.repetitions = number(reader, "repetitions", 10);
  Bench bench(reader);
  reader.finish();
  const InterruptTimes times = probe_interrupts(*bench.host, probe);
  return {
      {"alone", times.alone}, {"disturbed", times.disturbed}, {"answers", times.answers}, {"trips", times.trips}, {"queued", times.queued}};
}

Json cache(Reader& reader) {
  CacheProbe probe;
  const std::string eviction = reader.text("eviction", std::string(probe.eviction));
  probe.eviction = eviction;
  probe.blocks = number(reader, "blocks", 1);
  probe.layers = number(reader, "layers", 1);
  probe.capacity = number(reader, "capacity", 1);
  probe.named = number(reader, "named", 1);
  probe.steps = number(reader, "steps", 2);
  reader.finish();
  const HostExecutor clock;
  const CacheTimes times = probe_cache(clock, probe);
  return {{"hit", times.hit}, {"miss", times.miss}, {"hits", times.hits}, {"misses", times.misses}};
}

Json storage(Reader& reader) {
  StorageProbe probe;
  probe.file = reader.text("file", "");
  probe.block = bytes(reader, "block", probe.block);
  probe.range = bytes(reader, "range", probe.range);
  probe.pattern = reader.choice("pattern", {"random", "sequential"}, "random") == "random" ? Pattern::random : Pattern::sequential;
  probe.depth = number(reader, "depth", 1);
  probe.reads = number(reader, "reads", 1000);
  probe.seed = number(reader, "seed", 1);
  probe.fresh_pages = reader.boolean("fresh_pages", false);
  Bench bench(reader);
  reader.finish();
  const double before = cpu_seconds();
  StorageTimes times = probe_storage(*bench.host, probe);
  const double spent = cpu_seconds() - before;
  std::sort(times.latencies.begin(), times.latencies.end());
  const auto at = [&](double share) {
    return times.latencies[static_cast<std::size_t>(share * static_cast<double>(times.latencies.size() - 1))];
  };
  return {{"seconds", times.seconds},
          {"bytes_per_second", static_cast<double>(probe.block) * probe.reads / times.seconds},
          {"seconds_per_read", times.seconds / probe.reads},
          {"latency", {{"p10", at(0.1)}, {"p50", at(0.5)}, {"p90", at(0.9)}, {"p99", at(0.99)}}},
          {"cpu_seconds_per_read", spent / probe.reads},
          {"path", bench.host->machine().storage.caps().path}};
}

Json reads(Reader& reader) {
  ReadProbe probe;
  probe.bytes = bytes(reader, "bytes", GiB);
  probe.stride = bytes(reader, "stride", 0);
  probe.threads = number(reader, "threads", 1);
  probe.repetitions = number(reader, "repetitions", 5);
  reader.finish();
  return {{"samples", probe_reads(probe)}};
}

Json load_latency(Reader& reader) {
  const Bytes size = bytes(reader, "bytes", GiB);
  const std::uint32_t repetitions = number(reader, "repetitions", 5);
  reader.finish();
  return {{"samples", probe_load_latency(size, repetitions)}};
}

Json plain(Reader& reader, std::vector<double> (*probe)(std::uint32_t)) {
  const std::uint32_t repetitions = number(reader, "repetitions", 5);
  reader.finish();
  return {{"samples", probe(repetitions)}};
}

struct Probe {
  std::string_view kind;
  Json (*answer)(Reader& reader);
};
constexpr Probe kProbes[] = {
    {"kernel", kernel},
    {"phase", phase},
    {"hand_off", dispatch},
    {"interrupt", interrupt},
    {"cache", cache},
    {"storage", storage},
    {"reads", reads},
    {"load_latency", load_latency},
    {"clock", [](Reader& reader) { return plain(reader, probe_clock); }},
    {"call_building", [](Reader& reader) { return plain(reader, probe_call_building); }},
};

}  // namespace

std::string run_probe_text(const std::string& kind, const std::string& args) {
  const Node node = parse_json(args, "probe " + kind);
  Reader reader(node, "");
  const auto* probe = std::ranges::find(kProbes, kind, &Probe::kind);
  if (probe == std::end(kProbes)) {
    throw ConfigError(fmt::format(
        "probe: \"{}\" is not known (expected kernel, phase, hand_off, interrupt, cache, storage, reads, load_latency, clock or "
        "call_building)",
        kind));
  }
  return probe->answer(reader).dump();
}

}  // namespace vitro
