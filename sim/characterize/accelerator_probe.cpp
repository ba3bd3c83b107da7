#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

Task<void> launch_once(ComputeUnit* unit, Graph graph, RunResult* result) {
  Bindings bindings;
  *result = co_await unit->launch(graph, std::move(bindings));
}

Task<void> run_call(ComputeUnit* unit, KernelCall call) {
  const RunResult result = co_await unit->run(std::move(call));
  result.status.or_throw();
}

// Cuts the output of a product evenly, in whole SIMD tiles, over CPU cores. On an accelerator: launches its graph.
struct Shared {
  std::vector<ComputeUnit*> units;
  KernelCall call;
};

Task<void> product_on_cores(Machine* machine, const Shared* work) {
  const auto rows =
      static_cast<std::uint32_t>(round_up((work->call.in[0].shape[0] + work->units.size() - 1) / work->units.size(), kTileRows));
  TaskScope scope(machine->executor);
  std::uint32_t first = 0;
  for (ComputeUnit* unit : work->units) {
    if (first >= work->call.in[0].shape[0]) break;
    KernelCall share = work->call;
    share.slice = {first, std::min(rows, work->call.in[0].shape[0] - first)};
    scope.spawn(run_call(unit, std::move(share)));
    first += rows;
  }
  co_await scope.join();
}

// The second of two runs, hand-over included: by then a graph is current.
Task<void> time_product(Machine* machine, Shared work, double* seconds) {
  Clock& clock = machine->clock;
  if (work.units.size() > 1) {
    co_await product_on_cores(machine, &work);
    const Picoseconds begin = clock.now();
    co_await product_on_cores(machine, &work);
    *seconds = to_seconds(clock.now() - begin);
    co_return;
  }
  GraphSpec spec{"product", {work.call}, true};
  const Graph graph = (co_await work.units[0]->load(std::move(spec))).value_or_throw();
  RunResult result;
  co_await launch_once(work.units[0], graph, &result);
  const Picoseconds begin = clock.now();
  co_await launch_once(work.units[0], graph, &result);
  *seconds = to_seconds(clock.now() - begin);
  work.units[0]->unload(graph);
}

Task<void> time_products(Machine* machine, std::vector<Shared> works, double* mean_log) {
  for (Shared& work : works) {
    double seconds = 0;
    const double share = 1.0 / static_cast<double>(works.size());
    co_await time_product(machine, std::move(work), &seconds);
    *mean_log += std::log(seconds) * share;
  }
}

struct Repeats {
  std::uint32_t runs = 1;
  Picoseconds gap{0};
  Picoseconds begin{0}, end{0}, busy{0};
};

Task<void> repeat(Machine* machine, ComputeUnit* unit, KernelCall call, Repeats* repeats) {
  Clock& clock = machine->clock;
  GraphSpec spec{"kernel", {std::move(call)}, true};
  const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
  RunResult result;
  co_await launch_once(unit, graph, &result);
  repeats->begin = clock.now();
  for (std::uint32_t i = 0; i < repeats->runs; ++i) {
    const Picoseconds begin = clock.now();
    co_await launch_once(unit, graph, &result);
    repeats->busy += clock.now() - begin;
    co_await sleep_until(machine->executor, clock.now() + repeats->gap);
  }
  repeats->end = clock.now();
  unit->unload(graph);
}

// Products of [rows, k] in float16 that together weigh so many bytes.
Chain products_of(Bench& bench, Bytes bytes, std::uint32_t k, std::uint32_t m) {
  constexpr std::uint32_t kMostRows = 4096;
  Chain chain;
  for (Bytes rows = bytes / (2 * k); rows > 0;) {
    const auto n = static_cast<std::uint32_t>(std::min<Bytes>(rows, kMostRows));
    chain.push_back(product_call(bench, {.variant = "float", .format = Format::f16, .m = m, .n = n, .k = k}));
    rows -= n;
  }
  return chain;
}

struct Limit {
  Bytes bytes = 0;  // of the largest graph that the unit ran itself
  double slowdown = 0;
};

// Whether a graph stays on the unit shows on the CPU's cores, which otherwise take in its result and do nothing else.
constexpr double kPolicyShare = 0.01;
Task<void> find_limit(Bench* bench, ComputeUnit* unit, Bytes most, std::uint32_t m, Limit* limit) {
  Machine& machine = bench->machine();
  Bytes low = 0, high = most / MiB + 1;
  double low_seconds = 0, high_seconds = 0;
  while (high - low > 1) {
    const Bytes size = (low + high) / 2;
    GraphSpec spec{"products", products_of(*bench, size * MiB, 4096, m), true};
    const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
    const Picoseconds begin = machine.clock.now();
    RunResult result;
    co_await launch_once(unit, graph, &result);
    result.status.or_throw();
    const Picoseconds end = machine.clock.now();
    const bool on_cpu = bench->report(begin, end).cpu_utilization.value_or(0) > kPolicyShare;
    (on_cpu ? high : low) = size;
    (on_cpu ? high_seconds : low_seconds) = to_seconds(end - begin) / static_cast<double>(size);
    unit->unload(graph);
  }
  if (high > most / MiB)
    throw RunError(fmt::format("graph_limit: {} still runs a graph of {} itself, so there is no limit to find", unit->caps().name,
                               format_bytes(most)));
  *limit = {low * MiB, low == 0 ? 0 : high_seconds / low_seconds};
}

