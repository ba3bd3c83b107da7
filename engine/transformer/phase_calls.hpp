// PhaseCalls: the calls of a phase, taken from the step before where that one was alike. Decoding asks for the same calls token after
// token: what differs are the rows that they are about.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "engine/transformer/call_builder.hpp"

namespace vitro {

class PhaseCalls {
 public:
  // stays: weights are where the builder's residencies say for as long as this lives. Else, or without `repeat`, every call is built anew.
  // `builder` and `graph` outlive this.
  PhaseCalls(const CallBuilder& builder, const OperatorGraph& graph, bool stays, bool repeat = true)
      : builder_(builder), graph_(graph), repeats_(stays && repeat) {}

  // What CallBuilder::build() returns. The phase has to stay where it is.
  UnitQueues of(const Phase& phase, const StepContext& step, const Shares& shares);

  std::uint64_t built() const { return built_; }  // phases so far
  std::uint64_t repeated() const { return repeated_; }

 private:
  // All that calls follow from beside the phase: the sizes of a step, not its rows.
  struct Likeness {
    std::size_t rows = 0, sampled = 0;
    std::uint32_t first_row = 0, table_width = 0;
    Sampling sampling;
    bool choose = true;
    Shares shares;
    friend bool operator==(const Likeness&, const Likeness&) = default;
  };
  struct Known {
    bool fixed = false;  // nothing but likeness decides what the calls are
    Likeness like;
    bool kept = false;  // from the second step of a likeness on: a prompt's chunks would be kept for nothing
    UnitQueues queues;
    Batch sampled;  // of the step that they were built for
  };
  bool is_fixed(const Phase& phase) const;

  const CallBuilder& builder_;
  const OperatorGraph& graph_;
  bool repeats_;
  std::uint64_t built_ = 0, repeated_ = 0;
  std::unordered_map<const Phase*, Known> known_;
};

}  // namespace vitro
