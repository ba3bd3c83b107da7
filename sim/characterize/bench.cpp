#include "sim/characterize/bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/ops/variants.hpp"

namespace vitro::sim {
namespace {

constexpr Format kFormats[] = {Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0};

SimOptions bench_options(const Node& device) {
  SimOptions options;
  options.device = device;
  options.phantom = true;
  options.memory_limits = {64 * GiB, GiB, 64 * GiB, 0};  // no probe is about capacity
  return options;
}

Task<void> join_all(Machine* machine, std::vector<Task<void>> tasks) {
  TaskScope scope(machine->executor);
  for (Task<void>& task : tasks) scope.spawn(std::move(task));
  co_await scope.join();
}

}  // namespace

Bench::Bench(const Node& device) : host_(make_sim_machine(bench_options(device), function_, trace_)) {}

void Bench::run(std::vector<Task<void>> tasks) { host_->run(join_all(&machine(), std::move(tasks))); }

double Bench::dram_bytes_per_second(Picoseconds begin, Picoseconds end) {
  return host_->report(begin, end).dram_bandwidth_gb_per_s.value() * 1e9;
}

std::vector<ComputeUnit*> Bench::units(const std::string& wanted) {
  std::vector<ComputeUnit*> found;
  std::vector<std::string> known;
  for (ComputeUnit* unit : machine().units) {
    const UnitCaps& caps = unit->caps();
    if (caps.core_class == wanted || caps.name == wanted) found.push_back(unit);
    if (known.empty() || known.back() != caps.core_class) known.push_back(caps.core_class);
  }
  if (found.empty()) throw ConfigError(fmt::format("probe: the device has no \"{}\" (it has {})", wanted, fmt::join(known, ", ")));
  return found;
}

std::vector<ComputeUnit*> Bench::units(Reader& args, std::string_view key) {
  std::vector<ComputeUnit*> all;
  for (const Node& name : args.list(key)) {
    if (!name.is_scalar()) args.fail(key, "is not a list of names (expected core classes or units, such as [big, npu])");
    for (ComputeUnit* unit : units(name.text())) all.push_back(unit);
  }
  if (all.empty()) args.fail(key, "is empty (expected core classes or units, such as [big, npu])");
  return all;
}

View Bench::view(std::array<std::uint32_t, 3> shape, Format format, Placement where) {
  View view;
  const std::uint64_t elements = std::uint64_t{shape[0]} * shape[1];
  view.memory = machine().memory.lease(elements / format.block * format.block_bytes(), where, Region::activation).value_or_throw();
  view.shape = shape;
  view.format = format;
  return view;
}

ProbeResult Bench::result(std::vector<std::pair<std::string, double>> measures) {
  MachineReport report = host_->report(Picoseconds(0), now());
  return {std::move(measures), std::move(report.assumed_parameters), std::move(report.event_hash)};
}

Product read_product(Reader& args, bool shape) {
  Product p;
  p.variant = args.choice("variant", {"float", "int8", "reference"});
  std::vector<std::string> names;
  for (const Format format : kFormats) names.emplace_back(to_string(format));
  const std::string name = args.choice("format", names);
  p.format = kFormats[std::find(names.begin(), names.end(), name) - names.begin()];
  p.activations = args.choice("activations", {"f32", "f16"}, "f32") == "f16" ? Format::f16 : Format::f32;
  p.m = static_cast<std::uint32_t>(args.integer("m", 1, 1 << 16, 1));
  p.where = args.choice("memory", {"dram", "tcm"}, "dram") == "tcm" ? Placement::npu_tcm : Placement::dram;
  if (!shape) return p;
  p.n = static_cast<std::uint32_t>(args.integer("n", 1, 1 << 20));
  p.k = static_cast<std::uint32_t>(args.integer("k", 32, 1 << 20));
  if (p.k % 32 != 0) args.fail("k", "is not a multiple of 32, the size of a quantised block");
  return p;
}

KernelCall product_call(Bench& bench, const Product& p) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::by_name(p.variant);
  call.in.push_back(bench.view({p.n, p.k, 0}, p.format, p.where));
  call.in.push_back(bench.view({p.m, p.k, 0}, p.activations, p.where));
  call.out.push_back(bench.view({p.m, p.n, 0}, p.activations, p.where));
  call.batch = std::make_shared<const std::vector<SeqPos>>(p.m);
  return call;
}

Task<void> run_on(ComputeUnit* unit, Chain chain, std::uint32_t times) {
  GraphSpec spec{"probe", std::move(chain), true};
  const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
  for (std::uint32_t i = 0; i < times; ++i) {
    Bindings bindings;
    const RunResult result = co_await unit->launch(graph, std::move(bindings));
    result.status.or_throw();
  }
  unit->unload(graph);
}

}  // namespace vitro::sim
