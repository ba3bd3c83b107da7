// UnitPlacement: which units carry out a step, and which share of each kind of phase falls to each of them.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/graph/lowering.hpp"
#include "engine/machine/machine.hpp"
#include "engine/parts/placement/core_balance.hpp"
#include "engine/parts/placement/offload_unit.hpp"
#include "engine/parts/placement/placement_config.hpp"

namespace vitro {

// A unit that has all of the attention in steps of so many rows; null: none does.
struct AttentionGraphs {
  OffloadUnit* unit = nullptr;
  std::uint32_t rows = 0;
};

// What an accelerator has to map into its sessions beside the weights of layers.
struct MappedOperands {
  const ComputeUnit* unit = nullptr;
  bool kv = false;
  double head = 0;    // share of the output matrix
  bool copy = false;  // the int8 copy of the layers' matrices in place of the weights
};

// Decides by the shape of a step alone, never by time, so that host and sim place alike. Lives on one machine.
class UnitPlacement {
 public:
  virtual ~UnitPlacement() = default;

  // Phases are shared out over these: cores, then the accelerator if there is one. Fixed for the run, not empty.
  virtual const std::vector<ComputeUnit*>& units() const = 0;
  // How much of a phase falls to each of units(), in a step of `rows` rows. `attends`: attention itself is in it, not projections alone.
  virtual Shares shares(BlockKind, std::uint32_t /*rows*/, bool /*attends*/) const { return Shares(units().size(), 1.0); }
  // The same of a phase of the model: an accelerator may have another share of each layer's FFN.
  virtual Shares shares_of(const Phase& phase, std::uint32_t rows) const { return shares(phase.block, rows, phase.attends); }
  // Of the rows of an expert's Gate and Up, where that is another one than the phase's; none: there is no such expert.
  virtual std::optional<Shares> shares_of_expert(std::int16_t /*layer*/, std::uint32_t /*expert*/, std::uint32_t /*rows*/) const {
    return std::nullopt;
  }
  // The rows at which shares() changes, ascending; empty when it never does. For the decision log.
  virtual std::vector<std::uint32_t> row_limits() const { return {}; }

  // The cores among the named units: parts that compute by themselves (neuron clusters, experts) use them.
  virtual const std::vector<ComputeUnit*>& cores() const { return units(); }
  // The accelerator that takes shares beside the cores; null: none.
  virtual ComputeUnit* accelerator() const { return nullptr; }
  // Whether the unit takes an accelerator's part, also a core that stands in for one: it computes in the accelerator's contract.
  virtual bool is_accelerator(const ComputeUnit& unit) const { return &unit == accelerator(); }
  // Of the FFN's hottest neurons, by the sequences of a step (PowerInfer-2, section 4.1.2); empty without an accelerator.
  virtual const std::vector<PlacementConfig::Split>& splits() const {
    static const std::vector<PlacementConfig::Split> kNone;
    return kNone;
  }
  // How work is cut among the cores, which learns before the first step; null: evenly.
  virtual CoreBalance* balance() { return nullptr; }
  virtual bool prefill_on_accelerator() const { return false; }
  // Units that run graphs of experts (NPUMoE, section 4).
  virtual const std::vector<ComputeUnit*>& graph_units() const { return cores(); }
  virtual AttentionGraphs attention_graphs() const { return {}; }
  virtual std::optional<MappedOperands> mapped() const { return std::nullopt; }
  // The last of units() attends to keys and values that the others have converted to fp16 for it (KvStaging).
  virtual bool stages_kv() const { return false; }
};

// Throws ConfigError, with file and line, where the lists of a split's hot_by_layer are not of this model: a share for each layer, or in
// its place one for each expert of a layer that has any.
void check_by_layer(const PlacementConfig::Split& split, const ModelConfig& model);

// What an accelerator takes of a step beside the cores: a share of each kind of phase, by the rows of the step.
struct Accelerator {
  struct Split {
    std::uint32_t rows = 1;            // of a step: up to so many
    double attention = 0;              // of the heads, and of the rows of their projections
    double ffn = 0;                    // of the neurons, where phases carry out the FFN
    double head = 0;                   // of the vocabulary
    std::optional<double> heads = {};  // of the heads alone, where that is another share than `attention`
    // In place of `ffn` in the first layers, of one share for a layer's neurons or one for those of each expert. Empty: all alike.
    std::vector<std::vector<double>> by_layer = {};
    double ffn_of(std::int16_t layer) const;  // of experts the mean
  };
  ComputeUnit* unit = nullptr;  // null: there is none
  std::vector<Split> splits;    // by ascending rows; larger steps have the last one's

  // Requires: there is a split.
  const Split& split(std::uint32_t rows) const;
  // Of each of `units`, the accelerator being the last one; without one all alike. `heads`: of a phase that attends.
  Shares shares(std::size_t units, BlockKind kind, std::uint32_t rows, bool heads = false) const;
  // Its own share, and the others alike.
  static Shares with_own(std::size_t units, double own);
};

struct PlacementSetup {
  Machine& machine;
  const PlacementConfig& config;
  std::uint32_t prefill_chunk = 1;
  std::uint32_t decode_rows = 1;  // a step of more rows is one of a prompt (ProductMethods)
  Format kv_format = Format::f32;
  std::uint32_t sequences = 1;  // that a step of decoding has at most
  std::uint32_t whole_ffns = 0;  // layers, from the first one on, whose FFNs are whole matrices: all of them, or those before the neurons

  // Else they are staged for it, or attention stays with the cores, whatever the placement gives to an accelerator.
  bool accelerator_reads_kv() const { return !kv_format.is_for_kv(); }
};

struct PlacementKind {
  std::string name, description;
  std::unique_ptr<UnitPlacement> (*make)(const PlacementSetup&) = nullptr;
  bool int8_copy = false;  // its accelerator reads the layers' matrices in int8, from a second set of weights
};

// True for a CPU core, which takes any chain.
bool is_core(const ComputeUnit& unit);
// Throws ConfigError when the machine has no unit of that name; `key` is the one to name.
ComputeUnit* unit_named(const Machine& machine, const std::string& name, std::string_view key);
// The units that run chains as they come, for work between graphs: those of the placement's cores, or the first of the machine that can.
std::vector<ComputeUnit*> chain_units(const Machine& machine, const UnitPlacement& placement);
// The named units in that order, or the `threads` fastest cores; all cores of the machine where `threads` is 0, since it was made with
// as many as are wanted. Throws ConfigError.
std::vector<ComputeUnit*> select_units(const Machine& machine, const PlacementConfig& config);

}  // namespace vitro
