#include "engine/parts/attention/kv_keep.hpp"

#include <algorithm>

namespace vitro {
namespace {

class First final : public KvKeep {
 public:
  First(std::uint32_t blocks, bool forgets) : blocks_(blocks), forgets_(forgets) {}
  std::uint32_t capacity() const override { return blocks_; }
  bool stays(std::uint32_t block, std::uint32_t) const override { return block < blocks_; }
  bool forgets_unseen() const override { return forgets_; }

 private:
  std::uint32_t blocks_;
  bool forgets_;
};

// Some first ones, and of the rest the last ones. Sinks are part of the capacity.
class SinksAndRecent final : public KvKeep {
 public:
  SinksAndRecent(std::uint32_t sinks, std::uint32_t blocks) : sinks_(std::min(sinks, blocks)), blocks_(blocks) {}
  std::uint32_t capacity() const override { return blocks_; }
  bool stays(std::uint32_t block, std::uint32_t full) const override { return block < sinks_ || full - block <= blocks_ - sinks_; }

 private:
  std::uint32_t sinks_, blocks_;
};

Registry<KvKeepRule> own_keep_rules() {
  using Made = std::unique_ptr<KvKeep>;
  Registry<KvKeepRule> rules;
  rules.add({"first", "the first positions of each sequence, also those that a sliding window has passed", false,
             [](const KvKeepOptions& options) -> Made { return std::make_unique<First>(options.kept_blocks, false); }});
  rules.add({"recent", "the last positions; what a sliding window has passed is given up", false,
             [](const KvKeepOptions& options) -> Made { return std::make_unique<SinksAndRecent>(0, options.kept_blocks); }});
  rules.add({"sinks", "a few first positions, and the last ones", false, [](const KvKeepOptions& options) -> Made {
               return std::make_unique<SinksAndRecent>(options.sink_blocks, options.kept_blocks);
             }});
  rules.add({"budget", "the first positions, as many as the memory budget has room for", true,
             [](const KvKeepOptions& options) -> Made { return std::make_unique<First>(options.kept_blocks, true); }});
  return rules;
}

}  // namespace

Registry<KvKeepRule>& kv_keep_rules() {
  static Registry<KvKeepRule> rules = own_keep_rules();
  return rules;
}

}  // namespace vitro
