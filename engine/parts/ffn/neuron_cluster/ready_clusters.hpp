// The clusters of one layer by what a unit could compute of them now.
#pragma once
#include <vector>

#include "engine/parts/ffn/neuron_cluster/cluster.hpp"
#include "engine/parts/ffn/neuron_cluster/slot_set.hpp"

namespace vitro {

class ReadyClusters {
 public:
  using Stage = Cluster::Stage;

  // Borrowed; all of them wait.
  explicit ReadyClusters(std::vector<Cluster>& clusters)
      : clusters_(clusters), gates_(static_cast<std::uint32_t>(clusters.size()), false), rests_(gates_) {}

  // Every change to or from gate_ready, rest_ready and done goes this way.
  void enter(Cluster& cluster, Stage stage) {
    const auto index = static_cast<std::uint32_t>(&cluster - clusters_.data());
    if (cluster.stage == Stage::gate_ready) leave(gates_, index);
    if (cluster.stage == Stage::rest_ready) leave(rests_, index);
    cluster.stage = stage;
    if (stage == Stage::gate_ready) join(gates_, index);
    if (stage == Stage::rest_ready && !waits_for_sum(index)) join(rests_, index);
    if (stage != Stage::done) return;
    ++done_;
    const std::uint32_t next = index + 1;
    if (next < clusters_.size() && clusters_[next].continues && clusters_[next].stage == Stage::rest_ready) join(rests_, next);
  }

  std::uint32_t count() const { return count_; }
  bool all_done() const { return done_ == clusters_.size(); }
  // In the order of neurons; null: there is none.
  Cluster* first_gate() const { return first(gates_); }
  Cluster* first_rest() const { return first(rests_); }

 private:
  // One that adds to the partial sum of the cluster before it.
  bool waits_for_sum(std::uint32_t index) const { return clusters_[index].continues && clusters_[index - 1].stage != Stage::done; }
  void join(SlotSet& set, std::uint32_t index) {
    set.insert(index);
    ++count_;
  }
  void leave(SlotSet& set, std::uint32_t index) {
    if (!set.contains(index)) return;
    set.erase(index);
    --count_;
  }
  Cluster* first(const SlotSet& set) const {
    const std::uint32_t index = set.next(0);
    return index == SlotSet::kNone ? nullptr : &clusters_[index];
  }

  std::vector<Cluster>& clusters_;
  SlotSet gates_, rests_;
  std::uint32_t count_ = 0;
  std::size_t done_ = 0;
};

}  // namespace vitro
