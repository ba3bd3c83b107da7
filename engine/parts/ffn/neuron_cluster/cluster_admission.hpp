// What of a cluster's blocks stays in DRAM, and what that costs the policy: the cache's half of the pipeline, without any timing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/parts/ffn/neuron_cluster/cluster.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

namespace vitro {

class ClusterAdmission {
 public:
  // keep_silent, accesses: as ClusterPipeline::Options has them.
  ClusterAdmission(Machine& machine, NeuronStore& store, bool keep_silent, std::vector<std::uint32_t>* accesses)
      : machine_(machine), store_(store), keep_silent_(keep_silent), accesses_(accesses) {}

  // Decides for the blocks that a cluster looked up and loaded: those with an active neuron stay, the least recently used ones going
  // for them. A step that needs every neuron once (a prefill) keeps what fits without evicting anything. Blocks that do not stay
  // keep their slot until the cluster is done, or give it back at once where nothing of them is needed.
  // Requires: cluster.active is known, and clusters come in their order.
  void admit(Cluster& cluster, bool every_neuron);

  std::uint64_t hits() const { return hits_; }  // blocks that were used
  std::uint64_t misses() const { return misses_; }

 private:
  struct Place;
  void pass_present(Place& at, std::uint32_t until);
  template <bool halves, bool one_by_one>
  void pass_present(Place& at, std::uint32_t until);
  static void pass_fired(Place& at);
  static void pass_known(Place& at, const std::vector<std::uint64_t>& bits);
  void use_named(Place& at, const std::uint32_t* until, bool every_neuron);
  void use_passed(bool every_neuron);
  void use(std::span<const std::uint32_t> blocks, bool every_neuron);

  Machine& machine_;
  NeuronStore& store_;
  bool keep_silent_;
  std::vector<std::uint32_t>* accesses_;
  std::vector<std::uint32_t> used_;  // the first used_count_: blocks that were there, since one was admitted last
  std::size_t used_count_ = 0;
  std::uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace vitro
