// A failure that a larger memory budget would not have had.
#pragma once
#include "engine/base/status.hpp"

namespace vitro {

class OverBudget : public RunError {
  using RunError::RunError;
};

// Throws RunError, or OverBudget where that is the reason. Requires: !status.ok().
[[noreturn]] inline void fail(const Status& status, const std::string& what) {
  if (status.code == Code::over_budget) throw OverBudget(what + ": " + status.message);
  throw RunError(what + ": " + status.message);
}

}  // namespace vitro
