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

// From its making to its end, called "kind what". Costs nothing where no trace is written.
class StepSpan {
 public:
  StepSpan(Machine& machine, std::string_view kind, std::string_view what = {}, std::string detail = {})
      : machine_(machine), open_(machine.trace.enabled()) {
    if (!open_) return;
    begin_ = machine_.clock.now();
    name_ = what.empty() ? kind : fmt::format("{} {}", kind, what);
    detail_ = std::move(detail);
  }
  StepSpan(const StepSpan&) = delete;
  StepSpan& operator=(const StepSpan&) = delete;
  ~StepSpan() {
    if (open_) machine_.trace.span(machine_.trace.track("policy", "steps"), begin_, machine_.clock.now(), name_, detail_);
  }

 private:
  Machine& machine_;
  const bool open_;
  Picoseconds begin_{};
  std::string name_, detail_;
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
