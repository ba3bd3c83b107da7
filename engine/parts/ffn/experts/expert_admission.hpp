// Where the rows of one step meet their experts: in a slice of a static graph as long as it has room, else on the cores or nowhere.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/parts/ffn/expert_plan.hpp"
#include "engine/parts/ffn/experts/expert_groups.hpp"

namespace vitro {

// Rows of a pool: the slices of static graphs first, each as long as its expert's capacity, then what the cores compute.
struct ExpertAdmission {
  // `plan.groups` is what the cores compute. `plan.rows` has an entry for each row of the pool; padding repeats row 0, whose result
  // nobody reads. A pair that is dropped has weight 0.
  ExpertPlan plan;
  std::vector<std::uint32_t> taken;       // by expert: rows of its slice that are no padding
  std::vector<std::uint32_t> dropped_of;  // by expert
  std::uint64_t pairs = 0, dropped = 0, on_cores = 0;
  std::uint64_t overflowed = 0;  // pairs that found no room, dropped or on cores
  bool ranked = false;           // by row; else by the router's weight
  std::uint32_t padded = 0;
};

enum class Overflow : std::uint8_t { drop, cpu };

// How much each row of the step matters; empty: nobody knows. Asked once, and only where a slice overflows.
using RowRank = std::function<std::vector<float>()>;

// What overflows a slice is what ranks lowest, by row, or by the router's weight for the expert where no rank is given; of equals the later
// row. `on_cores`: the step uses no graph. Requires: every row chose the same number of distinct experts of the placement.
ExpertAdmission admit(const std::vector<ExpertChoice>& choices, const LayerPlacement& placement, Overflow overflow, bool on_cores = false,
                      const RowRank& rank = {});

}  // namespace vitro
