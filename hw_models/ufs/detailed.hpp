// UFS at page fidelity. No bandwidth is a parameter: it comes out of queue slots, the controller's time per command, the
// map cache, dies that sense one page per plane at a time, channels, and the link.
#pragma once
#include <set>
#include <vector>

#include "hw_models/cumulative_sum.hpp"
#include "hw_models/registry.hpp"
#include "hw_models/storage.hpp"
#include "hw_models/ufs/ftl.hpp"
#include "hw_models/ufs/host_queue.hpp"
#include "hw_models/ufs/map_fetcher.hpp"
#include "hw_models/ufs/nand.hpp"
#include "hw_models/ufs/read_ahead.hpp"
#include "hw_models/ufs/servers.hpp"
#include "hw_models/ufs/write_path.hpp"

namespace vitro::hw {

class DetailedUfs final : public StorageModel, private NandClient {
 public:
  // Throws ConfigError on counts of zero, sizes that do not fit together, or a lane without a rate.
  DetailedUfs(const Site& site, const Params& params);

  const StorageLimits& limits() const override { return limits_; }
  Picoseconds issue_time(Hertz core_clock) const override;
  // Throws RunError beyond the device's capacity.
  void submit(const IoRequest& request, Callback done) override;
  double bytes_moved(Picoseconds begin, Picoseconds end) override { return up_.moved.sum(begin, end) + down_.moved.sum(begin, end); }

  FlashWrites writes() const override;

  const HostQueue& queue() const { return queue_; }
  const WriteTotals& write_totals() const { return write_path_.totals(); }

 private:
  struct Command {
    IoRequest request;
    Callback done;
    std::uint64_t order = 0;             // of entry into the device
    std::uint32_t ready = 0, moved = 0;  // sectors: here to be moved, and moved
    std::uint64_t first() const { return request.address / kPageSize; }
    std::uint32_t sectors() const { return static_cast<std::uint32_t>(request.length / kPageSize); }
  };
  // One direction of the link, which is full duplex. The oldest command goes first.
  struct Direction {
    std::set<std::pair<std::uint64_t, std::uint32_t>> waiting;  // (order, command)
    bool busy = false;
    PortId port{};  // its DMA's own: a full-duplex link moves both directions at its rate
    CumulativeSum moved;
  };
  struct NandRead {
    enum class Kind : std::uint8_t { command, stream, map } kind = Kind::command;
    std::uint64_t first = 0;  // sector, or map segment
    std::uint64_t owner = 0;  // command, or stream id
  };

  void enter(std::uint32_t command);
  void look_up(std::uint32_t command);
  void fetch_map(std::uint64_t segment);
  void read(std::uint32_t command);
  void read_flash(NandRead read, std::uint32_t sectors, std::uint64_t order);
  void write(std::uint32_t command);
  void sectors_ready(std::uint32_t command, std::uint32_t sectors);
  void pump(Direction& direction);
  void moved(std::uint32_t command, std::uint32_t sectors, Picoseconds began);
  void finish(std::uint32_t command);
  void sector_arrived(std::uint64_t tag, std::uint32_t index) override;
  void operation_done(std::uint64_t tag) override;

  Context& context_;
  DramModel& dram_;
  std::uint16_t device_;
  Track track_;
  StorageLimits limits_;
  double issue_cycles_;
  Picoseconds issue_fixed_, command_overhead_, command_latency_;
  BytesPerSecond link_;
  HostQueue queue_;
  Servers controller_;
  MapFetcher map_;
  Ftl ftl_;
  NandArray nand_;
  WritePath write_path_;
  ReadAhead read_ahead_;
  std::uint64_t capacity_;  // sectors

  std::vector<Command> commands_;
  std::vector<std::uint32_t> free_commands_;
  std::vector<NandRead> reads_;
  std::vector<std::uint32_t> free_reads_;
  Direction up_, down_;
  std::uint64_t orders_ = 0;
};

}  // namespace vitro::hw
