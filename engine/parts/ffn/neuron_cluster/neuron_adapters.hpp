// The adapters of an FFN that is computed neuron by neuron (MNN-LLM 5.5, beside PowerInfer-2, section 4). Those of Gate and Up are added
// to the products of the neurons that a cluster computes, before the activation; that of Down to the sum over all neurons that fired.
// In the order ab_x the rows of B A that belong to these neurons are computed where they are needed.
#pragma once
#include <map>
#include <vector>

#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/lora/lora_bank.hpp"

namespace vitro {

class NeuronAdapters {
 public:
  // The rows of a group, and where they begin in buffers of all groups' rows.
  struct Rows {
    std::int16_t layer = -1;
    const FfnGroup* group = nullptr;
    std::uint32_t first = 0;
  };
  // Activated neurons [R, n], the first n of the FFN, of which the named ones were computed; null: all of them.
  struct Hidden {
    View values;
    IndexList neurons;
  };

  // max_rows: over all groups of a step. Leases room for A x; throws ConfigError when the budget has none. Requires: the bank is by
  // neuron, and outlives this.
  NeuronAdapters(Machine& machine, const LoraBank& bank, VariantId matmul, std::uint32_t max_rows);
  static bool wanted(const LoraBank* bank);  // whether any adapter has a matrix of an FFN

  // A x of Gate and Up. Comes before everything below.
  void append_inputs(const Rows& rows, Chain& chain) const;
  // Adds to the products [R, n] of Gate or Up with the first n neurons, of them to the named ones.
  void append_added(Role role, const Rows& rows, const IndexList& neurons, const View& products, Chain& chain) const;
  // A h of Down, over all parts of the neurons in turn; where multiplies(), (B A) h, which is added to the group's output.
  void append_hidden(const Rows& rows, const std::vector<Hidden>& parts, Chain& chain) const;
  // Adds B (A h) to a slice of the group's output; where multiplies(), nothing.
  void append_output(const Rows& rows, Slice slice, Chain& chain) const;
  // The order is ab_x: append_hidden() comes when the group's output is there.
  bool multiplies() const { return bank_.order() == LoraOrder::ab_x; }

 private:
  KernelCall call(Op op, const Rows& rows) const;
  View narrow(Role role, const Rows& rows, const AdapterRun& run, std::uint32_t rank) const;
  bool shares_input(const Rows& rows, const AdapterRun& run) const;
  View multiply(const KernelCall& base, Role role, const IndexList& neurons, std::uint32_t count, const View& by_neuron, const View& other,
                Chain& chain) const;
  template <class F>
  void for_each_pair(Role role, const Rows& rows, F f) const;

  const LoraBank& bank_;
  VariantId variant_;
  std::map<Role, Lease> narrow_;  // A x of each matrix, [max_rows, largest rank]
};

}  // namespace vitro
