// UFS at flow fidelity: closed forms whose constants are derived from the detailed model (ufs/characterize.hpp). A command
// costs its issuing core time, enters through the host queue, is handled by the controller, waits for map and flash (booked
// ahead, ufs/flash_timeline.hpp), and then takes its direction of the link as one transfer, which is DMA and shares the
// DRAM's bandwidth (PowerInfer-2 2.3.2: block size, data range, core and queue effects). The host says which reads are
// sequential.
//
// A device behind a hypervisor (`completions: together`) works through its queue in one go and reports its reads when nothing is left
// in it: so much latency for each round of reads, whatever their number.
//
// What happens inside the device is worked off in order of time, but late: when a command comes or the link gets free, and at the
// latest when data could be ready for an idle link. A read costs the simulation two events, not five. Reads that are wanted together cost
// two for all of them (read_groups.hpp).
#pragma once
#include <deque>
#include <vector>

#include "hw_models/cumulative_sum.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/storage.hpp"
#include "hw_models/ufs/flash_timeline.hpp"
#include "hw_models/ufs/host_queue.hpp"
#include "hw_models/ufs/map_fetcher.hpp"
#include "hw_models/ufs/read_groups.hpp"
#include "hw_models/ufs/servers.hpp"

namespace vitro::hw {

class FlowUfs final : public StorageModel {
 public:
  // Throws ConfigError on counts or bandwidths of zero.
  FlowUfs(const Site& site, const Params& params);

  const StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz core_clock) const override;
  void submit(const IoRequest& request, Callback done) override;
  std::uint32_t most_together() const override { return slots_; }
  void submit_reads(std::span<const TimedRead> reads, Callback done) override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return up_.moved.sum(begin, end) + down_.moved.sum(begin, end); }

  FlashWrites writes() const override { return {to_slc_ + to_tlc_, 2 * to_slc_ + to_tlc_}; }

  const HostQueue& queue() const { return queue_; }

 private:
  static constexpr std::uint32_t kAlone = ~0u;
  struct Command {
    IoRequest request;
    Callback done;
    std::uint32_t group = kAlone;  // that it stands for, or belongs to
    std::uint64_t order = 0;  // of random reads, which pay for flash themselves: that of their entry; 0: of any other
  };
  // One direction of the link, which is full duplex; commands go in the order in which they get ready.
  struct Direction {
    bool busy = false;
    PortId port{};  // its DMA's own: a full-duplex link moves both directions at its rate
    Picoseconds began{0};
    CumulativeSum moved;
  };
  // Something inside the device, or the moment from which a read waits for the link.
  struct Step {
    enum class What : std::uint8_t { handled, map_page, mapped, ready };
    Picoseconds when{0};
    std::uint64_t subject = 0;  // command, or segment of the map
    What what{};
  };
  // Earliest first. They come nearly in order, so a line that looks for a place from its end is quicker than a heap.
  class Steps {
   public:
    bool empty() const { return first_ == line_.size(); }
    const Step& front() const { return line_[first_]; }
    void push(const Step& step) {
      std::size_t place = line_.size();
      line_.push_back(step);
      for (; place > first_ && line_[place - 1].when > step.when; --place) line_[place] = line_[place - 1];
      line_[place] = step;
    }
    Step pop() {
      const Step step = line_[first_++];
      if (first_ >= kSpent || empty()) {
        line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
      }
      return step;
    }

   private:
    static constexpr std::size_t kSpent = 256;  // places that are given back together
    std::vector<Step> line_;
    std::size_t first_ = 0;
  };

  std::uint32_t take_command(const IoRequest& request, Callback done);
  bool streams(std::uint64_t address) const;  // what ends there is not on its way
  void enter(std::uint32_t command);
  void enter_together(std::uint32_t group);
  void note_ready(std::uint32_t command, Picoseconds when);
  void work_off(Picoseconds until);  // what happened inside
  void fetch_map(std::uint64_t segment);
  void read(std::uint32_t command);
  void arm();
  void pump_reads();
  void pump_writes();
  void start(Direction& direction, std::uint32_t command);
  void finish(std::uint32_t command);
  void report_reads();  // those that have ended, when none follows at once
  Picoseconds write_pace(Bytes length);

  Context& context_;
  DramModel& dram_;
  std::uint16_t device_;
  Track track_;
  StorageLimits limits_;
  std::uint32_t slots_;  // of one queue
  double issue_cycles_;
  Picoseconds issue_fixed_, latency_sequential_, latency_write_, command_overhead_, transfer_overhead_;
  Picoseconds latency_random_;                   // no read is ready sooner after a step inside
  Picoseconds beyond_flash_, map_beyond_flash_;  // of the latency of a random read and of a map fetch alone, what dies do not spend
  BytesPerSecond link_, write_bandwidth_, write_sustained_, fold_bandwidth_;
  double slc_buffer_, write_memory_;
  HostQueue queue_;
  Servers controller_;
  FlashTimeline flash_;
  MapFetcher map_;
  std::uint64_t orders_ = 0;
  ReadGroups groups_;
  std::vector<std::uint64_t> random_ends_;  // where the random reads in flight end
  Steps inside_, ready_;                    // what is to come inside; reads that wait for the link, or will
  Picoseconds inside_now_{0};               // up to which time the inside was worked off
  Picoseconds armed_ = Picoseconds::max();

  std::vector<Command> commands_;
  std::vector<std::uint32_t> free_;
  Direction up_, down_;
  std::deque<std::uint32_t> waiting_writes_;
  bool together_;
  std::vector<Callback> unreported_;         // reads that have ended
  double in_slc_ = 0;                        // bytes that wait for folding
  double to_slc_ = 0, to_tlc_ = 0;           // bytes of the host, by where they were programmed first
  Picoseconds last_end_{0}, programmed_{0};  // when what was written so far is in flash
};

}  // namespace vitro::hw
