// Rules of eviction under watch: what a cache tells its rule, and what the rule answers, held against a set of blocks.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"
#include "engine/parts/weights/eviction_wrapper.hpp"

namespace vitro {

class ShadowRules;

// Beside one rule: the blocks that it has to know.
class WatchedRule final : public EvictionWrapper {
 public:
  WatchedRule(std::unique_ptr<Eviction> rule, const EvictionOptions& options, ShadowRules& shadow);
  ~WatchedRule() override;

  void insert(std::uint32_t block) override;
  void touch(std::uint32_t block) override;
  void touch_each(std::span<const std::uint32_t> blocks) override;
  void erase(std::uint32_t block) override;
  void leave(std::uint32_t block) override;
  void newcomer(std::uint32_t block) override;
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override;
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override;
  void next_layer() override;
  std::vector<std::uint32_t> next_token() override;

  // The cache is at rest, and this is what it says of itself. Blocks that are hot have left the rule and still have a slot.
  void hold_against(const NeuronCache& cache);

 private:
  std::optional<std::uint32_t> check_victim(std::optional<std::uint32_t> victim, const std::function<bool(std::uint32_t)>& held);
  void check_known(const char* what, std::uint32_t block);
  void settle_gone(std::optional<std::uint32_t> came = {});

  ShadowRules& shadow_;
  EvictionOptions options_;
  std::set<std::uint32_t> known_;   // resident, as far as the rule may choose them
  std::set<std::uint32_t> aside_;   // neurons that left the rule and not the cache: hot ones
  std::set<std::uint32_t> pinned_;  // neurons that came for the layer in work
  std::set<std::uint32_t> leaving_; // that the rule gave up, and that have to go
  std::optional<std::uint32_t> chosen_;  // the last victim
  bool any_may_go_ = false;  // the rule had none, and the newcomer may stay at any price
  std::optional<std::uint32_t> newcomer_, gone_;  // gone_: for the newcomer if that comes next, else it has become hot
};

// Puts a WatchedRule before every rule that is made as long as this lives, in this process. Policy thread only.
class ShadowRules {
 public:
  // Between a cache and its watched rule: tests put a defect of the cache there. Null: nothing.
  using Between = std::function<std::unique_ptr<Eviction>(std::unique_ptr<Eviction>)>;
  // by_neuron: caches of neurons, whose blocks may become hot; else of experts, which never do.
  ShadowRules(bool by_neuron, Between between);
  ~ShadowRules();
  ShadowRules(const ShadowRules&) = delete;
  ShadowRules& operator=(const ShadowRules&) = delete;

  bool by_neuron() const { return by_neuron_; }
  void hold_against(const NeuronCache& cache);
  void found(std::string what);
  const std::vector<std::string>& findings() const { return findings_; }
  std::uint64_t calls = 0;  // that were held against the sets

 private:
  friend class WatchedRule;
  bool by_neuron_;
  Between between_;
  std::vector<EvictionRule> own_;  // as they were registered
  std::vector<WatchedRule*> rules_;
  std::vector<std::string> findings_;
};

}  // namespace vitro
