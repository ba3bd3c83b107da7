#include "engine/parts/weights/eviction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "engine/base/check.hpp"
#include "engine/base/recency_list.hpp"
#include "engine/base/status.hpp"
#include "engine/parts/weights/worth_order.hpp"

namespace vitro {
namespace {

class Lru : public Eviction {
 public:
  explicit Lru(std::uint32_t blocks) : list_(blocks) {}
  void insert(std::uint32_t block) override { list_.push_newest(block); }
  void touch(std::uint32_t block) override { list_.touch(block); }
  void touch_each(std::span<const std::uint32_t> blocks) override { list_.touch(blocks); }
  void erase(std::uint32_t block) override { list_.erase(block); }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override { return list_.oldest_without(held); }
  void release() override { list_.release(); }
  std::optional<std::uint32_t> upcoming() const override { return list_.upcoming(); }

 protected:
  RecencyList list_;
};

// A mark stands where each of the last layers began, as many as a step has: what is used behind the first of them is wanted before
// the newcomer is.
class StepLru final : public Lru {
 public:
  StepLru(std::uint32_t blocks, std::uint32_t layers) : Lru(blocks), layers_(layers) {}
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    const std::optional<std::uint32_t> oldest = list_.oldest_without(held);
    return oldest && list_.used_since_first_mark(*oldest) ? std::nullopt : oldest;
  }
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override {
    return list_.oldest_without(held);
  }
  // What came before the first layer ran lies before all marks: no layer has used it.
  void next_layer() override { list_.mark(layers_); }

 private:
  std::uint32_t layers_;
};

class Lfu final : public Eviction {
 public:
  explicit Lfu(std::uint32_t blocks) : uses_(blocks), order_(blocks) {}
  void insert(std::uint32_t block) override {
    uses_[block] = {1, ++now_};
    order_.insert(block, uses_[block]);
  }
  void touch(std::uint32_t block) override { uses_[block] = {uses_[block].first + 1, ++now_}; }
  void erase(std::uint32_t block) override { order_.erase(block); }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    return order_.least([this](std::uint32_t block) { return uses_[block]; }, held);
  }
  void release() override { order_.release(); }

 private:
  using Uses = std::pair<std::uint64_t, std::uint64_t>;  // how many, and when the last one was
  std::vector<Uses> uses_;
  WorthOrder<Uses> order_;
  std::uint64_t now_ = 0;
};

// T1 and T2 hold resident blocks used once and more often; B1 and B2 remember what left them. `target_` is the size that
// T1 aims at.
class Arc final : public Eviction {
 public:
  Arc(std::uint32_t blocks, std::uint32_t capacity)
      : once_(blocks), often_(blocks), left_once_(blocks), left_often_(blocks), capacity_(capacity) {}

  void insert(std::uint32_t block) override {
    if (left_once_.contains(block)) {
      const std::uint32_t step = std::max(1u, left_often_.size() / std::max(1u, left_once_.size()));
      target_ = std::min(capacity_, target_ + step);
      left_once_.erase(block);
      often_.push_newest(block);
    } else if (left_often_.contains(block)) {
      const std::uint32_t step = std::max(1u, left_once_.size() / std::max(1u, left_often_.size()));
      target_ -= std::min(target_, step);
      left_often_.erase(block);
      often_.push_newest(block);
    } else {
      once_.push_newest(block);
    }
  }
  void touch(std::uint32_t block) override {
    list_of(block).erase(block);
    often_.push_newest(block);
  }
  void erase(std::uint32_t block) override {
    const bool was_once = once_.contains(block);
    list_of(block).erase(block);
    RecencyList& ghosts = was_once ? left_once_ : left_often_;
    ghosts.push_newest(block);
    if (ghosts.size() > capacity_) ghosts.erase(ghosts.oldest());
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    RecencyList& first = once_.size() > target_ ? once_ : often_;
    RecencyList& second = &first == &once_ ? often_ : once_;
    const std::optional<std::uint32_t> found = first.oldest_without(held);
    return found ? found : second.oldest_without(held);
  }
  void release() override {
    once_.release();
    often_.release();
  }

 private:
  RecencyList& list_of(std::uint32_t block) { return once_.contains(block) ? once_ : often_; }

  RecencyList once_, often_, left_once_, left_often_;
  std::uint32_t capacity_, target_ = 0;
};

class Window final : public Eviction {
 public:
  explicit Window(const EvictionOptions& options) : list_(options.blocks), last_(options.blocks), window_(options.window) {}
  void insert(std::uint32_t block) override {
    list_.push_newest(block);
    last_[block] = token_;
  }
  void touch(std::uint32_t block) override {
    list_.touch(block);
    last_[block] = token_;
  }
  void erase(std::uint32_t block) override { list_.erase(block); }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override { return list_.oldest_without(held); }
  void release() override { list_.release(); }
  std::vector<std::uint32_t> next_token() override {
    ++token_;
    std::vector<std::uint32_t> left;
    if (window_ == 0) return left;
    list_.release();  // before and behind this search: it asks for age, not for pins
    list_.oldest_without([&](std::uint32_t block) {
      if (last_[block] + window_of(block) < token_) left.push_back(block);
      return last_[block] + std::uint64_t(window_) < token_;
    });
    list_.release();
    return left;
  }

 private:
  // Whole tokens for which an unused block stays. Multiples of the golden ratio spread those that stay longer evenly over all blocks.
  std::uint64_t window_of(std::uint32_t block) const {
    const auto whole = static_cast<std::uint64_t>(window_);
    return whole + ((block * 2654435769u) * 0x1p-32 < window_ - static_cast<double>(whole) ? 1 : 0);
  }

