// Cross-fidelity: what the flow model of a device gives beside its detailed model, and beside public simulators. Each source of
// rows speaks of one part of a device and splits its rows into cases, which may run in processes of their own.
#pragma once
#include <string>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro::sim {

struct CrossFidelityRow {
  std::string id, unit;
  double detailed = 0;
  double other = 0;  // what the flow model gives or, of a reference, what was published
  bool reference = false;
};

struct CrossFidelityCase {
  std::string part, name;
};
struct CrossFidelityPlan {
  std::vector<CrossFidelityCase> cases;
  std::vector<std::pair<std::string, std::string>> without_twin;  // part, and why there is nothing to compare
};

// `device` is a device file.
CrossFidelityPlan cross_fidelity_plan(const Node& device);
// Throws ConfigError on a part or a case that is not in the plan.
std::vector<CrossFidelityRow> cross_fidelity(const Node& device, const CrossFidelityCase& what);

}  // namespace vitro::sim
