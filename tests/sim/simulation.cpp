#include "tests/sim/simulation.hpp"

#include <fmt/format.h>

#include "tests/source_path.hpp"

namespace vitro::sim {
namespace {

constexpr std::string_view kRoundDevice = R"(
name: round
dram: {bandwidth: 20 GB/s, latency: 0 ns, capacity: 1 GB, available: 1 GB}
cpu:
  bandwidth: 16 GB/s
  cache_lookup_cycles: 100
  submit_cycles: 1000
  barrier_cycles: 0
  clusters:
    - class: big
      cores: 2
      clock: 1 GHz
      core_bandwidth: 10 GB/s
      cluster_bandwidth: 16 GB/s
      wake_up: 0 us
      hand_back: 0 us
      call_overhead: 0 us
      macs_per_cycle_otherwise: 1
npu: {clock: 1 GHz, call_cycles: 0, hand_over_cycles: 0, hvx_threads: 1, hmx_clock: 1 GHz, tile_cycles_f16: 32000, tile_cycles_int8: 16000,
      tile_cycles_int4: 8000, tile_out_cycles: 0, dma_bandwidth: 20 GB/s, descriptor_cycles: 0, l2_bandwidth: 20 GB/s, tcm: 8 MiB,
      session_limit: 1 MiB, packets_per_mac_otherwise: 1, packets_per_operation: 0, kernels: {hmx: {dma: {float: {f32: {bits: 16}}}}},
      transport: remote_call, remote_call: 10 us, remote_return: 1 us, build: 0 s, load: 100 us, switch_graph: 0 us}
ufs: {max_transfer: 64 KiB, issue_cycles: 1000, issue_fixed: 0 us, latency_sequential: 2 us, latency_random: 10 us, command_overhead: 0 us,
      issuer_switch: 0 us, map_cache_reach: 1 GiB, map_cache_miss: 0 us, link_bandwidth: 4.096 GB/s, write_bandwidth: 2.048 GB/s}
power: {base: 1 W, dram_byte: 100 pJ/B, dram_write_byte: 100 pJ/B, flash_byte: 200 pJ/B, active_watts: {big: 2, npu: 3}}
)";

}  // namespace

Node round_device(const std::vector<std::string>& overrides) {
  Node device = parse_yaml(kRoundDevice, "round.yaml");
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    Node value = parse_yaml(text.substr(equals + 1), key);
    if (!key.starts_with("core.")) {
      device.set_path(key, std::move(value));
      continue;
    }
    Node cluster = device.find_path("cpu.clusters")->items()[0];
    cluster.set(key.substr(5), std::move(value));
    device.set_path("cpu.clusters", Node::list({cluster}));
  }
  return device;
}

SimOptions round_options(const std::vector<std::string>& overrides) {
  SimOptions options;
  options.device = round_device(overrides);
  options.memory_limits = {64 * MiB, 0, 64 * MiB, 0};
  options.count = test_counts;
  return options;
}

SimOptions oneplus12_options() {
  SimOptions options;
  options.device = load_yaml(test::source_path("configs/devices/oneplus12.yaml"));
  options.count = test_counts;
  return options;
}

Task<void> run_chain(ComputeUnit* unit, Chain chain) {
  const RunResult result = co_await unit->run(std::move(chain));
  result.status.or_throw();
}

Task<void> read_into(Machine* machine, ReadRequest request, IoResult* result) {
  *result = co_await machine->storage.read(std::move(request));
}

ReadRequest read_request(Machine& machine, FileId file, Bytes offset, Bytes length, Pattern pattern, UnitId issuer) {
  ReadRequest request;
  request.from = {file, offset, length};
  request.into = machine.memory.lease(length, Placement::dram, Region::staging).value_or_throw();
  request.pattern = pattern;
  request.issuer = issuer;
  return request;
}

Task<void> together(Machine* machine, std::vector<Task<void>> tasks) {
  TaskScope scope(machine->executor);
  for (Task<void>& task : tasks) scope.spawn(std::move(task));
  co_await scope.join();
}

WorkCounts test_counts(const KernelCall& call) {
  WorkCounts counts;
  for (const SeqPos& row : call.batch ? *call.batch : std::vector<SeqPos>()) {
    counts.macs += row.sequence;
    counts.read[0] += row.position;
  }
  return counts;
}

KernelCall test_call(double macs, double bytes, std::uint32_t tag) {
  KernelCall call;
  call.op = ops::Reduce{};
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{static_cast<std::uint32_t>(macs), static_cast<std::uint32_t>(bytes)});
  call.slice.first = tag;
  return call;
}

Outcome RecordingFunction::execute(const KernelCall& call) {
  tags.push_back(call.slice.first);
  if (effect) effect(call);
  return {};
}

Simulation::Simulation(SimOptions options, TraceSink* trace)
    : host_(make_sim_machine(options, function, trace != nullptr ? *trace : null_)) {}

}  // namespace vitro::sim
