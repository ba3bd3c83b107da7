// UFS at flow fidelity. A command costs its issuing core time; in the device its latency overlaps with others in the
// queue, then commands are served one at a time in order: overhead, map look-up, and the transfer, which is DMA into
// DRAM and shares its bandwidth (PowerInfer-2 2.3.2: block size, data range, core and queue effects).
#pragma once
#include <deque>
#include <optional>

#include "hw_models/odometer.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/ufs/map_cache.hpp"
#include "hw_models/ufs/storage.hpp"

namespace vitro::hw {

class FlowUfs final : public StorageModel {
 public:
  FlowUfs(const Site& site, const Params& params);
  static std::vector<ParamSpec> params();

  const StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz core_clock) const override;
  void submit(const IoRequest& request, Callback done) override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return moved_.sum(begin, end); }

 private:
  struct Command {
    IoRequest request;
    Callback done;
    Picoseconds ready{0};  // when the device could start to transfer
  };

  void admit(Command command);
  void serve();
  void transfer();
  void finish();
  Picoseconds overhead(const IoRequest& request);

  Context& context_;
  DramModel& dram_;
  PortId port_;
  std::uint16_t device_;
  Track track_;
  StorageLimits limits_;
  double issue_cycles_;
  Picoseconds issue_fixed_, latency_sequential_, latency_random_, latency_write_;
  Picoseconds command_overhead_, issuer_switch_, map_cache_miss_;
  BytesPerSecond link_, write_bandwidth_;
  MapCache map_;

  std::deque<Command> waiting_;    // beyond the queue depth, still with the driver
  std::deque<Command> in_device_;  // front: being served
  bool serving_ = false;
  Picoseconds service_began_{0};
  std::optional<std::uint16_t> last_issuer_;
  Odometer moved_;
};

}  // namespace vitro::hw
