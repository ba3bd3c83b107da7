// Which resident block goes first when a cache is full. Pure bookkeeping over block numbers, deterministic.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/registry.hpp"

namespace vitro {

class Eviction {
 public:
  virtual ~Eviction() = default;

  virtual void insert(std::uint32_t block) = 0;                     // Requires: not resident. It counts as used now.
  virtual void touch(std::uint32_t block) = 0;                      // Requires: resident
  virtual void touch_each(std::span<const std::uint32_t> blocks) {  // in that order
    for (const std::uint32_t block : blocks) touch(block);
  }
  virtual void erase(std::uint32_t block) = 0;  // Requires: resident
  // The same of a block that nobody wants after all, while the cache has room for it. A rule need not tell the two apart.
  virtual void leave(std::uint32_t block) { erase(block); }
  // The next victim() is asked for so that this block, which is not resident, can be. For rules that compare it with what would go.
  virtual void newcomer(std::uint32_t /*block*/) {}
  // The resident block that should go for a newcomer, of those that `held` does not hold back; none when all of them are held back or
  // worth more than the newcomer. A rule need not ask again, before release(), about a block that was held back.
  virtual std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) = 0;
  // The same for a newcomer that has to stay, whatever it is worth.
  virtual std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) { return victim(held); }
  // Blocks that were held back may go from now on.
  virtual void release() {}
  // A block that may be the victim a few times later, if the rule knows one: a caller can request its entries from memory by then.
  virtual std::optional<std::uint32_t> upcoming() const { return std::nullopt; }
  // Before the first use: a calibration says how often a token uses the block, at most 1 time or so. Rules that count no uses ignore it.
  virtual void expect(std::uint32_t /*block*/, double /*uses*/) {}
  // A router gave the block this weight; resident or not.
  virtual void weigh(std::uint32_t /*block*/, float /*weight*/) {}
  // A layer is through.
  virtual void next_layer() {}
  // A token is through. Returns the resident blocks that should go although there is room, oldest first.
  virtual std::vector<std::uint32_t> next_token() { return {}; }
};

inline constexpr double kHalfLife = 64;  // tokens; our choice, the stretch of a story's paragraph

// What is admitted to a full cache, apart from what goes for it, so that rules can be compared by themselves. rule: as the rule has it;
// step_lru bypasses, the others do not. always: every newcomer. bypass: a newcomer for which something would go that was used since the
// layer in work last ran is used once and not kept. "step_lru" is "lru" with bypass.
enum class AdmissionRule : std::uint8_t { rule, always, bypass };
inline constexpr AdmissionRule kAdmissionRules[] = {AdmissionRule::rule, AdmissionRule::always, AdmissionRule::bypass};
std::string_view to_string(AdmissionRule admission);

struct EvictionOptions {
  std::uint32_t blocks = 0;    // numbers are below it
  std::uint32_t capacity = 0;  // how many are resident at most
  double window = 0;           // of "window", in tokens; 0: as long as there is room
  std::uint32_t layers = 1;    // of a step
  AdmissionRule admission = AdmissionRule::rule;
};

// "lru": least recently used (PowerInfer-2, section 4.2). "step_lru": the same, but what was used since the layer in work last ran does
// not go: a step meets the layers in turn and most of a token's neurons again with the next one, so such a block is wanted before the
// newcomer is. Where a step uses no more than there is room for, the two are the same; beyond that "lru" gives up everything just before
// its turn, and this keeps a part. "lfu": least frequently used since it came, ties by recency.
// "arc": recency and frequency in balance, steered by hits on blocks that just went (Megiddo and Modha, FAST 2003).
// "window": what was used within the last tokens ("LLM in a flash", arXiv 2312.11514, windowing); a block leaves with the token
// that last used it, or before it when there is no room. Between two whole numbers that share of the blocks stays for a token more.
// "none": what came first stays, and nothing goes for what comes later.
// Throws ConfigError for another name.
std::unique_ptr<Eviction> make_eviction(std::string_view name, const EvictionOptions& options);

// The rule with that admission. In admission.cpp.
std::unique_ptr<Eviction> with_admission(std::unique_ptr<Eviction> rule, const EvictionOptions& options);

struct EvictionRule {
  std::string name, description;
  std::function<std::unique_ptr<Eviction>(const EvictionOptions&)> make;
};
void register_evictions(Registry<EvictionRule>& rules);  // the engine's own
// All of them; a plug-in may add to it before a run.
Registry<EvictionRule>& evictions();

// The bound that no policy beats: how many of `accesses` hit a cache of `capacity` blocks that always gives up what is used
// again last (Belady 1966), the newcomer itself included. `resident`: what it holds at the beginning; at most `capacity`.
std::uint64_t belady_hits(std::span<const std::uint32_t> accesses, std::uint32_t capacity, std::span<const std::uint32_t> resident = {});

}  // namespace vitro
