#include "sim/characterize/characterize.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/characterize/bench.hpp"

namespace vitro::sim {
namespace {

struct Probe {
  std::string_view name, description;
  ProbeResult (*run)(const Node& device, Reader& args);
};

constexpr Probe kProbes[] = {
    {"memory_bandwidth", "DRAM bandwidth of units that stream operands at the same time", memory_bandwidth},
    {"flash_read", "reads by block size, range, pattern, queue depth and issuing cores", flash_read},
    {"gemm", "rate of one matrix product on one unit, without hand-over", gemm},
    {"dense_products", "one product of several sizes, handed over each time, on one accelerator or cut for cores", dense_products},
    {"attention_kernel", "one attention kernel: time, energy, and power with a pause between runs", attention_kernel},
    {"graph_limit", "largest graph that an accelerator keeps, and how much slower the next one is", graph_limit},
    {"launch_share", "share of a lone launch that is its kernel", launch_share},
    {"expert_groups", "experts of one layer in graphs of a group each, one after the other or side by side", expert_groups},
    {"prompt_matmuls", "weight products of a prompt through all layers, on one NPU or on cores that share a work queue", prompt_matmuls},
    {"npu_read", "HVX threads of the NPU that read DRAM by DMA, l2fetch or vector loads", npu_read},
    {"npu_lookup", "table look-ups (vlut) in a loop on one HVX thread: cycles, look-ups and multiply-adds per instruction", npu_lookup},
    {"npu_gather", "packets of a vgather of a vector of halfwords from a table in TCM", npu_gather},
};

}  // namespace

std::vector<ProbeInfo> probes() {
  std::vector<ProbeInfo> all;
  for (const Probe& probe : kProbes) all.push_back({std::string(probe.name), std::string(probe.description)});
  return all;
}

ProbeResult run_probe(const Node& device, const std::string& name, const Node& args) {
  std::vector<std::string_view> known;
  for (const Probe& probe : kProbes) {
    known.push_back(probe.name);
    if (probe.name != name) continue;
    Reader reader(args, name);
    return probe.run(device, reader);
  }
  throw ConfigError(fmt::format("probe: \"{}\" is not known (expected one of: {})", name, fmt::join(known, ", ")));
}

}  // namespace vitro::sim
