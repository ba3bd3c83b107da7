// Policies whose class is Python (python/vitro/policy): parts of an engine for one run, with the interfaces of the built-in ones.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "policy_calls.hpp"

namespace vitro {

void bind_policy_types(pybind11::module_& m);

// In the registries for as long as it lives. Not thread-safe: made before a run and destroyed after it, on the same thread.
class BroughtToRun {
 public:
  // rows: [{"kind", "name", "class", "methods", ...}] as vitro.policy gives them. Throws ConfigError for a name that is taken. Requires:
  // the GIL.
  explicit BroughtToRun(const pybind11::list& rows);
  BroughtToRun(const BroughtToRun&) = delete;
  BroughtToRun& operator=(const BroughtToRun&) = delete;
  ~BroughtToRun();

  // What the classes cost, of a run that took so many seconds. Throws RunError where something could not be written down for later.
  nlohmann::ordered_json report(double run_seconds) const;

 private:
  std::vector<PolicyClassPtr> classes_;
};

}  // namespace vitro
