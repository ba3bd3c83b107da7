// Neurons of a mixture's experts that are read before their router has chosen: what ExpertResidency does with whole experts, by the same
// guess (Eliseev and Mazur 2023, arXiv 2312.17238) and the same rules of which experts to believe in.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/machine/task_scope.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"
#include "engine/parts/weights/look_ahead_rule.hpp"

namespace vitro {

struct NeuronLookAheadOptions {
  Bytes most = 0;                // read ahead for a layer, and so read in vain at most
  std::string ahead = "router";  // which experts: a rule of look_ahead_rules()
  std::uint32_t experts_used = 1;
  UnitId io_core{};
  std::uint32_t io_depth = 8;
};

// Which neurons: those that the expert's last step named, and before its first one the hottest of the file. What fires this time is not
// known yet, since the predictor's input is what the attention in between makes. What was admitted stays pinned until the layer is through.
// Decisions are made between layers, from choices alone; what was foreseen and is not wanted leaves, however far its read has come.
class NeuronLookAhead {
 public:
  NeuronLookAhead(Machine& machine, NeuronStore& store, NeuronLookAheadOptions options);

  // Whether so many rows leave some experts of a layer out, in all likelihood.
  bool looks_ahead(std::size_t rows) const { return rows * options_.experts_used < 2 * store_.experts(); }
  // The router of `layer` has chosen. foresee(): it may choose so, in the layer after the one at hand.
  void chose(std::int16_t layer, const std::vector<ExpertChoice>& choices);
  void foresee(std::int16_t layer, const std::vector<ExpertChoice>& choices);

  // An expert computes these neurons, ascending, in a step that does not compute all.
  void names(std::int16_t layer, std::int16_t expert, IndexList neurons) { last_[store_.ffn_of(layer, expert)] = std::move(neurons); }
  // The layer at hand is through: what was foreseen is admitted, as far as the rule gives something up, and its reads begin.
  void begin();
  // The layer for which it admitted is planned: what its clusters do not need leaves; then until the rest is there. Throws RunError where
  // a read of that failed twice.
  Task<void> arrive(const std::vector<Cluster>* clusters);
  // Until nothing is read, whatever came of it.
  Task<void> arrive_all();
  // A step has ended, well or not: what was foreseen and did not come to its layer leaves.
  Task<void> settle();

  const NeuronsAheadStats& stats() const { return stats_; }

 private:
  std::vector<std::uint32_t> candidates();
  void admit(const std::vector<std::uint32_t>& blocks);
  Task<void> read_all();
  void leave(std::uint32_t block);

  Machine& machine_;
  NeuronStore& store_;
  NeuronLookAheadOptions options_;
  std::unique_ptr<LookAheadRule> rule_;
  std::vector<IndexList> last_;  // by FFN; null: not used yet
  std::int16_t layer_ = -1;      // that was foreseen last
  std::vector<std::vector<std::uint16_t>> guess_;  // of that layer, by row
  std::vector<std::int16_t> experts_;              // of that layer, to be read ahead by begin()
  std::vector<std::uint32_t> ahead_;               // blocks that were admitted for the layer that comes
  struct Read {
    std::uint32_t block = 0;
    NeuronStore::Piece piece;
  };
  std::deque<Read> reads_;  // to be submitted
  std::size_t lanes_ = 0;   // that read now
  std::map<std::uint32_t, std::string> failed_;  // block, why
  Signal done_;
  TaskScope scope_;
  NeuronsAheadStats stats_;
};

}  // namespace vitro
