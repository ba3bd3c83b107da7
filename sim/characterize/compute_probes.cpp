#include <array>

#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

Task<void> time_launches(ComputeUnit* unit, Chain once, std::uint32_t more, Clock* clock, std::array<Picoseconds, 3>* at) {
  Chain many(more + 1, once[0]);
  (*at)[0] = clock->now();
  co_await run_on(unit, std::move(once), 1);
  (*at)[1] = clock->now();
  co_await run_on(unit, std::move(many), 1);
  (*at)[2] = clock->now();
}

// Row blocks of one layer, taken by whichever core is free.
struct RowBlocks {
  std::vector<KernelCall> calls;
  std::size_t next = 0;
};

Task<void> work_off(ComputeUnit* unit, RowBlocks* blocks) {
  while (blocks->next < blocks->calls.size()) {
    KernelCall call = blocks->calls[blocks->next++];
    const RunResult result = co_await unit->run(std::move(call));
    result.status.or_throw();
  }
}

Task<void> all_layers(Machine* machine, std::vector<ComputeUnit*> units, const Chain* layer, std::uint32_t layers) {
  constexpr std::uint32_t kBlockRows = 64;  // small against a core's share, so that no core waits long for the last one
  for (std::uint32_t l = 0; l < layers; ++l) {
    RowBlocks blocks;
    for (const KernelCall& product : *layer) {
      for (std::uint32_t first = 0; first < product.in[0].shape[0]; first += kBlockRows) {
        blocks.calls.push_back(product);
        blocks.calls.back().slice = {first, std::min(kBlockRows, product.in[0].shape[0] - first)};
      }
    }
    TaskScope scope(machine->executor);
    for (ComputeUnit* unit : units) scope.spawn(work_off(unit, &blocks));
    co_await scope.join();
  }
}

// The device with cores that run another kernel set than their fastest: what an instruction is worth.
Node with_kernel_set(const Node& device, const std::string& set) {
  const Node* clusters = device.find_path("cpu.clusters");
  if (set.empty() || clusters == nullptr || !clusters->is_list()) return device;
  std::vector<Node> changed = clusters->items();
  for (Node& cluster : changed) cluster.set("kernel_set", Node::scalar(set, cluster.origin()));
  Node out = device;
  out.set_path("cpu.clusters", Node::list(std::move(changed), clusters->origin()));
  return out;
}

}  // namespace

// The rate of one product on one unit. Handing work over is left out: 17 calls are timed against 1.
ProbeResult gemm(const Node& device, Reader& args) {
  constexpr std::uint32_t kMore = 16;
  Bench bench(with_kernel_set(device, args.text("kernel_set", "")));
  ComputeUnit* unit = bench.units(args.text("unit"))[0];
  const Product p = read_product(args);
  args.finish();
  std::array<Picoseconds, 3> at{};
  std::vector<Task<void>> tasks;
  tasks.push_back(time_launches(unit, {product_call(bench, p)}, kMore, &bench.machine().clock, &at));
  bench.run(std::move(tasks));
  const double seconds = to_seconds((at[2] - at[1]) - (at[1] - at[0])) / kMore;
  return bench.result({{"flop_per_second", 2.0 * p.m * p.n * p.k / seconds}, {"seconds", seconds}});
}

// The weight products of a prompt of m tokens through all layers of a Llama-shaped model. Attention, norms and the output
// head are left out: an upper bound of what a prefill on these units can reach.
ProbeResult prompt_matmuls(const Node& device, Reader& args) {
  Bench bench(device);
  const std::vector<ComputeUnit*> units = bench.units(args, "units");
  Product p = read_product(args, false);
  const auto hidden = static_cast<std::uint32_t>(args.integer("hidden", 32, 1 << 16));
  const auto ffn = static_cast<std::uint32_t>(args.integer("ffn", 32, 1 << 18));
  const auto layers = static_cast<std::uint32_t>(args.integer("layers", 1, 1000));
  if (hidden % 32 != 0 || ffn % 32 != 0) args.fail("hidden", "and ffn have to be multiples of 32");
  args.finish();
  Chain layer;
  const auto add = [&](std::uint32_t n, std::uint32_t k, int times) {
    p.n = n;
    p.k = k;
    for (int i = 0; i < times; ++i) layer.push_back(product_call(bench, p));
  };
  add(hidden, hidden, 4);
  add(ffn, hidden, 2);
  add(hidden, ffn, 1);
  std::vector<Task<void>> tasks;
  if (units.size() > 1) {
    for (const ComputeUnit* unit : units) {
      if (unit->caps().static_graphs) args.fail("units", "mixes cores with a unit that runs graphs (splitting over both is policy)");
    }
    tasks.push_back(all_layers(&bench.machine(), units, &layer, layers));
  } else {
    tasks.push_back(run_on(units[0], layer, layers));
  }
  bench.run(std::move(tasks));
  return bench.result({{"tokens_per_second", p.m / to_seconds(bench.now())}});
}

}  // namespace vitro::sim
