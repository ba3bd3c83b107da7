// What `vitro plan` asks the engine: facts of a model, and the profile as a planner sees it. JSON text out.
#pragma once
#include <string>

namespace vitro {

// What plan_facts() says of a composed experiment, a tree of `compose`.
std::string plan_facts_text(const std::string& tree);

// request: {neurons, per_block, buckets, tokens, batches, predicts, keep_named, experts, experts_used, limits, seed, layers}, and where
// the profile comes from: {profile: {...}} as `engine.profile` has it, or {recording: PATH, hottest_first: bool}. -> the mean over the
// layers named.
std::string plan_profile_text(const std::string& request);

}  // namespace vitro
