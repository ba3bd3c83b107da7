#include "engine/parts/weights/belady.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

class Logged final : public Eviction {
 public:
  Logged(std::unique_ptr<Eviction> rule, std::function<void(AccessLog)> done) : rule_(std::move(rule)), done_(std::move(done)) {}
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() override {
    close();
    done_(std::move(log_));
  }

  void insert(std::uint32_t block) override {
    used_.push_back(block);
    rule_->insert(block);
  }
  void touch(std::uint32_t block) override {
    used_.push_back(block);
    rule_->touch(block);
  }
  void touch_each(std::span<const std::uint32_t> blocks) override {
    used_.insert(used_.end(), blocks.begin(), blocks.end());
    rule_->touch_each(blocks);
  }
  void erase(std::uint32_t block) override { rule_->erase(block); }
  void newcomer(std::uint32_t block) override {
    used_.push_back(block);  // it may not be admitted
    rule_->newcomer(block);
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override { return rule_->victim(held); }
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override {
    return rule_->victim_at_any_price(held);
  }
  void weigh(std::uint32_t block, float weight) override { rule_->weigh(block, weight); }
  void next_layer() override {
    close();
    rule_->next_layer();
  }
  std::vector<std::uint32_t> next_token() override { return rule_->next_token(); }

 private:
  void close() {
    std::ranges::sort(used_);
    used_.erase(std::ranges::unique(used_).begin(), used_.end());
    log_.push_back(std::move(used_));
    used_ = {};
  }

  std::unique_ptr<Eviction> rule_;
  std::function<void(AccessLog)> done_;
  AccessLog log_;
  std::vector<std::uint32_t> used_;
};

class Belady final : public Eviction {
 public:
  Belady(const AccessLog& future, const EvictionOptions& options, std::shared_ptr<Foresight> foresight)
      : uses_(options.blocks), passed_(options.blocks), seen_(options.blocks, kNever), foresight_(std::move(foresight)) {
    for (std::uint32_t step = 0; step < future.size(); ++step) {
      for (const std::uint32_t block : future[step]) {
        VITRO_CHECK(block < options.blocks, "a future with other blocks");
        uses_[block].push_back(step);
      }
    }
  }

  void insert(std::uint32_t block) override {
    use(block);
    order_.insert({next_use(block), block});
  }
  void touch(std::uint32_t block) override {
    order_.erase({next_use(block), block});
    use(block);
    order_.insert({next_use(block), block});
  }
  void erase(std::uint32_t block) override { order_.erase({next_use(block), block}); }
  void newcomer(std::uint32_t block) override {
    use(block);
    newcomer_ = block;
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    const std::optional<std::uint32_t> last = victim_at_any_price(held);
    if (last && newcomer_ && next_use(*newcomer_) >= next_use(*last)) return std::nullopt;
    return last;
  }
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override {
    for (auto last = order_.rbegin(); last != order_.rend(); ++last) {
      if (!held(last->second)) return last->second;
    }
    return std::nullopt;
  }
  void next_layer() override {
    ++step_;
    newcomer_.reset();
  }

 private:
  static constexpr std::uint32_t kNever = ~0u;

  std::uint32_t next_use(std::uint32_t block) const { return passed_[block] < uses_[block].size() ? uses_[block][passed_[block]] : kNever; }
  // It is used in this layer: what it waits for is a use in a later one. Its entry in the order is the caller's.
  void use(std::uint32_t block) {
    const std::vector<std::uint32_t>& uses = uses_[block];
    std::size_t& passed = passed_[block];
    while (passed < uses.size() && uses[passed] < step_) ++passed;
    const bool foreseen = passed < uses.size() && uses[passed] == step_;
    passed += foreseen;
    if (std::exchange(seen_[block], step_) == step_) return;
    ++foresight_->accesses;
    foresight_->unforeseen += !foreseen;
  }

  std::vector<std::vector<std::uint32_t>> uses_;  // by block: runs of a layer in which it is used, ascending
  std::vector<std::size_t> passed_;               // by block: of them, how many are through
  std::vector<std::uint32_t> seen_;               // by block: the run of a layer in which it was used last; kNever
  std::set<std::pair<std::uint32_t, std::uint32_t>> order_;  // of what is resident: next use and block
  std::optional<std::uint32_t> newcomer_;
  std::shared_ptr<Foresight> foresight_;
  std::uint32_t step_ = 0;
};

}  // namespace

std::unique_ptr<Eviction> logged(std::unique_ptr<Eviction> rule, std::function<void(AccessLog)> done) {
  return std::make_unique<Logged>(std::move(rule), std::move(done));
}

std::unique_ptr<Eviction> belady(const AccessLog& future, const EvictionOptions& options, std::shared_ptr<Foresight> foresight) {
  return std::make_unique<Belady>(future, options, std::move(foresight));
}

}  // namespace vitro
