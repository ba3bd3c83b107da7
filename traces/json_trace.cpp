#include "traces/json_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <nlohmann/json.hpp>

#include "engine/base/check.hpp"
#include "engine/base/file.hpp"
#include "traces/json_text.hpp"

namespace vitro {
namespace {

// Microseconds with all six fractional digits that a picosecond needs; never through double.
std::string microseconds(std::int64_t ps) {
  const bool negative = ps < 0;
  const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(ps) : static_cast<std::uint64_t>(ps);
  return fmt::format("{}{}.{:06}", negative ? "-" : "", magnitude / 1'000'000, magnitude % 1'000'000);
}

// The lanes of one track: each holds the ends of the spans that are open on it, outermost first.
class Lanes {
 public:
  std::size_t place(std::int64_t begin, std::int64_t end) {
    for (std::size_t lane = 0;; ++lane) {
      if (lane == open_.size()) open_.emplace_back();
      std::vector<std::int64_t>& open = open_[lane];
      while (!open.empty() && open.back() <= begin) open.pop_back();
      if (!open.empty() && open.back() < end) continue;
      open.push_back(end);
      return lane;
    }
  }
  std::size_t count() const { return std::max<std::size_t>(1, open_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> open_;
};

// The JSON text, one event per line.
class EventWriter {
 public:
  EventWriter(const std::string& process, std::size_t dropped) {
    out_ = fmt::format(R"({{"displayTimeUnit":"ns","otherData":{{"schema":"vitro.trace/1","process":{},"dropped_events":{}}},)",
                       json_text(process), dropped);
    out_ += R"("traceEvents":[)";
  }

  void metadata(std::string_view what, int pid, int tid, std::string_view key, std::string_view text) {
    emit(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"{}":{}}}}})", pid, tid, what, key, json_text(text));
  }
  void counter(int pid, std::string_view name, std::int64_t at_ps, double value) {
    emit(R"({{"ph":"C","pid":{},"name":{},"ts":{},"args":{{"value":{}}}}})", pid, json_text(name), microseconds(at_ps),
         nlohmann::json(value).dump());
  }
  // Bound to the span that encloses it.
  void flow(int pid, int tid, char phase, std::int64_t at_ps, std::uint64_t flow) {
    emit(R"({{"ph":"{}","bp":"e","pid":{},"tid":{},"ts":{},"id":{},"cat":"read","name":"read"}})", phase, pid, tid, microseconds(at_ps),
         flow);
  }
  void span(int pid, int tid, std::string_view name, std::int64_t begin_ps, std::int64_t end_ps, std::string_view detail) {
    const std::string args = detail.empty() ? "" : fmt::format(R"(,"args":{{"detail":{}}})", json_text(detail));
    emit(R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{},"dur":{}{}}})", pid, tid, json_text(name), microseconds(begin_ps),
         microseconds(end_ps - begin_ps), args);
  }
  std::string finish() && { return std::move(out_ += "\n]}\n"); }

 private:
  template <class... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    out_ += separator_;
    separator_ = ",\n";
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  std::string out_;
  const char* separator_ = "\n";
};

}  // namespace

JsonTrace::JsonTrace(std::string process, TraceLimits limits)
    : TraceFile(limits.flows), process_(std::move(process)), limits_(limits), decisions_(limits.decisions) {
  texts_.add("");
}

TrackId JsonTrace::track(std::string_view group, std::string_view name) {
  const std::scoped_lock lock(mutex_);
  const auto [entry, is_new] = track_ids_.try_emplace({std::string(group), std::string(name)}, TrackId(tracks_.size()));
  if (is_new) tracks_.push_back({std::string(group), std::string(name)});
  return entry->second;
}

void JsonTrace::add_span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail,
                             Flows flows) {
  VITRO_CHECK(begin <= end, "a span that ends before it begins");
  const std::scoped_lock lock(mutex_);
  if (events_.size() >= limits_.events) {
    ++dropped_events_;
    return;
  }
  const std::uint32_t from = flows.from ? static_cast<std::uint32_t>(*flows.from) : kNowhere;
  for (const std::uint64_t flow : flows.ids) flow_points_.push_back({flow, events_.size(), from});
  events_.push_back({static_cast<std::uint32_t>(track), texts_.add(name), texts_.add(detail), begin.count(), end.count()});
}

