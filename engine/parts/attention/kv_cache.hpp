// The blocked KV cache: several sequences share blocks of a few positions each, as in paged attention.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/machine/memory.hpp"
#include "engine/model/model_config.hpp"
#include "engine/ops/kernel_call.hpp"
#include "engine/parts/attention/kv_keep.hpp"

namespace vitro {

struct KvShape {
  std::uint32_t layers = 0, heads = 0, head_dim = 0;  // heads: that keep keys and values, see engine/ops/attention.hpp
  std::uint32_t block_tokens = 16;                    // raised until a block fills whole pages
  Format format = Format::f32;                        // one of kKvFormats (engine/quant/kv_rows.hpp)
  bool spills = false;                                // blocks may go to flash, slice by slice (kv_flash.hpp)
};

// The same with blocks, or where they spill slices, raised to whole pages.
KvShape in_whole_pages(KvShape shape);
// Blocks of a pool for so many positions over all sequences: a partly filled block of each is the only waste, beside a copy of it for a
// fork.
std::uint32_t pool_blocks(const KvShape& in_whole_pages, std::uint32_t max_tokens, std::uint32_t sequences);

// What KvCache keeps in DRAM. No rule: everything.
struct KvPlacement {
  std::unique_ptr<KvKeep> keep;
  std::uint32_t window = 0;  // of attention, in positions; 0: all are seen
  std::uint32_t first_sequence = 0;  // the number of the first sequence: those of two models on one machine are told apart by it
};

// Owns block tables and reference counts; the bytes are a reserved range of which live blocks are committed, so memory
// follows the sequences. Copy-on-write: a fork shares every block, and the first append into a shared, partly filled
// block asks the policy to copy it. Lowest free block first, so block numbers do not depend on timing.
class KvCache {
 public:
  // A copy that has to run (as ops::Copy on a unit) before the next append: `from` is kept until then.
  struct BlockCopy {
    View from, to;
  };

  // max_tokens: positions over all sequences that the pool can ever hold. Address space only. Requires: a shape that spills has a rule.
  KvCache(Memory& memory, KvShape shape, std::uint32_t max_tokens, std::uint32_t sequences = 0, KvPlacement placement = {});

  // An empty sequence; ids are never reused. `adapter`: what its keys and values will be computed with (0: the base alone).
  std::uint32_t create(std::uint32_t adapter = 0);
  std::uint32_t fork(std::uint32_t sequence);  // same content and adapter, independent from here on
  // The same with its first `length` positions alone: what follows is computed anew. Requires: it has so many, and nothing spills.
  std::uint32_t fork(std::uint32_t sequence, std::uint32_t length);
  void release(std::uint32_t sequence);        // its blocks return to the budget unless shared
  std::uint32_t length(std::uint32_t sequence) const;
  std::uint32_t adapter(std::uint32_t sequence) const;
  std::uint32_t live_blocks() const { return live_blocks_; }
  std::vector<std::uint32_t> sequences() const;  // that were not released, in the order in which they were made

