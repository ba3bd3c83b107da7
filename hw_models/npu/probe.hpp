// Microbenchmarks of an NPU below the machine interface that policies use: reads by one memory path, instruction loops, single calls.
// They run on the parts that the models consist of, in virtual time, beside the device's own DRAM.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/hash.hpp"
#include "hw_models/event_loop.hpp"
#include "hw_models/npu/hexagon.hpp"
#include "hw_models/npu/vector_thread.hpp"

namespace vitro::hw {

struct ReadProbe {
  Path path = Path::dma;
  std::uint32_t threads = 1;
  Bytes block = MiB;          // of one descriptor, or of one turn of the loop of a thread
  std::uint32_t rows = 1;     // of a 2D block
  std::uint32_t blocks = 64;  // of each thread
};

struct StagePrices {
  hexagon::StagePlan plan{};
  std::array<double, kStages> full{}, last{};  // of a group, and of the last one of a pass
  double activations = 0, prepare = 0;         // of a pass: their transfer, and the vector work on them
};

// An NPU of its own, built from the `dram` and `npu` blocks of a device file. Throws ConfigError as a device file would.
class NpuBench {
 public:
  explicit NpuBench(const Node& device, std::string_view fidelity = "");  // empty: what the file says

  double read_bandwidth(const ReadProbe& probe);              // bytes per second
  double lookup_cycles(std::uint32_t instructions);           // per vlut, of a loop on one HVX thread
  double gather_packets(std::uint32_t gathers, Bytes table);  // per vgather of a vector of halfwords, each after the other
  Picoseconds call(const Work& work);                         // one call from submission to its end

  const HexagonParameters& parts() const { return *parts_; }
  ComputeModel& model() { return *model_; }
  // Seconds of the stages of a product's groups, alone on the DRAM: what the model prices the plan with.
  StagePrices prices(const Work& work) const;
  EventLoop& loop() { return loop_; }
  std::vector<std::string> assumed() const;   // dotted names of the assumed parameters that were read
  const Hash& hash() const { return hash_; }  // of all times so far

 private:
  EventLoop loop_;
  std::unique_ptr<Params> dram_params_, params_;
  std::unique_ptr<DramModel> dram_;
  std::optional<HexagonParameters> parts_;
  std::unique_ptr<ComputeModel> model_;
  std::unique_ptr<MemoryPorts> ports_;
  Hash hash_;
};

}  // namespace vitro::hw