  RecencyList list_;
  std::vector<std::uint64_t> last_;  // token of the last use; ascends along the list
  std::uint64_t token_ = 1;
  double window_;
};

class None final : public Eviction {
 public:
  void insert(std::uint32_t) override {}
  void touch(std::uint32_t) override {}
  void erase(std::uint32_t) override {}
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>&) override { return std::nullopt; }
};

// A block's worth is the sum of 2^((t - now) / kHalfLife) over its uses at t, or times a router's weights. Its logarithm plus
// now / kHalfLife does not change between uses, so the order stands.
class Popularity final : public Eviction {
 public:
  Popularity(std::uint32_t blocks, bool by_router)
      : worth_(blocks, -std::numeric_limits<double>::infinity()), order_(blocks), by_router_(by_router) {}
  void insert(std::uint32_t block) override {
    if (!by_router_) add(block, 1);
    order_.insert(block, worth_[block]);
  }
  void touch(std::uint32_t block) override {
    if (!by_router_) add(block, 1);
  }
  void erase(std::uint32_t block) override { order_.erase(block); }
  void weigh(std::uint32_t block, float weight) override {
    if (by_router_ && weight > 0) add(block, weight);
  }
  // What a long text of so many uses per token would have left: a geometric sum of them.
  void expect(std::uint32_t block, double uses) override {
    if (uses > 0) add(block, uses / (1 - std::exp2(-1 / kHalfLife)));
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    return order_.least([this](std::uint32_t block) { return worth_[block]; }, held);
  }
  void release() override { order_.release(); }
  std::vector<std::uint32_t> next_token() override {
    ++token_;
    return {};
  }

 private:
  void add(std::uint32_t block, double weight) {
    const double now = std::log2(weight) + token_ / kHalfLife, before = worth_[block];
    worth_[block] = std::max(now, before) + std::log2(1 + std::exp2(std::min(now, before) - std::max(now, before)));
  }

  std::vector<double> worth_;  // by block, its logarithm
  WorthOrder<double> order_;   // of those that are resident
  double token_ = 0;
  bool by_router_;
};

using Made = std::unique_ptr<Eviction>;

}  // namespace

void register_evictions(Registry<EvictionRule>& rules) {
  rules.add({"lru", "least recently used", [](const EvictionOptions& o) -> Made { return std::make_unique<Lru>(o.blocks); }});
  rules.add({"step_lru", "least recently used, but not what was used since the layer in work last ran",
             [](const EvictionOptions& o) -> Made { return std::make_unique<StepLru>(o.blocks, o.layers); }});
  rules.add(
      {"lfu", "least frequently used, ties by recency", [](const EvictionOptions& o) -> Made { return std::make_unique<Lfu>(o.blocks); }});
  rules.add({"arc", "recency and frequency in balance",
             [](const EvictionOptions& o) -> Made { return std::make_unique<Arc>(o.blocks, o.capacity); }});
  rules.add(
      {"window", "what no token of the last ones used", [](const EvictionOptions& o) -> Made { return std::make_unique<Window>(o); }});
  rules.add({"popularity", "least often used, older uses counting less",
             [](const EvictionOptions& o) -> Made { return std::make_unique<Popularity>(o.blocks, false); }});
  rules.add({"router", "of experts, those that the router gave the least weight, older ones counting less",
             [](const EvictionOptions& o) -> Made { return std::make_unique<Popularity>(o.blocks, true); }});
  rules.add({"none", "nothing goes", [](const EvictionOptions&) -> Made { return std::make_unique<None>(); }});
}

Registry<EvictionRule>& evictions() {
  static Registry<EvictionRule> rules = [] {
    Registry<EvictionRule> own;
    register_evictions(own);
    return own;
  }();
  return rules;
}

std::unique_ptr<Eviction> make_eviction(std::string_view name, const EvictionOptions& options) {
  if (const EvictionRule* rule = evictions().find(name)) return with_admission(rule->make(options), options);
  throw ConfigError(fmt::format("eviction: \"{}\" is not known (expected one of: {})", name, fmt::join(evictions().names(), ", ")));
}

std::uint64_t belady_hits(std::span<const std::uint32_t> accesses, std::uint32_t capacity, std::span<const std::uint32_t> resident) {
  constexpr std::size_t kNever = ~std::size_t{0};
  std::vector<std::size_t> next(accesses.size(), kNever);
  std::unordered_map<std::uint32_t, std::size_t> seen;
  for (std::size_t i = accesses.size(); i-- > 0;) {
    if (const auto later = seen.find(accesses[i]); later != seen.end()) next[i] = later->second;
    seen[accesses[i]] = i;
  }
  std::unordered_map<std::uint32_t, std::size_t> held;      // block to its next use
  std::set<std::pair<std::size_t, std::uint32_t>> by_next;  // the same, latest last
  const auto take = [&](std::uint32_t block, std::size_t use) {
    held[block] = use;
    by_next.insert({use, block});
  };
  for (const std::uint32_t block : resident) {
    const auto use = seen.find(block);
    take(block, use == seen.end() ? kNever : use->second);
  }
  VITRO_CHECK(held.size() <= capacity, "more blocks than there is room for");
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const std::uint32_t block = accesses[i];
    if (const auto found = held.find(block); found != held.end()) {
      ++hits;
      by_next.erase({found->second, block});
    }
    take(block, next[i]);
    if (held.size() <= capacity) continue;
    const auto last = std::prev(by_next.end());
    held.erase(last->second);
    by_next.erase(last);
  }
  return hits;
}

}  // namespace vitro
