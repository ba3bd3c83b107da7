// A TraceSink that keeps everything in memory and writes it as JSON for ui.perfetto.dev, and the decision log as lines.
#pragma once
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "traces/decision_log.hpp"
#include "traces/text_table.hpp"
#include "traces/trace_file.hpp"

namespace vitro {

struct TraceLimits {
  std::size_t events = 4'000'000;  // spans and counter samples, 32 bytes each beside the texts, each kept once
  std::size_t decisions = 4'000'000;
  bool flows = false;  // reads are drawn to the kernels that take what they brought; 24 bytes for each end of an arrow
};

// Thread-safe. Behind a limit new entries are counted and dropped, and what is written says so: a trace that was cut
// never looks complete. docs/guide/traces.md has the file formats.
class JsonTrace final : public TraceFile {
 public:
  // process: what the trace viewer calls the whole, such as "vitro sim".
  explicit JsonTrace(std::string process, TraceLimits limits = {});

  TrackId track(std::string_view group, std::string_view name) override;
  void counter(TrackId track, Picoseconds at, double value) override;
  void decision(std::string_view kind, std::string_view what, std::string_view where) override;

  std::size_t dropped_events() const;
  std::size_t dropped_decisions() const;

  // Sorted by time, track, order of arrival: two runs of one simulation give equal files. Spans of one track that overlap
  // without nesting are shown on further lanes of it, since a viewer can not draw them on one.
  std::string json() const;
  std::string decisions_jsonl() const;
  void finish(const std::string& folder) override;  // trace.json and decisions.jsonl

 protected:
  void add_span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail, Flows flows) override;

 private:
  struct Track {
    std::string group, name;
  };
  struct Event {
    std::uint32_t track;
    TextTable::Id name;  // kCounter: a sample of a counter
    TextTable::Id detail;
    std::int64_t begin_ps;
    std::int64_t end_ps_or_value;  // a counter's double, bit by bit
  };
  static constexpr TextTable::Id kCounter = ~TextTable::Id{0};
  static constexpr std::uint32_t kNowhere = ~0u;
  struct FlowPoint {
    std::uint64_t flow;
    std::size_t event;  // its span
    std::uint32_t from;  // the track on which it begins; kNowhere: it ends with this span
  };

  std::vector<std::size_t> sorted() const;  // of events_

  const std::string process_;
  const TraceLimits limits_;
  mutable std::mutex mutex_;
  std::vector<Track> tracks_;
  std::map<std::pair<std::string, std::string>, TrackId> track_ids_;
  TextTable texts_;
  std::deque<Event> events_;
  std::deque<FlowPoint> flow_points_;  // by event
  DecisionLog decisions_;
  std::size_t dropped_events_ = 0;
};

}  // namespace vitro
