// with_admission(): eviction.hpp.
#include <utility>

#include "engine/base/recency_list.hpp"
#include "engine/parts/weights/eviction_wrapper.hpp"

namespace vitro {
namespace {

class Always final : public EvictionWrapper {
 public:
  using EvictionWrapper::EvictionWrapper;
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override { return rule_->victim_at_any_price(held); }
};

// Remembers by itself what was used since the layer in work last ran.
class Bypass final : public EvictionWrapper {
 public:
  Bypass(std::unique_ptr<Eviction> rule, std::uint32_t blocks, std::uint32_t layers)
      : EvictionWrapper(std::move(rule)), used_(blocks), layers_(layers) {}
  void insert(std::uint32_t block) override {
    used_.push_newest(block);
    EvictionWrapper::insert(block);
  }
  void touch(std::uint32_t block) override {
    used_.touch(block);
    EvictionWrapper::touch(block);
  }
  void touch_each(std::span<const std::uint32_t> blocks) override {
    used_.touch(blocks);
    EvictionWrapper::touch_each(blocks);
  }
  void erase(std::uint32_t block) override {
    used_.erase(block);
    EvictionWrapper::erase(block);
  }
  void leave(std::uint32_t block) override {
    used_.erase(block);
    EvictionWrapper::leave(block);
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    const std::optional<std::uint32_t> found = rule_->victim(held);
    return found && used_.used_since_first_mark(*found) ? std::nullopt : found;
  }
  void next_layer() override {
    used_.mark(layers_);
    EvictionWrapper::next_layer();
  }

 private:
  RecencyList used_;
  std::uint32_t layers_;
};

}  // namespace

std::string_view to_string(AdmissionRule admission) {
  constexpr std::string_view kNames[] = {"rule", "always", "bypass"};
  return kNames[static_cast<std::size_t>(admission)];
}

std::unique_ptr<Eviction> with_admission(std::unique_ptr<Eviction> rule, const EvictionOptions& options) {
  if (options.admission == AdmissionRule::always) return std::make_unique<Always>(std::move(rule));
  if (options.admission == AdmissionRule::bypass) return std::make_unique<Bypass>(std::move(rule), options.blocks, options.layers);
  return rule;
}

}  // namespace vitro
