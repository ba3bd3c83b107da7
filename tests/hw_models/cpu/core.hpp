// One core of 1 GHz before a DRAM of 20 GB/s without latency; it has no costs but those that a test gives it.
#pragma once
#include <memory>
#include <string>

#include "hw_models/registry.hpp"
#include "tests/hw_models/context.hpp"

namespace vitro::hw {

struct TestCore {
  // `more`: YAML keys of a cluster, such as "cache: 1 MiB".
  explicit TestCore(const std::string& more = "", const std::string& core_bandwidth = "10 GB/s") {
    const Node memory_keys = parse_yaml("{bandwidth: 20 GB/s, latency: 0 ns, capacity: 1 GB, available: 1 GB}", "dram.yaml");
    dram = entry<DramModel>(memory_keys, dram_params).make({context, "dram", nullptr, kMemoryController}, dram_params);
    Node keys = parse_yaml(
        "{clock: 1 GHz, cluster_bandwidth: 20 GB/s, call_overhead: 0 us, macs_per_cycle_otherwise: 1, elementwise_per_cycle: 1, "
        "conversions_per_cycle: 1, lookups_per_cycle: 1, cycles_per_row_run: 0, core_bandwidth: " +
            core_bandwidth + "}",
        "core.yaml");
    const Node given = parse_yaml("{" + more + "}", "test.yaml");
    for (const auto& [key, value] : given.entries()) keys.set(key, value);
    const Entry<ComputeModel>& core = entry<ComputeModel>(keys, params);
    const PortId port = dram->add_port({"core", params.bandwidth("core_bandwidth")});
    model = core.make({context, "core", dram.get(), port}, params);
  }

  // How long the call takes.
  Picoseconds run(const Work& work) {
    const Picoseconds begin = context.now();
    Picoseconds end{-1};
    model->submit(work, [this, &end] { end = context.now(); });
    context.run();
    return end - begin;
  }
  Work product(std::string_view variant, std::string_view format, std::uint32_t rows, std::uint64_t macs) {
    Work work;
    work.kernel = model->kernel(variant, format).id;
    work.rows = rows;
    work.columns = 16;
    work.macs = macs;
    return work;
  }

  TestContext context;
  Registry registry = builtin_models();
  Params dram_params, params;
  std::unique_ptr<DramModel> dram;
  std::unique_ptr<ComputeModel> model;

 private:
  template <class M>
  const Entry<M>& entry(const Node& keys, Params& into) {
    Reader reader(keys, "test");
    const Entry<M>* found = nullptr;
    if constexpr (std::is_same_v<M, DramModel>) {
      found = &registry.dram(reader, "lpddr");
    } else {
      found = &registry.compute(reader, "core");
    }
    into = Params(reader, found->params);
    for (const std::string& table : found->tables) into.add_table(reader, table, false);
    reader.finish();
    return *found;
  }
};

}  // namespace vitro::hw
