#include "engine/parts/ffn/experts/expert_drift.hpp"

#include <numeric>

namespace vitro {
namespace {

class Follow final : public ExpertDrift {
 public:
  std::optional<ExpertLoads> follow(const LoadsSeen& seen) override {
    if (seen.overflowed <= seen.max_drop && seen.overlap > 0.5) return std::nullopt;
    return halfway(seen.expected, seen.observed);
  }
};

Registry<DriftRule> own_drift_rules() {
  Registry<DriftRule> rules;
  rules.add({"stay", "tiers stay as they were made", nullptr});
  rules.add({"follow", "tiers follow a load that overflows them, or whose hot experts are others",
             []() -> std::unique_ptr<ExpertDrift> { return std::make_unique<Follow>(); }});
  return rules;
}

}  // namespace

Registry<DriftRule>& drift_rules() {
  static Registry<DriftRule> rules = own_drift_rules();
  return rules;
}

ExpertLoads halfway(const ExpertLoads& expected, const ExpertLoads& observed) {
  ExpertLoads out = expected;
  for (std::size_t layer = 0; layer < out.size(); ++layer) {
    const double seen = std::accumulate(observed[layer].begin(), observed[layer].end(), 0.0);
    for (std::size_t e = 0; seen > 0 && e < out[layer].size(); ++e) out[layer][e] = (out[layer][e] + observed[layer][e]) / 2;
  }
  return out;
}

}  // namespace vitro
