// Parts from outside the tree, compiled against the headers alone: an eviction rule, a rule for keys and values, one for what is read
// ahead, one for places of experts, and a placement.
#include "engine/parts/plugin.hpp"

namespace {

using namespace vitro;

// Gives up what came last: the opposite of LRU.
class NewestFirst final : public Eviction {
 public:
  void insert(std::uint32_t block) override { blocks_.push_back(block); }
  void touch(std::uint32_t) override {}
  void erase(std::uint32_t block) override { std::erase(blocks_, block); }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      if (!held(*block)) return *block;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::uint32_t> blocks_;
};

// Every other block of keys and values stays, as far as there is room.
class EveryOther final : public KvKeep {
 public:
  explicit EveryOther(std::uint32_t blocks) : blocks_(blocks) {}
  std::uint32_t capacity() const override { return 0; }  // no length has for certain a block that stays
  bool stays(std::uint32_t block, std::uint32_t) const override { return block % 2 == 0 && block / 2 < blocks_; }

 private:
  std::uint32_t blocks_;
};

// Reads the first experts ahead, whatever a router says.
class FirstExperts final : public LookAheadRule {
 public:
  explicit FirstExperts(std::uint32_t used) : used_(used) {}
  void want(std::int16_t, const std::vector<ExpertChoice>&, std::vector<bool>& wanted) override {
    std::fill_n(wanted.begin(), used_, true);
  }

 private:
  std::uint32_t used_;
};

// Experts of neighbouring numbers share a graph, on units in turn; the last ones of each layer are the cores'.
class Neighbours final : public ExpertPlacement {
 public:
  explicit Neighbours(const PlaceOptions& options) : options_(options) {}
  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    std::vector<ExpertGraph> graphs;
    for (std::uint16_t e = 0; e + 4u <= options_.experts; e = static_cast<std::uint16_t>(e + 2)) {
      const auto unit = static_cast<std::uint32_t>(graphs.size()) % options_.by_load.units;
      graphs.push_back({{e, static_cast<std::uint16_t>(e + 1)}, std::max(at.load.capacity[e], at.load.capacity[e + 1u]), unit});
    }
    return graphs;
  }

 private:
  PlaceOptions options_;
};

// The first core has a larger share than each of the others: `options: {share: 75%}`.
class FirstCoreMore final : public UnitPlacement {
 public:
  explicit FirstCoreMore(const PlacementSetup& setup) {
    for (ComputeUnit* unit : setup.machine.units) {
      if (units_.size() < setup.config.threads) units_.push_back(unit);
    }
    const Node* share = setup.config.options.find("share");
    if (share != nullptr) share_ = std::stod(share->text()) / 100;
  }
  const std::vector<ComputeUnit*>& units() const override { return units_; }
  Shares shares(BlockKind, std::uint32_t, bool) const override {
    Shares shares(units_.size(), (1 - share_) / static_cast<double>(std::max<std::size_t>(units_.size() - 1, 1)));
    shares.front() = share_;
    return shares;
  }

 private:
  std::vector<ComputeUnit*> units_;
  double share_ = 0.5;
};

}  // namespace

VITRO_PARTS(parts) {
  parts.evictions.add({"newest_first", "what came last",
                       [](const EvictionOptions&) -> std::unique_ptr<Eviction> { return std::make_unique<NewestFirst>(); }});
  parts.kv_keeps.add({"every_other", "every other block", false, [](const KvKeepOptions& options) -> std::unique_ptr<KvKeep> {
                        return std::make_unique<EveryOther>(options.kept_blocks);
                      }});
  parts.look_aheads.add({"first_experts", "the first experts", [](const LookAheadOptions& options) -> std::unique_ptr<LookAheadRule> {
                           return std::make_unique<FirstExperts>(options.used);
                         }});
  parts.expert_places.add({"neighbours", "by number", [](const PlaceOptions& options) -> std::unique_ptr<ExpertPlacement> {
                             return std::make_unique<Neighbours>(options);
                           }});
  parts.placements.add(
      {"first_core_more", "the first core has a larger share",
       [](const PlacementSetup& setup) -> std::unique_ptr<UnitPlacement> { return std::make_unique<FirstCoreMore>(setup); }});
}
