#include "engine/torture/shadow/shadow_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/torture/shadow/findings.hpp"

namespace vitro {

WatchedRule::WatchedRule(std::unique_ptr<Eviction> rule, const EvictionOptions& options, ShadowRules& shadow)
    : EvictionWrapper(std::move(rule)), shadow_(shadow), options_(options) {
  shadow_.rules_.push_back(this);
}

WatchedRule::~WatchedRule() { std::erase(shadow_.rules_, this); }

void WatchedRule::settle_gone(std::optional<std::uint32_t> came) {
  const bool made_room = came && came == newcomer_;
  if (gone_ && !made_room) aside_.insert(*gone_);
  gone_.reset();
}

void WatchedRule::check_known(const char* what, std::uint32_t block) {
  ++shadow_.calls;
  settle_gone();
  if (!known_.contains(block)) shadow_.found(fmt::format("block {} is {}, and is not resident", block, what));
}

void WatchedRule::insert(std::uint32_t block) {
  ++shadow_.calls;
  settle_gone(block);
  if (known_.contains(block)) shadow_.found(fmt::format("block {} came, and was resident", block));
  const bool was_hot = aside_.erase(block) > 0;
  known_.insert(block);
  if (shadow_.by_neuron() && !was_hot) pinned_.insert(block);
  if (const std::size_t size = known_.size() + aside_.size(); size > options_.capacity) {
    shadow_.found(fmt::format("{} blocks are resident, and there is room for {}", size, options_.capacity));
  }
  chosen_.reset();
  any_may_go_ = false;
  EvictionWrapper::insert(block);
}

void WatchedRule::touch(std::uint32_t block) {
  check_known("used", block);
  EvictionWrapper::touch(block);
}

void WatchedRule::touch_each(std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t block : blocks) check_known("used", block);
  EvictionWrapper::touch_each(blocks);
}

void WatchedRule::erase(std::uint32_t block) {
  check_known("given up", block);
  known_.erase(block);
  pinned_.erase(block);
  if (shadow_.by_neuron() && leaving_.erase(block) == 0) gone_ = block;
  if (!any_may_go_ && chosen_ != block) settle_gone();
  chosen_.reset();
  any_may_go_ = false;
  EvictionWrapper::erase(block);
}

void WatchedRule::leave(std::uint32_t block) {
  check_known("not wanted", block);
  known_.erase(block);
  pinned_.erase(block);
  EvictionWrapper::leave(block);
}

void WatchedRule::newcomer(std::uint32_t block) {
  ++shadow_.calls;
  settle_gone();
  newcomer_ = block;
  if (known_.contains(block) || aside_.contains(block)) shadow_.found(fmt::format("block {} is to come, and is resident", block));
  EvictionWrapper::newcomer(block);
}

std::optional<std::uint32_t> WatchedRule::check_victim(std::optional<std::uint32_t> victim,
                                                       const std::function<bool(std::uint32_t)>& held) {
  chosen_ = victim;
  if (!victim) return victim;
  check_known("the one to go", *victim);
  if (held(*victim)) shadow_.found(fmt::format("block {} is the one to go, and is held", *victim));
  if (pinned_.contains(*victim)) shadow_.found(fmt::format("block {} is the one to go, and came for the layer in work", *victim));
  return victim;
}

std::optional<std::uint32_t> WatchedRule::victim(const std::function<bool(std::uint32_t)>& held) {
  return check_victim(EvictionWrapper::victim(held), held);
}

std::optional<std::uint32_t> WatchedRule::victim_at_any_price(const std::function<bool(std::uint32_t)>& held) {
  const std::optional<std::uint32_t> victim = check_victim(EvictionWrapper::victim_at_any_price(held), held);
  any_may_go_ = !victim;
  return victim;
}

void WatchedRule::next_layer() {
  pinned_.clear();
  any_may_go_ = false;
  EvictionWrapper::next_layer();
}

std::vector<std::uint32_t> WatchedRule::next_token() {
  std::vector<std::uint32_t> left = EvictionWrapper::next_token();
  for (const std::uint32_t block : left) {
    check_known("given up with its token", block);
    if (!leaving_.insert(block).second) shadow_.found(fmt::format("block {} is given up twice with one token", block));
  }
  return left;
}

void WatchedRule::hold_against(const NeuronCache& cache) {
  std::set<std::uint32_t> slots, cold, hot;
  for (const std::uint32_t block : cache.resident_blocks()) {
    (cache.hot(block) ? hot : cold).insert(block);
    if (!slots.insert(cache.slot_of(block)).second) shadow_.found(fmt::format("slot {} has two blocks", cache.slot_of(block)));
  }
  shadow_.calls += slots.size();
  if (cold != known_) {
    shadow_.found(fmt::format("{} blocks are resident and cold by the cache, {} by what its rule heard", cold.size(), known_.size()));
  }
  if (slots.size() != cache.size() || cache.size() > cache.capacity()) {
    shadow_.found(
        fmt::format("{} blocks have slots, {} are counted, and there is room for {}", slots.size(), cache.size(), cache.capacity()));
  }
  if (cache.free_slots() + cache.size() != cache.slots()) {
    shadow_.found(fmt::format("{} of {} slots are free beside {} resident blocks, and nothing runs", cache.free_slots(), cache.slots(),
                              cache.size()));
  }
  if (!pinned_.empty()) shadow_.found(fmt::format("{} blocks stay pinned, and nothing runs", pinned_.size()));
  gone_.reset();
  aside_ = std::move(hot);
}

ShadowRules::ShadowRules(bool by_neuron, Between between)
    : by_neuron_(by_neuron), between_(std::move(between)), own_(evictions().all()) {
  for (const EvictionRule& rule : own_) {
    EvictionRule watched = rule;
    watched.make = [this, make = rule.make](const EvictionOptions& options) -> std::unique_ptr<Eviction> {
      std::unique_ptr<Eviction> made = std::make_unique<WatchedRule>(make(options), options, *this);
      return between_ ? between_(std::move(made)) : std::move(made);
    };
    evictions().remove(rule.name);
    evictions().add(std::move(watched));
  }
}

ShadowRules::~ShadowRules() {
  for (const EvictionRule& rule : own_) {
    evictions().remove(rule.name);
    evictions().add(rule);
  }
}

void ShadowRules::hold_against(const NeuronCache& cache) {
  for (WatchedRule* rule : rules_) rule->hold_against(cache);
}

void ShadowRules::found(std::string what) { add_finding(findings_, std::move(what)); }

}  // namespace vitro
