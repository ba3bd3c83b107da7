// Residency: how the weights of a model come into DRAM, and who pays for it. A policy: the same code on every machine.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// A part of one weight that a work item reads; offsets are within the weight's extent.
struct WeightUse {
  const Weight* weight = nullptr;
  Bytes offset = 0, length = 0;
};

// Calls that run as one chain on one unit, once the weights that they read are there.
struct WorkItem {
  Chain calls;
  std::vector<WeightUse> uses;
};

// Work of one phase: a queue of items per unit. Phases are separated by a join of all units.
using UnitQueues = std::vector<std::vector<WorkItem>>;

// What a cache of weights did.
struct CacheStats {
  std::uint64_t hits = 0, misses = 0;  // in units of the cache (pages, neurons)
  // Neurons that a predictor named, those of them that fired, and all that fired where that was measured.
  std::uint64_t predicted = 0, predicted_firing = 0, firing = 0;

  std::optional<double> precision() const { return share(predicted_firing, predicted); }
  std::optional<double> recall() const { return share(predicted_firing, firing); }

 private:
  static std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? std::nullopt : std::optional(static_cast<double>(part) / static_cast<double>(whole));
  }
};

// What a cache of whole experts did, in matrices.
struct ExpertCacheStats {
  std::uint64_t slots = 0, blocks = 0, kept = 0;      // matrices that have room, that there are, that stay for good
  Bytes expert_bytes = 0;                             // of one expert, the largest
  std::uint64_t loads = 0, foreseen = 0;              // decided, of which some are given up later; of them before they were wanted
  std::uint64_t foreseen_used = 0;                    // of those read before they were wanted, such as were then wanted
  std::uint64_t named = 0, named_right = 0, wanted = 0;  // experts that look-ahead named; that the router chose of them; that it chose
  Bytes bytes = 0;                                    // read since load()
  Picoseconds reading{0}, stalled{0};                 // time with a read in flight; in which somebody waited for one
};

// What was read of experts' neurons before their router had chosen.
struct NeuronsAheadStats {
  std::uint64_t wanted = 0, named_right = 0;  // experts that the router chose where it had been asked ahead; of them, that were named
  std::uint64_t blocks = 0, used = 0;         // cache blocks that were admitted ahead; that their layer then needed
  Bytes bytes = 0, used_bytes = 0;            // read ahead; of blocks that were used
};

class NeuronLookAhead;
class NeuronStore;

class Residency {
 public:
  virtual ~Residency() = default;

  // Reads what has to be there before the first token. Throws RunError on a read error, ConfigError when the budget is
  // below what the policy needs.
  virtual Task<void> load() = 0;

  // One matrix of a weight as kernels see it: in one piece, whether resident or not.
  virtual View view(const Weight& weight, std::uint32_t expert = 0) const = 0;

  // Whether whole matrices are where view() says from load() on, for who computes them without fetch().
  virtual bool stays() const { return false; }

  // How many bytes of weights one item should cover, so that waiting and computing alternate as they would.
  virtual Bytes item_bytes() const = 0;

  // Whether all that an item of such a phase needs at once can be there, however the step begins. Throws ConfigError if not.
  // Requires: load() is over.
  virtual void check_room(const UnitQueues& /*phase*/) const {}

  // Decides what the phase loads and evicts: in plan order (first items of all units, then second ones, ...), before
  // anything of it runs. So decisions never depend on timing, and host and sim decide alike.
  virtual void plan(const UnitQueues& phase) = 0;
  // True when fetch() of this item would have nothing to wait for.
  virtual bool ready(std::size_t unit, std::size_t item) const = 0;
  // Carries out the plan for one item: waits for what it depends on, evicts, reads. `issuer` is the core that does it.
  virtual Task<void> fetch(std::size_t unit, std::size_t item, UnitId issuer) = 0;
  // Puts the memory in which the weights of the item's calls are in place of what view() said, right before they are submitted.
  virtual void bind(std::size_t /*unit*/, std::size_t /*item*/, Chain& /*calls*/) const {}
  // The item's calls have completed: its weights may go.
  virtual void done(std::size_t unit, std::size_t item) = 0;

