// A trace that ends up in files of a folder.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "engine/machine/trace.hpp"
#include "traces/read_flows.hpp"

namespace vitro {

class TraceFile : public TraceSink {
 public:
  // flows: whether a read is drawn to the kernel that takes what it brought.
  explicit TraceFile(bool flows) {
    if (flows) flows_.emplace();
  }

  bool enabled() const override { return open_.load(std::memory_order_relaxed); }
  // Whether callers write spans, counters and decisions. Between two windows of a run they do not; what ends in a window is whole. What
  // was read before a window has no flow: kernels and reads in between went unseen.
  void set_open(bool open);

  // Writes what is left, and decisions.jsonl. Requires: the folder exists; nothing is traced afterwards. Throws RunError, and then leaves
  // no half file.
  virtual void finish(const std::string& folder) = 0;

  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail) final {
    add_span(track, begin, end, name, detail, {});
  }
  void kernel(TrackId track, Picoseconds begin, Picoseconds end, const KernelCall& call) final;
  void request(TrackId track, Picoseconds submitted, Picoseconds end, const TracedRequest& request) final;

 protected:
  // What has the same number belongs together: an arrow goes from each to the next in time. It begins where the policy is when the span
  // begins, on the track `from`, goes to the span, and from there to one with which it ends.
  struct Flows {
    std::span<const std::uint64_t> ids = {};
    std::optional<TrackId> from = std::nullopt;  // none: it ends here
  };
  virtual void add_span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, std::string_view detail, Flows flows) = 0;

 private:
  std::mutex flows_mutex_;
  std::optional<ReadFlows> flows_;
  std::atomic<bool> open_{true};
};

}  // namespace vitro
