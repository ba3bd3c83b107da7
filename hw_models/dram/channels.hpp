// DramChannels: the controllers of a part behind one LineMemory, driven by events of the context. A wake-up per command.
// Writes are posted: for the agent a line is written once the controller took it, whenever its queue is drained. (An agent that
// waited for the drain would starve: reads go first until writes fill 80 % of the queue, which it can not do while it waits.)
#pragma once
#include <deque>
#include <string_view>
#include <vector>

#include "hw_models/context.hpp"
#include "hw_models/dram/address_map.hpp"
#include "hw_models/dram/controller.hpp"
#include "hw_models/dram/line_memory.hpp"

namespace vitro::hw {

class DramChannels final : public LineMemory {
 public:
  // Throws ConfigError on an unknown mapping. The context has to outlive it.
  DramChannels(Context& context, std::uint16_t device, const DramTiming& timing, const DramOrganisation& organisation,
               std::string_view mapping, const ControllerPolicy& policy);

  void connect(LineSink& sink) override { sink_ = &sink; }
  bool try_push(std::uint64_t address, bool write, std::uint32_t tag) override;
  Bytes capacity() const override { return organisation_.capacity(); }

  BytesPerSecond peak() const { return timing_.peak(organisation_); }
  ControllerCounts counts() const;        // of all channels
  Picoseconds mean_read_latency() const;  // from the controller's queue to the last beat; 0 without reads

 private:
  struct Ending {
    Cycle cycle;
    std::uint32_t tag;
  };

  Picoseconds time_of(Cycle cycle) const { return cycle * timing_.clock; }
  void wake();
  bool step_channels(Cycle now);
  void deliver(std::deque<Ending>& endings, Cycle now);
  void arm();

  Context& context_;
  Label label_;
  DramTiming timing_;
  DramOrganisation organisation_;
  AddressMap map_;
  std::vector<DramController> channels_;
  LineSink* sink_ = nullptr;
  std::deque<Ending> reads_, writes_;  // whose last beat is still to come; each in order of time
  Cycle armed_ = kNever;
  bool awake_ = false;
};

}  // namespace vitro::hw
