// KvStaging: the keys and values that a step attends to, converted to fp16 for a unit that can not read them as they are kept. Of one layer
// at a time: each layer's heads go where those of the layer before were. The numeric contract is that of ops::KvStage: to the unit every
// key and value is rounded to fp16, and attention over them is exact.
#pragma once
#include <map>
#include <vector>

#include "engine/parts/attention/kv_cache.hpp"

namespace vitro {

// A pool of one layer with a place for each block that somebody sees in the step, whoever shares it. Its memory follows the step: region kv
// has the visible blocks of one layer in fp16, of all heads, whichever of them the unit attends to.
class KvStaging {
 public:
  // Address space for all blocks of `kv`, which outlives this. window: of attention, in positions; 0: all.
  KvStaging(Memory& memory, const KvCache& kv, std::uint32_t window);

  // A step of these rows, which `kv` has room for, begins. Code::over_budget leaves the places as they were.
  // Requires: rows of a sequence stand together, ascending.
  Status begin_step(const std::vector<SeqPos>& rows);

  // Operand of ops::KvStage and of attention, which names a single layer.
  View pool() const;
  // A row for each place: the sequence that sees the block, and the last position in it that somebody sees.
  const Batch& places() const { return places_; }
  // Block table of ops::KvStage: what `layer` has at each place.
  void fill_sources(std::uint32_t layer, std::uint32_t* out) const;
  // Block table of attention over the staged pool, as KvCache::fill_table(); blocks that a row does not see have any number.
  void fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out) const;

  // Most that begin_step() can come to with so many blocks.
  static Bytes bytes(const KvShape& shape, std::uint32_t blocks);

 private:
  Memory& memory_;
  const KvCache& kv_;
  const std::uint32_t window_;
  const Bytes block_bytes_;
  Lease range_;
  Bytes committed_ = 0;
  Batch places_;
  std::vector<std::uint32_t> sources_;               // by place
  std::map<std::uint32_t, std::uint32_t> place_of_;  // by block
};

}  // namespace vitro
