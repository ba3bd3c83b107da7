// NeuronStore: the FFN neurons of a model, some in DRAM and all in flash. Owns the arena and the cache over it. Flash is read in whole
// pages; the arena keeps no padding: where a layout has any, reads land beside the arena and what is not padding is copied to its place,
// by the unit that computes it or by the one that issued the read.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/model/bundle_layout.hpp"
#include "engine/model/weights.hpp"
#include "engine/ops/index_list_pool.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster.hpp"
#include "engine/parts/ffn/neuron_cluster/landing_buffer.hpp"
#include "engine/parts/ffn/neuron_cluster/neuron_cache.hpp"

namespace vitro {

struct NeuronStoreOptions {
  std::string eviction = "lru";
  double window = 0;                  // of that eviction
  AdmissionRule admission = AdmissionRule::rule;  // likewise
  bool two_phases = true;             // false: blocks are read whole, also where the layout has first parts
  std::optional<double> ffn_in_dram;  // share of the neurons that may stay; else what the budget leaves room for
  Bytes staging = 4 * MiB;            // for blocks on their way, beside the cache: as many as it holds with their padding
  double streamed = 0;                // of an FFN's neurons: room for hot ones that are read for every step, of what may stay
  bool whole_waves = false;           // nothing is copied while blocks are on their way: each lands beside `staging`
  Bytes keep_free = 0;                // of the budget, for what is leased later (KV, an accelerator's copy)
  bool holds_all = false;             // every neuron stays, or the budget is too small
  bool page_faults = false;           // blocks come as page faults: a core that reads one waits for it
  bool keep_accesses = false;         // every block that hits or misses is noted, for the bound that no rule of eviction beats
};

class NeuronStore {
 public:
  // Requires: `weights` holds Role::ffn_bundle for every layer from some layer on, all of one shape. The FFNs of layers before it, such as
  // the dense ones that a mixture may begin with, are none of the store's.
  NeuronStore(Machine& machine, const WeightStore& weights, NeuronStoreOptions options);

  // Leases the arena and fills the cache with the first neurons of every FFN, which a file packed by frequency holds
  // hottest first; scales that lie apart are read whole before. Throws ConfigError when the budget has no room for the scales
  // and the staging blocks, RunError on a read error.
  Task<void> load(UnitId issuer);

  const NeuronStoreOptions& options() const { return options_; }
  std::vector<std::uint32_t>* accesses() { return options_.keep_accesses ? &accesses_ : nullptr; }
  const BundleLayout& layout() const { return layout_; }
  NeuronCache& cache() { return *cache_; }
  const NeuronCache& cache() const { return *cache_; }
  IndexListPool& lists() { return lists_; }  // for whoever names its neurons, on the executor's thread
  std::uint32_t neurons() const { return layout_.neurons; }
  std::uint32_t staging_blocks() const { return staging_blocks_; }
  // Slots behind those of the cache, for hot blocks that are read for every step; 0 where all neurons stay anyway. Requires: loaded.
  std::uint32_t stream_blocks() const { return stream_blocks_; }
  std::uint32_t stream_slot(std::uint32_t number) const { return cache_->slots() + number; }

  // An FFN is a layer's, or one expert's; they are numbered layer by layer.
  std::uint32_t ffns() const { return static_cast<std::uint32_t>(ffns_.size()); }
  std::uint32_t experts() const { return experts_; }
  std::int16_t first_layer() const { return first_layer_; }  // that has neurons here
  std::uint32_t ffn_of(std::int16_t layer, std::int16_t expert) const;

  std::uint32_t block_of(std::int16_t layer, std::int16_t expert, std::uint32_t neuron) const;
  // Of the blocks of its own FFN: BundleLayout::block_of without dividing, since this is asked of every neuron that is named.
  // Rounded up, the inverse is exact while neurons x per_block stay below 2^32.
  std::uint32_t block_in_ffn(std::uint32_t neuron) const { return static_cast<std::uint32_t>(neuron * per_block_inverse_ >> 32); }

