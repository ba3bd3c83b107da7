// The experts of a mixture behind a cache: all else is in DRAM, and a matrix of an expert is read from flash when an item needs it, or
// ahead of that when it was foreseen (Eliseev and Mazur 2023, arXiv 2312.17238: LRU and speculative loading). Each
// role has a pool of slots for its matrices, and all pools have as many: an expert's matrices come and go alike.
#pragma once
#include <array>

#include "engine/parts/weights/expert_pool.hpp"
#include "engine/parts/weights/expert_reader.hpp"
#include "engine/parts/weights/look_ahead_rule.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

struct ExpertCacheOptions {
  std::string eviction = "lru";
  AdmissionRule admission = AdmissionRule::rule;
  Bytes budget = 0;                   // of all slots; 0: what memory leaves
  std::optional<double> ffn_in_dram;  // share of the FFNs' bytes that slots may take
  Bytes keep_free = 0;                // of memory's budget, for what is leased later (KV, an accelerator's copy)
  UnitId reader{};                    // the core that issues reads
  std::uint32_t reads_in_flight = 8;
  bool look_ahead = false;            // experts of the next layer are read before its router has chosen
  std::string ahead = "router";       // which ones: a rule of look_ahead_rule.hpp
  std::uint32_t experts_used = 1;     // of a row
  // By layer with experts: the share of a calibration's choices that each of them has. Empty: the cache knows of none before its first use.
  std::vector<std::vector<double>> expected;
};

// Decides in plan order; what it reads, and when somebody waits, follows from that. Memory of a slot is bound when a call is submitted.
class ExpertResidency final : public DenseResidency {
 public:
  // Throws ConfigError for a model without experts.
  ExpertResidency(Machine& machine, const WeightStore& weights, ExpertCacheOptions options);

  // Where all experts fit they are read now. Throws ConfigError where not one does.
  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  bool stays() const override { return false; }
  void check_room(const UnitQueues& phase) const override;
  void plan(const UnitQueues& phase) override;
  bool ready(std::size_t unit, std::size_t item) const override;
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) override;
  void bind(std::size_t unit, std::size_t item, Chain& calls) const override;
  void done(std::size_t unit, std::size_t item) override;
  void abandon() override;
  void chose(std::int16_t layer, const std::vector<ExpertChoice>& choices) override;
  void foresee(std::int16_t layer, const std::vector<ExpertChoice>& choices) override;
  bool looks_ahead(std::size_t rows) const override { return options_.look_ahead && !wants_all(rows); }
  bool here(std::int16_t layer, std::uint16_t expert) const override;
  std::uint32_t keepable() const override;
  Task<void> keep(std::int16_t layer, std::uint16_t expert) override;
  Task<void> settle() override { return reader_.settle(); }
  CacheStats stats() const override { return stats_; }
  const ExpertCacheStats* expert_stats() const override;

 private:
  struct Block {
    const Weight* weight = nullptr;
    std::uint32_t expert = 0;
    std::shared_ptr<ExpertLoad> load;  // the last one
    std::vector<std::uint32_t> users;  // steps of the phase `used` that compute with it
    std::uint64_t used = 0;            // the last phase that did
    bool foreseen = false;             // read before it was wanted, and not wanted since
  };
  // The matrices of one role.
  struct Pool {
    Role role{};
    std::uint32_t first_layer = 0, experts = 0;
    Bytes slot_bytes = 0;
    std::vector<Block> blocks;
    std::optional<ExpertPool> cache;
    std::vector<Lease> memory;  // by slot: a graph maps those of its experts alone
    std::vector<std::shared_ptr<ExpertLoad>> filled_by;  // by slot: the last load into it
    Bytes names = 0;  // where in names_ those of its blocks begin, slot_bytes each
  };
  struct Place {
    std::size_t pool = 0;
    std::uint32_t block = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  // What an item waits for, and where what it computes with is then: later items may have planned other things for these slots.
  struct Step {
    std::vector<std::shared_ptr<ExpertLoad>> loads;
    std::vector<std::pair<Place, std::uint32_t>> slots;
    bool finished = false;
  };
  bool is_kept(const Weight& weight) const override;
  std::optional<Place> place_of(const Weight& weight, std::uint32_t expert) const;
  std::optional<Place> place_of(const WeightUse& use) const;
  std::optional<Place> lacking(const WorkItem& item) const;
  std::vector<Place> places(const WorkItem& item) const;
  bool is_broken(Place place) const;
  void forget(Place place);  // Requires: resident, not kept
  bool is_wanted(const Pool& pool, std::uint32_t block) const;
  void plan_item(const WorkItem& item, std::uint32_t number);
  void use(Place place, const std::vector<Place>& item, std::uint32_t number);
  void begin_load(Place place, ExpertPool::Place where, bool wanted);
  void make_room(Block& gone, ExpertLoad& newcomer);
  void log(std::string_view kind, const Block& block) const;
  void expect(Pool& pool) const;
  View in_slot(const Pool& pool, std::uint32_t block, std::uint32_t slot) const;
  Task<void> read_now(Place place);
  bool wants_all(std::size_t rows) const { return chooses_nearly_all(rows * options_.experts_used, chosen_.size()); }
  void forget_wrong(std::int16_t layer);
  void read_ahead(std::int16_t layer, const std::vector<bool>& wanted, bool keeps_layer);

  Machine& machine_;
  const WeightStore& weights_;
  ExpertCacheOptions options_;
  std::vector<Pool> pools_;
  Lease names_;  // an address range without memory: a place in it names a matrix until its slot is bound
  ExpertReader reader_;
  std::unique_ptr<LookAheadRule> ahead_;
  std::uint64_t phase_ = 0;
  std::vector<Step> steps_;                         // of the phase, in plan order
  std::vector<std::vector<std::uint32_t>> number_;  // [unit][item] to plan order
  std::int16_t layer_ = -1;                         // in which a router chose last
  std::vector<bool> chosen_;                        // by expert: so it did
  std::map<std::int16_t, std::vector<std::vector<std::uint16_t>>> named_;  // by layer: by row what look-ahead named
  bool abandoned_ = false;
  std::uint32_t waiting_ = 0;
  Picoseconds waiting_since_{0};
  CacheStats stats_;
  mutable ExpertCacheStats expert_stats_;  // bytes and time are the reader's, taken when somebody asks
};

}  // namespace vitro
