// Which rows go to which expert in one layer of one step.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Rows are regrouped by expert, ascending: entry j of the regrouped order is one (row, expert) pair.
struct ExpertPlan {
  struct Group {
    std::uint16_t expert = 0;
    std::uint32_t first = 0, count = 0;  // in the regrouped order
  };
  std::vector<Group> groups;        // experts with work, ascending
  std::vector<std::uint32_t> rows;  // [pairs] row of the step, by regrouped entry
  // Per row of the step, k entries by ascending expert id: where its partial sum lies, and its weight.
  std::vector<std::uint32_t> sources;  // [B, k]
  std::vector<float> weights;          // [B, k]
  std::uint32_t k = 0;
};

// Requires: every row chose the same number of distinct experts, all below `experts`.
ExpertPlan make_expert_plan(const std::vector<ExpertChoice>& choices, std::uint32_t experts);

}  // namespace vitro
