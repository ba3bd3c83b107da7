// A TraceSink that writes Perfetto's own format as the run goes: the number of events is not limited, and they take no memory.
#pragma once
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/file.hpp"
#include "traces/decision_log.hpp"
#include "traces/trace_file.hpp"

namespace vitro {

// Thread-safe. Writes trace.pftrace: packets of perfetto.protos.Trace (track descriptors, slices, counters, flows), times in whole
// nanoseconds, rounded down. A span is two packets, a beginning and an end. Viewers sort packets by time and, where times are equal, keep
// the order of the file; a span comes when it has ended, so after those inside it. So a span that would begin at the same nanosecond as
// one inside it, or that overlaps another without nesting, goes to a further lane of its track.
class PerfettoStream final : public TraceFile {
 public:
  // process: as for JsonTrace. folder: made when the first part is written. decisions: most that are kept in memory. Where a part can
  // not be written, the run goes on, nothing more is written, and finish() throws.
  PerfettoStream(std::string process, std::string folder, bool flows = false, std::size_t decisions = 4'000'000);

  TrackId track(std::string_view group, std::string_view name) override;
  void counter(TrackId track, Picoseconds at, double value) override;
  void decision(std::string_view kind, std::string_view what, std::string_view where) override;
  void finish(const std::string& folder) override;

 protected:
  void add_span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail, Flows flows) override;

 private:
  struct Slice {
    std::uint64_t begin_ns, end_ns;
  };
  struct Lane {
    std::uint64_t uuid, forgotten_ns;  // end of the last of those before
    std::deque<Slice> slices;    // the last ones that no later one encloses, ascending
  };
  struct Track {
    std::string group, name;
    std::vector<Lane> lanes;
    std::uint64_t counter = 0;  // uuid; 0: nothing was counted yet
  };

  std::uint64_t lane_for(Track& track, Slice slice);
  void begin_flows(Track& steps, std::uint64_t at_ns, std::span<const std::uint64_t> flows);
  std::uint64_t new_track(const Track& track, std::string_view name, bool counts);
  std::uint64_t name_id(std::string_view name, std::string& interned);
  void packet(const std::string& body);
  void write_part();

  const std::string process_, folder_;
  std::mutex mutex_;
  std::vector<Track> tracks_;
  std::map<std::pair<std::string, std::string>, TrackId> track_ids_;
  std::map<std::string, std::uint64_t> groups_;  // uuid by name
  std::unordered_map<std::string, std::uint64_t> names_;
  std::uint64_t last_uuid_ = 0;
  bool began_ = false;
  std::string part_;  // not written yet
  std::optional<OutputFile> file_;
  std::exception_ptr failed_;  // why no part is written any more
  DecisionLog decisions_;
};

}  // namespace vitro