  // Makes room for `count` more positions. Code::over_budget leaves the sequence as it was. Copies that became due are
  // appended to `copies`.
  Status extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies);

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(references_.size()); }  // that the pool can hold
  static constexpr std::uint32_t kGone = ~0u;                                              // in place of a block that was given up
  // Of a sequence, in the order of positions.
  const std::vector<std::uint32_t>& blocks_of(std::uint32_t sequence) const { return sequences_.at(sequence).blocks; }
  // A block as tables of `layer` name it; 0 for kGone, of which nothing is visible.
  std::uint32_t number_of(std::uint32_t block, std::uint32_t layer) const;

  // Operand of kv_append and attention; shape as engine/ops/attention.hpp says.
  View pool() const;
  // Blocks needed to address `rows`: the width of the table below.
  std::uint32_t table_width(const std::vector<SeqPos>& rows) const;
  // Block numbers of each row's sequence as `layer` sees them, [rows, width]; unused entries are 0.
  void fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out, std::uint32_t layer = 0) const;

  // Flash tier. Its unit is the slice, one layer's part of a block: the pool is then one of a single layer in which each slice has a
  // number, those of a layer side by side, and behind all of them the landing slots, each of which holds a slice that was read.
  // A full block gets a place in the file, is written there, and leaves DRAM; the block number stays its own.
  static constexpr std::uint32_t kNoPlace = ~0u;  // of a block that nothing sees once its prompt is computed: it is never written
  struct Leaving {
    std::uint32_t block = 0, place = 0;
  };
  struct Landing {
    std::uint32_t block = 0, place = 0;
    std::uint64_t stamp = 0;  // of what was written to the place: another block, another stamp
    friend bool operator==(const Landing&, const Landing&) = default;
  };
  // A block of a prompt without memory of its own: its slice of the layer at hand is made in the slot where it lands.
  struct Fresh {
    Landing landing;
    std::uint32_t begin = 0, end = 0;  // its positions
  };
  bool tiered() const { return places_.size() > 0; }                          // false, too, when no sequence can get that long
  std::uint32_t pool_layers() const { return tiered() ? 1 : shape_.layers; }  // as kv_append and attention have to be told
  std::uint32_t tables() const { return tiered() ? shape_.layers : 1; }       // how many differ
  std::uint32_t places() const { return static_cast<std::uint32_t>(places_.size()); }
  Bytes slice_bytes() const { return block_bytes_ / shape_.layers; }
  const Lease& memory() const { return range_; }
  Bytes slice_offset(std::uint32_t block, std::uint32_t layer) const;
  // Of the bytes that tables name: of a block in flash where its slice of the layer at hand landed.
  Bytes memory_offset(std::uint32_t block, std::uint32_t layer) const {
    return in_flash(block) ? landing_offset(states_[block].slot) : slice_offset(block, layer);
  }
  Bytes landing_offset(std::size_t slot) const { return references_.size() * block_bytes_ + slot * slice_bytes(); }
  // Appends the full blocks of the sequence that do not stay and are in DRAM only, and gives each the lowest free place. Gives up those
  // that a window has passed, where the rule says so.
  void leave(std::uint32_t sequence, std::vector<Leaving>& leaving);
  void has_stayed(const Leaving& block);  // its write failed: it is in DRAM as before, and its place is free
  void has_left(const Leaving& block);  // its bytes are in the file: its memory returns to the budget
  // extend() for a prompt that is computed layer by layer. New blocks that will be full and do not stay have left already, as far as tables
  // say, and are appended to `fresh` in the order of positions: who lands them fills and writes them.
  Status extend_prompt(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies, std::vector<Fresh>& fresh);
  // Blocks that have left and hold positions which `rows` see through the window, by ascending place.
  std::vector<Landing> absent(const std::vector<SeqPos>& rows) const;
  // landing[i] is in slot i from here on, as far as tables say. Code::over_budget leaves the slots as they were.
  Status land(const std::vector<Landing>& landing);
  bool in_flash(std::uint32_t block) const { return tiered() && states_[block].where == Where::flash; }

  const KvShape& shape() const { return shape_; }
  Bytes block_bytes() const { return block_bytes_; }

 private:
  struct Sequence {
    std::vector<std::uint32_t> blocks;
    std::uint32_t length = 0, adapter = 0;
  };
  enum class Where : std::uint8_t { dram, leaving, flash };
  struct State {
    Where where = Where::dram;
    std::uint32_t place = 0, slot = 0;  // of a block that leaves or has left; slot: where it lands
    std::uint64_t stamp = 0;
  };
  Status extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies, std::vector<Fresh>* fresh);
  Result<std::uint32_t> take_block();
  Result<std::uint32_t> take_fresh(bool unseen);
  std::optional<std::uint32_t> free_block() const;
  std::uint32_t take_place();
  void drop_block(std::uint32_t block);
  Status commit(std::uint32_t block);
  void decommit(std::uint32_t block);
  bool unseen(std::uint32_t index, std::uint32_t length) const;
  View part(Bytes offset, Bytes length) const;

  Memory& memory_;
  KvShape shape_;
  KvPlacement placement_;
  Bytes block_bytes_ = 0;
  Lease range_;
  std::map<std::uint32_t, Sequence> sequences_;
  std::vector<std::uint32_t> references_;  // per block; 0: free
  std::uint32_t next_sequence_ = 0, live_blocks_ = 0;
  std::vector<State> states_;  // tiered: by block
  std::vector<bool> places_;   // taken ones
  std::uint32_t slots_ = 0;    // committed
  std::uint64_t stamps_ = 0;
};

}  // namespace vitro