  // The phase failed: whoever waits inside fetch() is released without what it waited for, what runs then counts for nothing, and the step
  // ends with the error. The next plan() counts on nothing that this phase was to bring.
  virtual void abandon() {}

  // A mixture's router has chosen in this layer: the phases that follow compute these experts.
  virtual void chose(std::int16_t /*layer*/, const std::vector<ExpertChoice>& /*choices*/) {}
  // So it may choose in a layer that comes: what is not there may be read ahead.
  virtual void foresee(std::int16_t /*layer*/, const std::vector<ExpertChoice>& /*choices*/) {}
  // Whether the residency wants foresee() for a step of so many rows.
  virtual bool looks_ahead(std::size_t /*rows*/) const { return false; }
  // Whether a layer's expert is there now: those that are can be computed while others come.
  virtual bool here(std::int16_t /*layer*/, std::uint16_t /*expert*/) const { return true; }
  // How many experts more may stay for good, so that view() says where they are from then on; 0: none, or no need to ask.
  virtual std::uint32_t keepable() const { return 0; }
  // Reads an expert that stays for good. Throws RunError on a read error. Requires: load() is over, and keepable() is above 0.
  virtual Task<void> keep(std::int16_t /*layer*/, std::uint16_t /*expert*/) { co_return; }
  // Waits for what it has begun. Requires: called after the last step, whether it failed or not.
  virtual Task<void> settle() { co_return; }

  virtual CacheStats stats() const = 0;
  virtual const ExpertCacheStats* expert_stats() const { return nullptr; }  // null: experts are not cached as such

  // The prompt is through. What follows is what hit_rate_bound() speaks of: the most of its accesses that any choice of what
  // stays could have served from DRAM; none when the policy has no such choice or was not asked to keep account.
  virtual void decode_begins() {}
  virtual std::optional<double> hit_rate_bound() const { return std::nullopt; }

  // null: no neurons are read ahead of their router.
  virtual NeuronLookAhead* neuron_look_ahead() { return nullptr; }
  virtual const NeuronsAheadStats* neurons_ahead_stats() const { return nullptr; }

  // FFN neurons behind a cache, for an FFN that computes neuron by neuron; null: weights are whole matrices.
  virtual NeuronStore* neurons() { return nullptr; }
};

// Memory for matrices, or for rows that are computed in places: where an accelerator of the machine computes that format from what is
// there, as long as there is room; else in DRAM.
Result<Lease> lease_weights(Machine& machine, Bytes size, Format format, Region region, bool in_places = false);

// All weights in DRAM, read once in large sequential requests; but for neuron bundles and their scales, which a NeuronStore keeps.
class DenseResidency : public Residency {
 public:
  // `predictors`: of firing neurons are kept as well.
  DenseResidency(Machine& machine, const WeightStore& weights, bool predictors = false);

  Task<void> load() override;
  View view(const Weight& weight, std::uint32_t expert) const override;
  bool stays() const override { return true; }
  Bytes item_bytes() const override { return ~Bytes{0}; }
  void plan(const UnitQueues&) override {}
  bool ready(std::size_t, std::size_t) const override { return true; }
  Task<void> fetch(std::size_t, std::size_t, UnitId) override { co_return; }
  void done(std::size_t, std::size_t) override {}
  CacheStats stats() const override { return {}; }

 protected:
  virtual bool is_kept(const Weight& weight) const;

 private:
  Machine& machine_;
  const WeightStore& weights_;
  bool predictors_;
  std::map<const Weight*, Lease> leases_;
};

// Reads one weight into `into` in requests of up to the device's largest transfer, `depth` of them in flight.
// Throws RunError with the storage's message when a read fails for good.
Task<void> read_weight(Machine* machine, const Weight* weight, Lease into, Bytes into_offset, UnitId issuer, std::uint32_t depth);

}  // namespace vitro
