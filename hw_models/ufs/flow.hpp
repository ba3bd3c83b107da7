// UFS at flow fidelity: closed forms whose constants are derived from the detailed twin (ufs/characterize.hpp). A command
// costs its issuing core time, enters through the host queue, is handled by the controller, waits for map and flash (booked
// ahead, ufs/flash_timeline.hpp), and then takes its direction of the link as one transfer, which is DMA and shares the
// DRAM's bandwidth (PowerInfer-2 2.3.2: block size, data range, core and queue effects). The host says which reads are
// sequential.
#pragma once
#include <deque>
#include <set>
#include <vector>

#include "hw_models/odometer.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/ufs/flash_timeline.hpp"
#include "hw_models/ufs/host_queue.hpp"
#include "hw_models/ufs/map_fetcher.hpp"
#include "hw_models/ufs/servers.hpp"
#include "hw_models/ufs/storage.hpp"

namespace vitro::hw {

class FlowUfs final : public StorageModel {
 public:
  // Throws ConfigError on counts or bandwidths of zero.
  FlowUfs(const Site& site, const Params& params);

  const StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz core_clock) const override;
  void submit(const IoRequest& request, Callback done) override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return up_.moved.sum(begin, end) + down_.moved.sum(begin, end); }

  const HostQueue& queue() const { return queue_; }

 private:
  struct Command {
    IoRequest request;
    Callback done;
    std::uint64_t order = 0;  // of random reads, which pay for flash themselves: that of their entry; 0: of any other
  };
  // One direction of the link, which is full duplex; commands go in the order in which they get ready.
  struct Direction {
    std::deque<std::uint32_t> waiting;
    bool busy = false;
    PortId port{};  // its DMA's own: a full-duplex link moves both directions at its rate
    Picoseconds began{0};
    Odometer moved;
  };

  void enter(std::uint32_t command);
  void fetch_map(std::uint64_t segment);
  void read(std::uint32_t command);
  void ready_at(std::uint32_t command, Picoseconds when);
  void pump(Direction& direction);
  void finish(std::uint32_t command);
  Picoseconds write_pace(Bytes length);

  Context& context_;
  DramModel& dram_;
  std::uint16_t device_;
  Track track_;
  StorageLimits limits_;
  double issue_cycles_;
  Picoseconds issue_fixed_, latency_sequential_, latency_write_, command_overhead_, transfer_overhead_;
  Picoseconds beyond_flash_, map_beyond_flash_;  // of the latency of a random read and of a map fetch alone, what dies do not spend
  BytesPerSecond link_, write_bandwidth_, write_sustained_, fold_bandwidth_;
  double slc_buffer_, write_memory_;
  HostQueue queue_;
  Servers controller_;
  FlashTimeline flash_;
  MapFetcher map_;
  std::uint64_t orders_ = 0;
  std::multiset<std::uint64_t> random_ends_;  // where the random reads in flight end

  std::vector<Command> commands_;
  std::vector<std::uint32_t> free_;
  Direction up_, down_;
  double in_slc_ = 0;                        // bytes that wait for folding
  Picoseconds last_end_{0}, programmed_{0};  // when what was written so far is in flash
};

}  // namespace vitro::hw
