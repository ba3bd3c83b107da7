#include "engine/parts/weights/belady.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/check.hpp"
#include "engine/parts/weights/eviction_wrapper.hpp"
#include "engine/parts/weights/worth_order.hpp"

namespace vitro {
namespace {

class Logged final : public EvictionWrapper {
 public:
  Logged(std::unique_ptr<Eviction> rule, std::function<void(AccessLog)> done) : EvictionWrapper(std::move(rule)), done_(std::move(done)) {}
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() override {
    close();
    done_(std::move(log_));
  }

  void insert(std::uint32_t block) override {
    used_.push_back(block);
    EvictionWrapper::insert(block);
  }
  void touch(std::uint32_t block) override {
    used_.push_back(block);
    EvictionWrapper::touch(block);
  }
  void touch_each(std::span<const std::uint32_t> blocks) override {
    used_.insert(used_.end(), blocks.begin(), blocks.end());
    EvictionWrapper::touch_each(blocks);
  }
  void newcomer(std::uint32_t block) override {
    used_.push_back(block);  // it may not be admitted
    EvictionWrapper::newcomer(block);
  }
  void next_layer() override {
    close();
    EvictionWrapper::next_layer();
  }

 private:
  void close() {
    std::ranges::sort(used_);
    used_.erase(std::ranges::unique(used_).begin(), used_.end());
    log_.push_back(std::move(used_));
    used_ = {};
  }

  std::function<void(AccessLog)> done_;
  AccessLog log_;
  std::vector<std::uint32_t> used_;
};

class Belady final : public Eviction {
 public:
  Belady(AccessLog future, const EvictionOptions& options, std::shared_ptr<Foresight> foresight)
      : future_(std::move(future)),
        uses_(options.blocks),
        passed_(options.blocks),
        seen_(options.blocks, kNever),
        order_(options.blocks),
        foresight_(std::move(foresight)) {
    for (std::uint32_t step = 0; step < future_.size(); ++step) {
      for (const std::uint32_t block : future_[step]) {
        VITRO_CHECK(block < options.blocks, "a future with other blocks");
        uses_[block].push_back(step);
      }
    }
  }

  void insert(std::uint32_t block) override {
    use(block);
    order_.insert(block, worth(block));
  }
  void touch(std::uint32_t block) override {
    const std::uint32_t before = next_use(block);
    use(block);
    if (next_use(block) != before) order_.fall(block, worth(block));
  }
  void erase(std::uint32_t block) override { order_.erase(block); }
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
    return order_.least([this](std::uint32_t block) { return worth(block); }, held);
  }
  void release() override { order_.release(); }
  void next_layer() override {
    if (step_ < future_.size()) {
      for (const std::uint32_t block : future_[step_]) pass_unless_seen(block);
    }
    ++step_;
    newcomer_.reset();
  }

 private:
  static constexpr std::uint32_t kNever = ~0u;

  std::uint32_t next_use(std::uint32_t block) const { return passed_[block] < uses_[block].size() ? uses_[block][passed_[block]] : kNever; }
  // The later the next use, the less; of equals, the highest number first.
  using Worth = std::pair<std::uint32_t, std::uint32_t>;
  Worth worth(std::uint32_t block) const { return {~next_use(block), ~block}; }
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
  // What was to come in this layer and did not is waited for no longer: it would stay forever.
  void pass_unless_seen(std::uint32_t block) {
    if (seen_[block] == step_) return;
    ++foresight_->unforeseen;
    const std::uint32_t before = next_use(block);
    while (next_use(block) <= step_) ++passed_[block];
    if (order_.contains(block) && next_use(block) != before) order_.fall(block, worth(block));
  }

  const AccessLog future_;
  std::vector<std::vector<std::uint32_t>> uses_;  // by block: runs of a layer in which it is used, ascending
  std::vector<std::size_t> passed_;               // by block: of them, how many are through
  std::vector<std::uint32_t> seen_;               // by block: the run of a layer in which it was used last; kNever
  WorthOrder<Worth> order_;                       // of what is resident
  std::optional<std::uint32_t> newcomer_;
  std::shared_ptr<Foresight> foresight_;
  std::uint32_t step_ = 0;
};

}  // namespace

std::unique_ptr<Eviction> logged(std::unique_ptr<Eviction> rule, std::function<void(AccessLog)> done) {
  return std::make_unique<Logged>(std::move(rule), std::move(done));
}

std::unique_ptr<Eviction> belady(AccessLog future, const EvictionOptions& options, std::shared_ptr<Foresight> foresight) {
  return std::make_unique<Belady>(std::move(future), options, std::move(foresight));
}

}  // namespace vitro
