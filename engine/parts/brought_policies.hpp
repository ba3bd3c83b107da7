// Policies that whoever starts a run brings beside the experiment, such as classes of Python. `engine.policies` lists them, so that an
// experiment that names one is complete where it is read, written and kept; the part itself is added to its registry for the run alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

// eviction: eviction.hpp. keep: kv_keep.hpp. drift: expert_drift.hpp. look_ahead: look_ahead_rule.hpp. place: expert_placement.hpp.
enum class PolicyKind : std::uint8_t { eviction, keep, drift, look_ahead, place };
std::string_view to_string(PolicyKind kind);

struct BroughtPolicy {
  PolicyKind kind{};
  std::string name;
  std::string content;  // tells two policies of one name apart; for people and stores, not looked at here
  bool follows_budget = false;  // of kind keep: KvKeepRule::follows_budget
};

// `policies:` of `engine:`, a list of {kind, name, content, follows_budget}; empty where there is none. Throws ConfigError, also for a
// name twice.
std::vector<BroughtPolicy> read_brought(Reader& engine);

// `names` and those of the policies of that kind.
std::vector<std::string> with_brought(PolicyKind kind, std::vector<std::string> names, const std::vector<BroughtPolicy>& policies);

// Throws ConfigError where a registry lacks a policy: nobody brought it to this run.
void require_brought(const std::vector<BroughtPolicy>& policies);

}  // namespace vitro
