#include "engine/parts/brought_policies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/parts/register_parts.hpp"

namespace vitro {
namespace {

constexpr std::array<std::string_view, 5> kKinds{"eviction", "keep", "drift", "look_ahead", "place"};

bool is_registered(const BroughtPolicy& policy) {
  switch (policy.kind) {
    case PolicyKind::eviction:
      return evictions().find(policy.name) != nullptr;
    case PolicyKind::keep:
      return kv_keep_rules().find(policy.name) != nullptr;
    case PolicyKind::drift:
      return drift_rules().find(policy.name) != nullptr;
    case PolicyKind::look_ahead:
      return look_ahead_rules().find(policy.name) != nullptr;
    case PolicyKind::place:
      return place_rules().find(policy.name) != nullptr;
  }
  return false;
}

}  // namespace

std::string_view to_string(PolicyKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::vector<BroughtPolicy> read_brought(Reader& engine) {
  std::vector<BroughtPolicy> policies;
  if (!engine.has("policies")) return policies;
  for (Reader& entry : engine.maps("policies")) {
    BroughtPolicy policy;
    const std::string kind = entry.choice("kind", {kKinds.begin(), kKinds.end()});
    policy.kind = static_cast<PolicyKind>(std::ranges::find(kKinds, kind) - kKinds.begin());
    policy.name = entry.text("name");
    policy.content = entry.text("content", "");
    policy.follows_budget = entry.boolean("follows_budget", false);
    entry.finish();
    const auto same = [&](const BroughtPolicy& other) { return other.kind == policy.kind && other.name == policy.name; };
    if (std::ranges::any_of(policies, same))
      entry.fail("name", fmt::format("\"{}\" is there twice (expected a name for each)", policy.name));
    policies.push_back(std::move(policy));
  }
  return policies;
}

std::vector<std::string> with_brought(PolicyKind kind, std::vector<std::string> names, const std::vector<BroughtPolicy>& policies) {
  for (const BroughtPolicy& policy : policies) {
    // In a run the part is registered as well.
    if (policy.kind == kind && std::ranges::find(names, policy.name) == names.end()) names.push_back(policy.name);
  }
  return names;
}

void require_brought(const std::vector<BroughtPolicy>& policies) {
  for (const BroughtPolicy& policy : policies) {
    if (is_registered(policy)) continue;
    throw ConfigError(fmt::format("engine.policies: nobody brought the {} policy \"{}\" to this run (expected its class: policies=[...] of "
                                  "vitro.run, or --policy FILE.py:CLASS)",
                                  to_string(policy.kind), policy.name));
  }
}

}  // namespace vitro
