// DRAM at detailed fidelity: requests become lines, each port sends them at its own rate, the controllers order them.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "hw_models/cumulative_sum.hpp"
#include "hw_models/dram.hpp"
#include "hw_models/dram/channels.hpp"
#include "hw_models/params.hpp"
#include "hw_models/registry.hpp"

namespace vitro::hw {

// A port sends a line every (bytes of a line / cap) and has `window` lines under way at most; requests of one port go in turn, unless
// the pace of an earlier one leaves room. Siblings share what the memory takes by weight (start-time fair queueing).
class DetailedDram final : public DramModel, private LineSink {
 public:
  struct Limits {
    BytesPerSecond total{0};  // of all ports together; 0: what the memory takes
    std::uint32_t window = 512;
    Picoseconds fabric{0};  // between the memory controller and the agent; added to every request
  };

  DetailedDram(const Site& site, std::unique_ptr<LineMemory> memory, const Limits& limits);
  static std::vector<ParamSpec> params();
  static std::unique_ptr<DetailedDram> make(const Site& site, const Params& params);

  PortId add_port(const PortSpec& spec) override;
  void submit(const DramRequest& request, Callback done) override;
  DramTotals totals() override { return totals_; }
  double bytes_moved(Picoseconds begin, Picoseconds end) override;
  double peak_rate(Picoseconds begin, Picoseconds end) override;

  const LineMemory& memory() const { return *memory_; }

 private:
  struct Port {
    double interval = 0;  // picoseconds per line; 0: as fast as memory takes them
    double free_at = 0;   // earliest time of its next line
    double served = 0;    // lines / weight
    double weight = 1;
    std::size_t parent = 0;
    std::uint32_t sending = 0;  // requests with lines to send, here and below
    std::uint32_t under_way = 0;
    std::uint64_t cursor = 0;
    std::vector<std::size_t> children;
    std::deque<std::uint32_t> requests;
  };
  struct Cursor {
    std::uint64_t address = 0, chunk_start = 0, chunk_left = 0;  // chunk_left in lines
  };
  struct Request {
    DramRequest what;
    std::size_t port = 0;
    std::uint64_t lines = 0, written = 0, sent = 0, finished = 0;  // `written` of the lines are writes, evenly spread
    Cursor reads, writes;
    double interval = 0, free_at = 0;
    double bytes_per_line = 0, written_share = 0;  // share: of the bytes
    Picoseconds earliest_end{0};
    Callback done;
  };

  void line_finished(std::uint32_t tag) override;
  void room() override;

  void send();
  bool send_from(std::size_t port);
  bool send_own(Port& port);
  bool send_child(Port& port);
  void take_turn(Port& port);
  void start(std::size_t port);
  void next_chunk(const DramRequest& what, Cursor& cursor, std::uint64_t chunks = 1);
  void end(std::uint32_t tag);
  void account(bool flush);
  void wait_until(double when) { wait_ = std::min(wait_, when); }
  double interval_at(BytesPerSecond rate) const;
  std::uint64_t lines_of(const DramRequest& what, std::uint64_t chunk_start) const;

  Context& context_;
  std::unique_ptr<LineMemory> memory_;
  Bytes line_;
  double burst_;  // a port that memory made wait may catch up by this many lines
  Limits limits_;
  Label label_;
  Track track_;
  Rng& rng_;
  std::vector<Port> ports_;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> free_;
  bool refused_ = false;  // by a full queue: room() will come
  bool sending_ = false;  // inside send()
  double wait_ = 0;       // the pace that send() ran into
  Picoseconds armed_ = Picoseconds::max();
  DramTotals totals_;
  CumulativeSum moved_;
  double unaccounted_ = 0;
  Picoseconds accounted_until_{0};
};

}  // namespace vitro::hw
