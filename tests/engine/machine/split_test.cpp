// An FFN split over an accelerator and three cores: clusters finish in an order that depends on timing, partial sums go
// to a slot per cluster, and one reduce adds them in neuron order. So the bits are the same at any timing.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "engine/base/rng.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kNeurons = 512, kWidth = 64, kCluster = 32, kClusters = kNeurons / kCluster;

// matmul: the cluster's partial sum of its neurons' rows. reduce: the partial sums in ascending order.
class SumFunction final : public Function {
 public:
  SumFunction() : weights_(kNeurons * kWidth), input_(kNeurons) {
    Rng rng(7);
    for (float& w : weights_) w = static_cast<float>(rng.normal());
    for (float& x : input_) x = static_cast<float>(rng.normal());
  }
  Outcome execute(const KernelCall& call) override {
    if (call.is<ops::Matmul>()) {
      completed.push_back(call.slice.first / kCluster);
      float* y = call.out[0].as<float>();
      std::fill_n(y, kWidth, 0.0f);
      for (std::uint32_t n = call.slice.first; n < call.slice.first + call.slice.count; ++n) {
        for (std::uint32_t j = 0; j < kWidth; ++j) y[j] += input_[n] * weights_[n * kWidth + j];
      }
    }
    if (call.is<ops::Reduce>()) {
      const float* partials = call.in[0].as<float>();
      float* y = call.out[0].as<float>();
      std::fill_n(y, kWidth, 0.0f);
      for (std::uint32_t p = 0; p < call.in[0].shape[0]; ++p) {
        for (std::uint32_t j = 0; j < kWidth; ++j) y[j] += partials[p * kWidth + j];
      }
    }
    return {};
  }
  std::vector<std::uint32_t> completed;  // clusters in the order they were computed

 private:
  std::vector<float> weights_, input_;
};

View at(const Lease& memory, Bytes offset, std::array<std::uint32_t, 3> shape) {
  View view;
  view.memory = memory;
  view.offset = offset;
  view.shape = shape;
  return view;
}

KernelCall cluster_call(std::uint32_t cluster, const Lease& slots) {
  KernelCall call;
  call.op = ops::Matmul{};
  call.slice = {cluster * kCluster, kCluster};
  call.out.push_back(at(slots, Bytes{cluster} * kWidth * sizeof(float), {1, kWidth, 0}));
  return call;
}

Task<void> hot_part(ComputeUnit* unit, Lease slots) {
  GraphSpec spec;
  for (std::uint32_t c = 0; c < kClusters / 2; ++c) spec.calls.push_back(cluster_call(c, slots));
  const Graph graph = (co_await unit->load(std::move(spec))).value_or_throw();
  Bindings bindings;
  co_await unit->launch(graph, std::move(bindings));
}

Task<void> cold_worker(ComputeUnit* unit, std::uint32_t* next, Lease slots) {
  while (*next < kClusters) co_await unit->run(cluster_call((*next)++, slots));
}

Task<void> ffn(Machine* machine, Lease slots, Lease y) {
  TaskScope scope(machine->executor);
  std::uint32_t next = kClusters / 2;
  scope.spawn(hot_part(machine->units[0], slots));
  for (std::size_t u = 1; u < machine->units.size(); ++u) scope.spawn(cold_worker(machine->units[u], &next, slots));
  co_await scope.join();
  KernelCall reduce;
  reduce.op = ops::Reduce{};
  reduce.in.push_back(at(slots, 0, {kClusters, kWidth, 0}));
  reduce.out.push_back(at(y, 0, {1, kWidth, 0}));
  co_await machine->units[1]->run(std::move(reduce));
}

struct SplitRun {
  std::vector<float> y;
  std::vector<std::uint32_t> completed;
};

SplitRun run_with(std::uint64_t timing_seed, bool shuffle) {
  VirtualMachineSpec spec;
  for (const char* name : {"npu", "cpu0", "cpu1", "cpu2"}) {
    UnitCaps caps;
    caps.name = name;
    spec.units.push_back(caps);
  }
  if (shuffle) spec.shuffle = timing_seed;
  spec.price = [timing_seed](const UnitCaps& caps, const KernelCall& call) {
    return Picoseconds(static_cast<std::int64_t>(1000 + mix(timing_seed, {caps.name.back() + 0u, call.slice.first}) % 9000));
  };
  SumFunction function;
  NullTrace trace;
  VirtualMachine host(spec, function, trace);
  Machine& machine = host.machine();
  const Lease slots = machine.memory.lease(kClusters * kWidth * sizeof(float), Placement::dram, Region::activation).value_or_throw();
  const Lease y = machine.memory.lease(kWidth * sizeof(float), Placement::dram, Region::activation).value_or_throw();
  host.run(ffn(&machine, slots, y));
  const auto* out = reinterpret_cast<const float*>(y.data());
  return {std::vector<float>(out, out + kWidth), function.completed};
}

TEST(Split, the_bits_of_a_split_ffn_do_not_depend_on_what_finished_first) {
  const SplitRun reference = run_with(1, false);
  std::set<std::vector<std::uint32_t>> orders{reference.completed};
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    const SplitRun other = run_with(seed, seed % 2 == 0);
    orders.insert(other.completed);
    EXPECT_EQ(std::memcmp(other.y.data(), reference.y.data(), kWidth * sizeof(float)), 0) << "timing " << seed;
  }
  EXPECT_GT(orders.size(), 5u);  // or the law above was not put to the test
}

TEST(Split, one_timing_gives_one_order) { EXPECT_EQ(run_with(3, true).completed, run_with(3, true).completed); }

}  // namespace
}  // namespace vitro
