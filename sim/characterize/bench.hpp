// What the probes share: a machine without bytes, matrix products, and ways to put work on a unit.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/machine/function.hpp"
#include "sim/characterize/characterize.hpp"
#include "sim/machine.hpp"

namespace vitro::sim {

class NoEffect final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

// The machine of one probe. Memory is accounted but not there: a probe asks for times, not for values.
class Bench {
 public:
  explicit Bench(const Node& device);

  Machine& machine() { return host_->machine(); }
  Picoseconds now() { return machine().clock.now(); }
  void run(std::vector<Task<void>> tasks);  // side by side, until all are done
  double dram_bytes_per_second(Picoseconds begin, Picoseconds end);
  MachineReport report(Picoseconds begin, Picoseconds end) { return host_->report(begin, end); }

  // All units of a core class, or the one unit of a name. Throws ConfigError when there is none.
  std::vector<ComputeUnit*> units(const std::string& wanted);
  std::vector<ComputeUnit*> units(Reader& args, std::string_view key);  // of a list of such names

  View view(std::array<std::uint32_t, 3> shape, Format format, Placement where);
  ProbeResult result(std::vector<std::pair<std::string, double>> measures);

 private:
  NoEffect function_;
  NullTrace trace_;
  std::unique_ptr<MachineHost> host_;
};

// W [n, k] times x [m, k]: a matmul of the engine, all operands in one memory. The engine's activations are float32; f16 ones
// are what a microbenchmark of a matrix unit multiplies.
struct Product {
  std::string variant;
  Format format{}, activations = Format::f32;
  std::uint32_t m = 1, n = 0, k = 0;
  Placement where = Placement::dram;
};
// Consumes variant, format, activations, m, and memory; n and k when `shape`.
Product read_product(Reader& args, bool shape = true);
KernelCall product_call(Bench& bench, const Product& product);

// Loads the chain as a graph built ahead of time (on a CPU core merely a prepared chain) and launches it `times` times.
Task<void> run_on(ComputeUnit* unit, Chain chain, std::uint32_t times);

ProbeResult memory_bandwidth(const Node& device, Reader& args);
ProbeResult flash_read(const Node& device, Reader& args);
ProbeResult gemm(const Node& device, Reader& args);
ProbeResult prompt_matmuls(const Node& device, Reader& args);
ProbeResult npu_read(const Node& device, Reader& args);
ProbeResult npu_lookup(const Node& device, Reader& args);
ProbeResult npu_gather(const Node& device, Reader& args);
ProbeResult dense_products(const Node& device, Reader& args);
ProbeResult attention_kernel(const Node& device, Reader& args);
ProbeResult graph_limit(const Node& device, Reader& args);
ProbeResult launch_share(const Node& device, Reader& args);
ProbeResult expert_groups(const Node& device, Reader& args);

}  // namespace vitro::sim
