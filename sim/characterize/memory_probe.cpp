#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

constexpr Picoseconds kMs{1'000'000'000};
constexpr std::uint32_t kCalls = 40, kCopies = 512;

// A block move without arithmetic, from DRAM into memory of the unit's own.
KernelCall copy_call(Bench& bench) {
  KernelCall call;
  call.op = ops::Copy{};
  call.in.push_back(bench.view({1024, 512, 0}, Format::f32, Placement::dram));
  call.out.push_back(bench.view({1024, 512, 0}, Format::f32, Placement::npu_tcm));
  return call;
}

}  // namespace

// Every unit streams operands of its own from DRAM; bytes are counted over a window in which all are at work.
ProbeResult memory_bandwidth(const Node& device, Reader& args) {
  constexpr Picoseconds kBegin = 5 * kMs, kEnd = 15 * kMs;
  Bench bench(device);
  const std::vector<ComputeUnit*> units = bench.units(args, "units");
  const bool copy = args.choice("work", {"matmul", "copy"}, "matmul") == "copy";
  const Product product = copy ? Product{} : read_product(args);
  args.finish();
  std::vector<Task<void>> tasks;
  for (ComputeUnit* unit : units)
    tasks.push_back(run_on(unit, copy ? Chain(kCopies, copy_call(bench)) : Chain(kCalls, product_call(bench, product)), 1));
  bench.run(std::move(tasks));
  if (bench.now() < kEnd) throw RunError("memory_bandwidth: the streams ended before 15 ms had passed; give it larger matrices");
  return bench.result({{"bytes_per_second", bench.dram_bytes_per_second(kBegin, kEnd)}});
}

}  // namespace vitro::sim