std::uint32_t positive(Reader& args, std::string_view key, std::int64_t most) {
  return static_cast<std::uint32_t>(args.integer(key, 1, most));
}

}  // namespace

// W [n, k] x [m, k] for several n, as geometric mean of the times: what a caller waits for, hand-over included.
ProbeResult dense_products(const Node& device, Reader& args) {
  Bench bench(device);
  const std::vector<ComputeUnit*> units = bench.units(args, "units");
  Product p = read_product(args, false);
  p.k = positive(args, "k", 1 << 20);
  std::vector<Shared> works;
  for (const Node& n : args.list("n")) {
    const std::string text = n.is_scalar() ? n.text() : "";
    p.n = 0;
    std::from_chars(text.data(), text.data() + text.size(), p.n);
    if (p.n == 0) args.fail("n", "is not a list of sizes (expected for example [1024, 4096])");
    works.push_back({units, product_call(bench, p)});
  }
  args.finish();
  if (works.empty()) args.fail("n", "is empty (expected for example [1024, 4096])");
  for (const ComputeUnit* unit : units) {
    if (units.size() > 1 && unit->caps().static_graphs) args.fail("units", "mixes cores with a unit that runs graphs");
  }
  double mean_log = 0;
  std::vector<Task<void>> tasks;
  tasks.push_back(time_products(&bench.machine(), std::move(works), &mean_log));
  bench.run(std::move(tasks));
  return bench.result({{"seconds", std::exp(mean_log)}});
}

// One chunk of queries against all keys up to them, the last of which is at `context`.
ProbeResult attention_kernel(const Node& device, Reader& args) {
  constexpr std::uint32_t kBlockTokens = 16;
  Bench bench(device);
  ComputeUnit* unit = bench.units(args.text("unit"))[0];
  const std::uint32_t heads = positive(args, "heads", 1024), kv_heads = positive(args, "kv_heads", 1024), dim = positive(args, "dim", 4096);
  const std::uint32_t context = positive(args, "context", 1 << 20), rows = positive(args, "rows", context);
  Repeats repeats;
  repeats.runs = positive(args, "runs", 1000);
  repeats.gap = from_seconds(args.quantity("gap", Dimension::time));
  args.finish();
  const std::uint32_t blocks = (context + kBlockTokens - 1) / kBlockTokens;
  KernelCall call;
  call.op = ops::Attention{};
  call.in.push_back(bench.view({rows, heads * dim, 0}, Format::f32, Placement::dram));
  call.in.push_back(bench.view({2 * kv_heads * blocks * kBlockTokens, dim, 0}, Format::f16, Placement::dram));
  call.in.back().shape = {kv_heads, kBlockTokens, dim};
  call.in.push_back(bench.view({rows, blocks, 0}, Format::index32, Placement::dram));
  call.out.push_back(bench.view({rows, heads * dim, 0}, Format::f32, Placement::dram));
  auto batch = std::make_shared<std::vector<SeqPos>>(rows);
  for (std::uint32_t i = 0; i < rows; ++i) (*batch)[i].position = context - rows + i;
  call.batch = std::move(batch);
  std::vector<Task<void>> tasks;
  tasks.push_back(repeat(&bench.machine(), unit, std::move(call), &repeats));
  bench.run(std::move(tasks));
  std::vector<std::pair<std::string, double>> measures{{"seconds", to_seconds(repeats.busy) / repeats.runs}};
  if (const auto joules = bench.report(repeats.begin, repeats.end).energy_j) {
    measures.emplace_back("joules", *joules / repeats.runs);
    measures.emplace_back("watts", *joules / to_seconds(repeats.end - repeats.begin));
  }
  return bench.result(std::move(measures));
}

ProbeResult graph_limit(const Node& device, Reader& args) {
  Bench bench(device);
  ComputeUnit* unit = bench.units(args.text("unit"))[0];
  const std::uint32_t m = positive(args, "m", 1 << 16);
  const auto most = static_cast<Bytes>(args.quantity("most", Dimension::bytes));
  args.finish();
  Limit limit;
  std::vector<Task<void>> tasks;
  tasks.push_back(find_limit(&bench, unit, most, m, &limit));
  bench.run(std::move(tasks));
  return bench.result({{"bytes", static_cast<double>(limit.bytes)}, {"slowdown", limit.slowdown}});
}

// One launch of one kernel, and what the same kernel adds to a chain.
ProbeResult launch_share(const Node& device, Reader& args) {
  constexpr std::uint32_t kMore = 16;
  Bench bench(device);
  ComputeUnit* unit = bench.units(args.text("unit"))[0];
  const Product p = read_product(args);
  args.finish();
  double alone = 0, chained = 0;
  std::vector<Task<void>> tasks;
  tasks.push_back([](Machine* machine, ComputeUnit* on, KernelCall call, double* one, double* many) -> Task<void> {
    const Chain chain(kMore + 1, call);
    for (const bool lone : {true, false}) {
      GraphSpec spec{"kernel", lone ? Chain{call} : chain, true};
      const Graph graph = (co_await on->load(std::move(spec))).value_or_throw();
      const Picoseconds begin = machine->clock.now();
      RunResult result;
      co_await launch_once(on, graph, &result);
      *(lone ? one : many) = to_seconds(machine->clock.now() - begin);
      on->unload(graph);
    }
  }(&bench.machine(), unit, product_call(bench, p), &alone, &chained));
  bench.run(std::move(tasks));
  return bench.result({{"share", (chained - alone) / kMore / alone}, {"seconds", alone}});
}

}  // namespace vitro::sim
