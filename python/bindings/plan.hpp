// What `vitro plan` asks the engine: facts of a model, and the profile as a planner sees it. JSON text out.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace vitro {

// The composed experiment and what plan_facts() says of it. Arguments as of `resolve`.
std::string plan_facts_text(const std::string& source, const std::string& name, bool is_path, const std::vector<std::string>& overrides);

// request: {neurons, per_block, buckets, tokens, batches, predicts, keep_named, experts, experts_used, limits, seed, layers}, and where
// the profile comes from: {profile: {...}} as `engine.profile` has it, or {recording: PATH, hottest_first: bool}. -> the mean over the
// layers named.
std::string plan_profile_text(const std::string& request);

}  // namespace vitro