  // What one read brings: pieces of blocks that follow each other in flash, into slots that follow each other, or a part of one piece.
  struct Piece {
    Extent from;
    Bytes into = 0;   // in the arena, of the first byte that is kept
    Bytes begin = 0;  // where `from` begins in its first piece
  };
  // Bytes [begin, end) of a block's piece; end: 0, all behind `begin`. Stripe: of BundleLayout; those of consecutive blocks follow
  // each other in flash, those of consecutive slots in the arena.
  Piece piece_of(std::uint32_t block, std::uint32_t slot, std::uint32_t stripe = 0, Bytes begin = 0, Bytes end = 0) const;
  // Makes `piece` that of the next block as well, when both are whole, lie side by side on both sides, and are not too much for a read.
  bool join(Piece& piece, const Piece& next) const;
  // Brings a piece to its place; a copy that this takes is the issuer's. With `landed`, where it lies is left there instead when it is not
  // its place: somebody has to run copy() of it and then call copied(). Requires: nobody uses that place.
  Task<IoResult> read(Piece piece, UnitId issuer, Pattern pattern, Landed* landed = nullptr);
  // The parts of read() with `landed`, for whoever submits several at once. Room for what a piece brings, if there is some now; without
  // bytes where reads go to their places directly. It is given back by copied(). Then what is asked of the storage.
  // in_wave: what is read with it is computed when all of it has landed (LandingBuffer::try_take_lowest).
  std::optional<Landed> reserve(const Piece& piece, bool in_wave = true);
  Signal::Changed room_freed() { return landing_->freed(); }  // Requires: reserve() found none
  ReadRequest request(const Piece& piece, const Landed& room, UnitId issuer, Pattern pattern) const;
  // Whether a copy may be put off until a unit computes the neurons; else it has to be made whatever that unit waits for.
  bool may_wait(const Landed& landed) const { return options_.whole_waves || landing_->may_wait(landed.at, landed.bytes); }
  // The call that brings what landed to its places. Requires: not empty.
  KernelCall copy(const std::vector<Landed>& landed) const;
  // It is where it belongs, or nobody will copy it: its room is free for other reads.
  void copied(const std::vector<Landed>& landed);
  // All of it on one unit. The room is free when this ends, also with an error.
  Task<void> move(const std::vector<Landed>* landed, UnitId unit);
  const Lease& arena() const { return arena_; }

  enum class Matrix : std::uint8_t { gate, up, down };
  // All neurons of one matrix [neurons, width], to be named by place.
  View view(Matrix matrix) const;
  // Gives a matmul or accumulate over view(matrix) the scales that its rows lack; nothing when they hold them. Requires: the
  // two operands that such a call has are there, and no bias.
  void add_scales(KernelCall& call, Matrix matrix, std::int16_t layer, std::int16_t expert) const;
  // Where a neuron lies, for KernelCall::row_offsets; `slot` is that of its block.
  std::uint32_t place(std::uint32_t neuron, std::uint32_t slot) const {
    const Bytes within = layout_.per_block == 1 ? 0 : layout_.within_block(neuron);
    return static_cast<std::uint32_t>((slot * slot_ + within) / kRowOffsetUnit);
  }
  // The same of neurons of the FFN whose first block is `base`. To `missing`: positions in `neurons` of those that are not resident, whose
  // places mean nothing. Returns how many these are. Requires: room for as many as `neurons` in both.
  std::size_t places(std::span<const std::uint32_t> neurons, std::uint32_t base, std::uint32_t* into, std::uint32_t* missing) const;
  // Without `missing`. Requires: each block is a neuron.
  std::size_t places(std::span<const std::uint32_t> neurons, std::uint32_t base, std::uint32_t* into) const;

  // "layer 3, expert 1, block 7" of a block number.
  std::string describe(std::uint32_t block) const;

 private:
  Task<void> load_scales(UnitId issuer);
  Bytes arena_slots() const { return Bytes{cache_->slots()} + stream_blocks_; }
  Bytes stripe_offset(std::uint32_t stripe) const { return stripe * arena_slots() * slot_; }
  Bytes leave_stream(Bytes room, std::uint32_t blocks);
  Bytes longest_read() const;

  Machine& machine_;
  NeuronStoreOptions options_;
  BundleLayout layout_;
  std::uint64_t per_block_inverse_ = 0;  // times 2^32
  Bytes piece_ = 0;                      // of the layout
  Bytes slot_ = 0;                       // what is kept of a piece
  Bytes run_ = 0;                        // whatever is kept of what a read brings is made of runs of so many bytes
  std::uint32_t blocks_ = 0;             // of one FFN
  std::vector<Extent> ffns_;
  std::int16_t first_layer_ = 0;
  std::uint32_t experts_ = 1, staging_blocks_ = 0, stream_blocks_ = 0;
  std::optional<NeuronCache> cache_;
  Lease arena_;
  Bytes landing_bytes_ = 0;  // 0: reads go to their places directly
  std::optional<LandingBuffer> landing_;
  Lease landing_lease_;
  std::vector<Weight> scales_;  // of each layer, and where they are in DRAM; empty when the rows hold them
  std::vector<Lease> scale_leases_;
  std::vector<std::uint32_t> accesses_;
  IndexListPool lists_;
};

}  // namespace vitro
