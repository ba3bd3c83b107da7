// What an accelerator takes of a step beside the cores: a share of each kind of phase, by the rows of the step.
#pragma once
#include <optional>
#include <vector>

#include "engine/decode/lowering.hpp"
#include "engine/machine/compute_unit.hpp"

namespace vitro {

struct Accelerator {
  struct Split {
    std::uint32_t rows = 1;            // of a step: up to so many
    double attention = 0;              // of the heads, and of the rows of their projections
    double ffn = 0;                    // of the neurons, where phases carry out the FFN
    double head = 0;                   // of the vocabulary
    std::optional<double> heads = {};  // of the heads alone, where that is another share than `attention`
  };
  ComputeUnit* unit = nullptr;  // null: there is none
  std::vector<Split> splits;    // by ascending rows; larger steps have the last one's

  // Requires: there is a split.
  const Split& split(std::uint32_t rows) const;
  // Of each of `units`, the accelerator being the last one; without one all alike. `heads`: of a phase that attends.
  Shares shares(std::size_t units, BlockKind kind, std::uint32_t rows, bool heads = false) const;
};

}  // namespace vitro
