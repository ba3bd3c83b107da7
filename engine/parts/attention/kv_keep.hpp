// Which full blocks of a sequence's keys and values stay in DRAM, as a part that can be exchanged (MNN-LLM section 4.1 keeps the first
// ones). Pure functions of lengths: what stays never depends on timing.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/registry.hpp"

namespace vitro {

class KvKeep {
 public:
  virtual ~KvKeep() = default;
  // Full blocks that stay of every sequence from which one has left: the file has no places for them.
  virtual std::uint32_t capacity() const = 0;
  // Whether full block `block` stays, of a sequence that has `full` of them. What leaves at some length is gone at any greater one.
  virtual bool stays(std::uint32_t block, std::uint32_t full) const = 0;
  // Whether blocks that a sliding window has passed are given up, instead of kept or written.
  virtual bool forgets_unseen() const { return true; }
};

struct KvKeepOptions {
  std::uint32_t kept_blocks = 0;  // engine.kv.dram_tokens, or by room_blocks for a rule that follows the budget
  std::uint32_t sink_blocks = 0;  // engine.kv.sinks
};

struct KvKeepRule {
  std::string name, description;
  bool follows_budget = false;  // kept_blocks is what the budget has room for, engine.kv.dram_tokens what weights leave it at least
  std::function<std::unique_ptr<KvKeep>(const KvKeepOptions&)> make;
};

// "first": as in the paper. "recent": those computed last, which are all that a sliding window sees. "sinks": the first few, on which
// attention rests (StreamingLLM, arXiv 2309.17453), and recent ones. "budget": the first ones, as many as memory.budget has room for.
// All of them; a plug-in may add to it before a run.
Registry<KvKeepRule>& kv_keep_rules();

}  // namespace vitro
