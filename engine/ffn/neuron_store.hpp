// NeuronStore: the FFN neurons of a model, some in DRAM and all in flash. Owns the arena and the cache over it.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "engine/ffn/cluster.hpp"
#include "engine/ffn/neuron_cache.hpp"
#include "engine/machine/machine.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct NeuronStoreOptions {
  std::string eviction = "lru";
  std::uint32_t window = 0;           // of that eviction
  bool two_phases = true;             // false: blocks are read whole, also where the layout has first parts
  std::optional<double> ffn_in_dram;  // share of the bundles' bytes that may stay; else what the budget leaves
  Bytes staging = 4 * MiB;            // for blocks on their way, beside the cache
  Bytes keep_free = 0;                // of the budget, for what is leased later (KV)
};

class NeuronStore {
 public:
  // Requires: `weights` holds Role::ffn_bundle for every layer, all of one shape.
  NeuronStore(Machine& machine, const WeightStore& weights, NeuronStoreOptions options);

  // Leases the arena and fills the cache with the first neurons of every FFN, which a file packed by frequency holds
  // hottest first; scales that lie apart are read whole before. Throws ConfigError when the budget has no room for the scales
  // and the staging blocks, RunError on a read error.
  Task<void> load(UnitId issuer);

  const BundleLayout& layout() const { return layout_; }
  NeuronCache& cache() { return *cache_; }
  const NeuronCache& cache() const { return *cache_; }
  std::uint32_t neurons() const { return layout_.neurons; }
  std::uint32_t staging_blocks() const { return staging_blocks_; }

  // An FFN is a layer's, or one expert's; they are numbered layer by layer.
  std::uint32_t ffns() const { return static_cast<std::uint32_t>(ffns_.size()); }
  std::uint32_t experts() const { return experts_; }
  std::uint32_t ffn_of(std::int16_t layer, std::int16_t expert) const;

  std::uint32_t block_of(std::int16_t layer, std::int16_t expert, std::uint32_t neuron) const;
  Extent extent_of(std::uint32_t block) const;                                  // in flash, the whole block; Requires: one stripe
  Bytes offset_of(std::uint32_t slot) const { return slot * layout_.piece(); }  // in the arena, from where a stripe begins
  // A part of a block that lies in one piece, both in flash and, for the block in `slot`, in the arena. Stripe: of
  // BundleLayout; those of consecutive blocks follow each other in flash, those of consecutive slots in the arena.
  struct Piece {
    Extent from;
    Bytes into = 0;
  };
  Piece piece_of(std::uint32_t block, std::uint32_t slot, std::uint32_t stripe = 0) const;
  const Lease& arena() const { return arena_; }

  enum class Matrix : std::uint8_t { gate, up, down };
  // All neurons of one matrix [neurons, width], to be named by place.
  View view(Matrix matrix) const;
  // Gives a matmul or accumulate over view(matrix) the scales that its rows lack; nothing when they hold them. Requires: the
  // two operands that such a call has are there, and no bias.
  void add_scales(KernelCall& call, Matrix matrix, std::int16_t layer, std::int16_t expert) const;
  // Where a neuron lies, for KernelCall::places; `slot` is that of its block.
  std::uint32_t place(std::uint32_t neuron, std::uint32_t slot) const;

  // "layer 3, expert 1, block 7" of a block number.
  std::string describe(std::uint32_t block) const;

 private:
  Task<void> load_scales(UnitId issuer);
  Bytes stripe_offset(std::uint32_t stripe) const { return stripe * cache_->slots() * layout_.piece(); }

  Machine& machine_;
  NeuronStoreOptions options_;
  BundleLayout layout_;
  std::vector<Extent> ffns_;
  std::uint32_t experts_ = 1, staging_blocks_ = 0;
  std::optional<NeuronCache> cache_;
  Lease arena_;
  std::vector<Weight> scales_;  // of each layer, and where they are in DRAM; empty when the rows hold them
  std::vector<Lease> scale_leases_;
};

}  // namespace vitro