void JsonTrace::counter(TrackId track, Picoseconds at, double value) {
  const std::scoped_lock lock(mutex_);
  if (events_.size() >= limits_.events) {
    ++dropped_events_;
    return;
  }
  events_.push_back({static_cast<std::uint32_t>(track), kCounter, 0, at.count(), std::bit_cast<std::int64_t>(value)});
}

void JsonTrace::decision(std::string_view kind, std::string_view what, std::string_view where) {
  const std::scoped_lock lock(mutex_);
  decisions_.add(kind, what, where);
}

std::size_t JsonTrace::dropped_events() const {
  const std::scoped_lock lock(mutex_);
  return dropped_events_;
}

std::size_t JsonTrace::dropped_decisions() const {
  const std::scoped_lock lock(mutex_);
  return decisions_.dropped();
}

// Of spans that begin together on one track the longer comes first, so that it encloses the others.
std::vector<std::size_t> JsonTrace::sorted() const {
  std::vector<std::size_t> order(events_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t left, std::size_t right) {
    const Event &a = events_[left], &b = events_[right];
    if (a.begin_ps != b.begin_ps) return a.begin_ps < b.begin_ps;
    if (a.track != b.track) return a.track < b.track;
    return a.name != kCounter && b.name != kCounter && a.end_ps_or_value > b.end_ps_or_value;
  });
  return order;
}

std::string JsonTrace::json() const {
  const std::scoped_lock lock(mutex_);
  const std::vector<std::size_t> order = sorted();
  std::vector<Lanes> lanes(tracks_.size());
  std::vector<std::size_t> lane_of;
  lane_of.reserve(order.size());
  for (const std::size_t index : order) {
    const Event& event = events_[index];
    lane_of.push_back(event.name == kCounter ? 0 : lanes[event.track].place(event.begin_ps, event.end_ps_or_value));
  }

  EventWriter out(process_, dropped_events_);
  // Processes and threads are numbered by (group, name): which thread asked for its track first must not show.
  std::map<std::string, int> pids;
  for (const auto& [key, id] : track_ids_) pids.try_emplace(key.first, static_cast<int>(pids.size()) + 1);
  for (const auto& [group, pid] : pids) out.metadata("process_name", pid, 0, "name", process_ + ": " + group);
  std::vector<int> first_tid(tracks_.size()), pid_of(tracks_.size());
  int tid = 1;
  for (const auto& [key, id] : track_ids_) {
    const auto track = static_cast<std::size_t>(id);
    first_tid[track] = tid;
    pid_of[track] = pids[key.first];
    for (std::size_t lane = 0; lane < lanes[track].count(); ++lane, ++tid) {
      out.metadata("thread_name", pid_of[track], tid, "name", lane == 0 ? key.second : fmt::format("{} ({})", key.second, lane + 1));
    }
  }
  if (dropped_events_ > 0) {
    out.metadata("process_labels", 1, 0, "labels",
                 fmt::format("trace cut: {} later events were dropped at the limit of {}", dropped_events_, limits_.events));
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Event& event = events_[order[i]];
    const int pid = pid_of[event.track];
    if (event.name == kCounter) {
      out.counter(pid, tracks_[event.track].name, event.begin_ps, std::bit_cast<double>(event.end_ps_or_value));
    } else {
      const int own_tid = first_tid[event.track] + static_cast<int>(lane_of[i]);
      out.span(pid, own_tid, texts_[event.name], event.begin_ps, event.end_ps_or_value, texts_[event.detail]);
      auto point = std::ranges::lower_bound(flow_points_, order[i], {}, &FlowPoint::event);
      for (; point != flow_points_.end() && point->event == order[i]; ++point) {
        const bool ends = point->from == kNowhere;
        if (!ends) out.flow(pid_of[point->from], first_tid[point->from], 's', event.begin_ps, point->flow);
        out.flow(pid, own_tid, ends ? 'f' : 't', event.begin_ps, point->flow);
      }
    }
  }
  return std::move(out).finish();
}

std::string JsonTrace::decisions_jsonl() const {
  const std::scoped_lock lock(mutex_);
  return decisions_.jsonl();
}

void JsonTrace::finish(const std::string& folder) {
  OutputFile file(folder + "/trace.json");
  file.write(json());
  file.commit();
  const std::scoped_lock lock(mutex_);
  decisions_.write(folder + "/decisions.jsonl");
}

}  // namespace vitro
