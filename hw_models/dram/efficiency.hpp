// FlowEfficiency: what share of a part's sequential bandwidth its agents get, by how they use it. Derived from the detailed
// model by derive_flow_efficiency(); the flow model turns it into a total for the mix of the moment.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hw_models/dram/controller.hpp"
#include "hw_models/dram.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

class FlowEfficiency {
 public:
  using Entries = std::vector<std::pair<std::string, double>>;

  // A part of the traffic: the shares of one request's bytes that are read and written have patterns of their own.
  struct Use {
    Use() = default;
    // read, write: efficiency of its reads and of its writes, alone (of_reads, of_writes). All but the rate is worked out once.
    Use(double its_rate, double read, double write, double its_written, std::size_t its_agent)
        : rate(its_rate),
          written(its_written),
          own((1 - written) / read + written / write),
          read_wait(1 / read - 1),
          write_wait(1 / write - 1),
          slowest(1 / std::min(read, write)),
          agent(its_agent),
          plain(written == 0 && read_wait == 0) {}

    double rate = 0;                       // bytes per second
    double written = 0;                    // share of its bytes
    double own = 1;                        // time per byte, alone
    double read_wait = 0, write_wait = 0;  // of it, what its reads and its writes wait for rows
    double slowest = 1;                    // time per byte of the slower of them
    std::size_t agent = 0;                 // uses of one agent are together one stream
    bool plain = true;                     // it reads, and waits for no row
  };

  FlowEfficiency() = default;  // everything at 1, no total of its own
  // Keys: sequential (bytes per second), sequential_write, strided_write (of what strided reads get), chunk.BYTES, write_chunk.BYTES,
  // strided.CHUNK/STRIDE, agents.COUNT/REOPENED, turns.READERS/SHARE, copies.READERS/SHARE, queued.LOAD, latency_random_ns,
  // latency_sequential_ns. Throws ConfigError on another key; `table` is for the message.
  FlowEfficiency(const Entries& entries, const ParamTable& table);

  bool known() const { return sequential_ > 0; }
  BytesPerSecond sequential() const { return {sequential_}; }
  // Of a request alone: by chunk, or by chunk and stride. In between, linear in log2.
  double of_reads(const DramRequest& request) const;
  double of_writes(const DramRequest& request) const;
  // Of a single line of 32 bytes in an idle memory, without what lies between memory and agent; nothing when the table has none.
  std::optional<Picoseconds> latency(const DramRequest& request) const;

  // The total that memory sustains when its users have these proportions, bytes per second; without `crowds`, as if agents read
  // from each other's rows. Requires: known(), some rate > 0.
  double sustained(std::span<const Use> uses, bool crowds = true) const;
  // A bound from below, for any proportions of uses whose slower pattern takes at most `slowest` per byte (1 / its efficiency) and
  // that write at most the share `written` of all their bytes.
  double sustained_at_least(double slowest, double written, bool crowds = true) const;
  // Of streams with these rates, the share of bytes whose row has to be opened again. With low-order interleaving a stream comes
  // back to a bank at a pace given by its rate; another one was there meanwhile with the chance that its rate has against that.
  // So all but the largest always find the row closed, and the largest keeps the product of (1 - rate / largest).
  static double reopened(std::span<const double> rates);

  const Entries& entries() const { return entries_; }

 private:
  using Curve = std::vector<std::pair<double, double>>;  // ascending
  using Curves = std::vector<std::pair<double, Curve>>;  // by chunk
  static double at(const Curve& curve, double x);
  static double at(const Curves& curves, double chunk, double stride);
  double of_pattern(const DramRequest& request, const Curve& chunks, double sequential, double strided) const;
  static double between_counts(const Curves& curves, std::size_t count, double x);
  static std::vector<double> rates_of_readers(std::span<const Use> uses);  // one for each agent that reads
  double crowd(std::span<const double> rates) const;
  double turned(std::size_t readers, double written, double copied) const;

  Entries entries_;
  double sequential_ = 0, sequential_write_ = 1, strided_write_ = 1, latency_random_ns_ = 0, latency_sequential_ns_ = 0;
  Curve chunks_, write_chunks_, queued_;
  double worst_crowd_ = 1, worst_queue_ = 1;  // time per byte that these tables can cost
  Curve worst_turns_;                         // the same of turns_ and copies_, up to a share of writes
  Curves agents_;                             // by their number, over reopened()
  Curves turns_, copies_;  // by the number of streams that read, over the share of writes: by requests that write alone, or read too
  Curves even_, uneven_;   // strides: multiples of a power of two beyond the chunk, and others
};

using WantedEntry = std::function<bool(std::string_view key)>;
// The characterisation run: probes of the detailed model. Deterministic; minutes for all entries, which is what no
// `wanted` means.
FlowEfficiency derive_flow_efficiency(const DramPart& part, std::string_view mapping, const ControllerPolicy& policy,
                                      const WantedEntry& wanted = {});
// What it gave for a part with mapping mop4 and per-bank refresh, as committed (efficiency_table.cpp). Requires: a known part.
FlowEfficiency derived_flow_efficiency(std::string_view part);

}  // namespace vitro::hw
