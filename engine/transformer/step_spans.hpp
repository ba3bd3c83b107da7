// Spans of what the policy does, on the track policy/steps: each step, in it each layer, in that each part (part_times.hpp). Waits are
// inside: a part lasts until the policy goes on with the next one.
#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/machine/machine.hpp"

namespace vitro {

// From its making to its end, or to close(). Costs nothing where no trace is written.
class StepSpan {
 public:
  StepSpan(Machine& machine, std::string_view name, std::string detail = {})
      : machine_(machine), name_(name), detail_(std::move(detail)), begin_(machine.clock.now()), open_(machine.trace.enabled()) {}
  StepSpan(const StepSpan&) = delete;
  StepSpan& operator=(const StepSpan&) = delete;
  ~StepSpan() { close(); }

  void close() {
    if (open_) machine_.trace.span(machine_.trace.track("policy", "steps"), begin_, machine_.clock.now(), name_, detail_);
    open_ = false;
  }

 private:
  Machine& machine_;
  std::string_view name_;  // a constant
  std::string detail_;
  Picoseconds begin_;
  bool open_;
};

// The rows of a step, as the detail of its span; empty where no trace is written.
inline std::string described(const Machine& machine, const std::vector<SeqPos>& rows) {
  if (!machine.trace.enabled() || rows.empty()) return {};
  const std::string first = fmt::format("sequence {}, position {}", rows.front().sequence, rows.front().position);
  return rows.size() == 1 ? first : fmt::format("{} rows from {}", rows.size(), first);
}

// One span for phases of one layer that follow each other. Phases of no layer (the embedding, the head) are in none.
class LayerSpans {
 public:
  explicit LayerSpans(Machine& machine) : machine_(machine) {}

  void enter(int layer) {
    if (!machine_.trace.enabled() || layer == layer_) return;
    span_.reset();
    layer_ = layer;
    if (layer >= 0) span_.emplace(machine_, "layer", std::to_string(layer));
  }

 private:
  Machine& machine_;
  int layer_ = -1;
  std::optional<StepSpan> span_;
};

}  // namespace vitro
