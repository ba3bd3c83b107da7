// How `engine:` may be written: a section for each part, the keys of earlier versions, and named compositions that sections start from.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro {

struct PolicyInfo {
  std::string name, description;
};
// The compositions of configs/engines/policies.json, in its order.
const std::vector<PolicyInfo>& policies();

// The keys of earlier versions right below `engine:`, for suggestions.
std::vector<std::string_view> earlier_keys();

// A key below `engine.` and its value in today's spelling: several where an old key meant several things, nulls for what it takes back.
// Values remember how they were written, for messages.
std::vector<Node::Entry> engine_entries(std::string_view key, const Node& value);

// Sets such a key as an override does: what an earlier value of it meant is taken back.
void set_engine_key(Node& engine, std::string_view key, const Node& value);

// The whole part in today's spelling. Throws ConfigError when a key is there in both spellings.
Node canonical_engine(const Node& engine);

// `engine` over the composition that its `policy` names. Requires: canonical. Throws ConfigError for an unknown name.
Node over_policy(const Node& engine);

}  // namespace vitro
