// A rule that changes what another one does: all that it does not override goes on to that.
#pragma once
#include <utility>

#include "engine/parts/weights/eviction.hpp"

namespace vitro {

class EvictionWrapper : public Eviction {
 public:
  explicit EvictionWrapper(std::unique_ptr<Eviction> rule) : rule_(std::move(rule)) {}
  void insert(std::uint32_t block) override { rule_->insert(block); }
  void touch(std::uint32_t block) override { rule_->touch(block); }
  void touch_each(std::span<const std::uint32_t> blocks) override { rule_->touch_each(blocks); }
  void erase(std::uint32_t block) override { rule_->erase(block); }
  void leave(std::uint32_t block) override { rule_->leave(block); }
  void newcomer(std::uint32_t block) override { rule_->newcomer(block); }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override { return rule_->victim(held); }
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override {
    return rule_->victim_at_any_price(held);
  }
  void release() override { rule_->release(); }
  void expect(std::uint32_t block, double uses) override { rule_->expect(block, uses); }
  void weigh(std::uint32_t block, float weight) override { rule_->weigh(block, weight); }
  void next_layer() override { rule_->next_layer(); }
  std::vector<std::uint32_t> next_token() override { return rule_->next_token(); }

 protected:
  std::unique_ptr<Eviction> rule_;
};

}  // namespace vitro
