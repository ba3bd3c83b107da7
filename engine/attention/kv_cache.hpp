// The blocked KV cache: several sequences share blocks of a few positions each, as in paged attention.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "engine/machine/kernel_call.hpp"
#include "engine/machine/memory.hpp"
#include "engine/model/model_config.hpp"

namespace vitro {

struct KvShape {
  std::uint32_t layers = 0, heads = 0, head_dim = 0;  // heads: that keep keys and values, see contract.hpp
  std::uint32_t block_tokens = 16;                    // raised until a block fills whole pages
  Format format = Format::f32;                        // f32 or f16
};

// Owns block tables and reference counts; the bytes are a reserved range of which live blocks are committed, so memory
// follows the sequences. Copy-on-write: a fork shares every block, and the first append into a shared, partly filled
// block asks the policy to copy it. Lowest free block first, so block numbers do not depend on timing.
class KvCache {
 public:
  // A copy that has to run (as Op::copy on a unit) before the next append: `from` is kept until then.
  struct BlockCopy {
    View from, to;
  };

  // max_tokens: positions over all sequences that the pool can ever hold. Address space only.
  KvCache(Memory& memory, KvShape shape, std::uint32_t max_tokens);

  std::uint32_t create();                      // an empty sequence; ids are never reused
  std::uint32_t fork(std::uint32_t sequence);  // same content, independent from here on
  void release(std::uint32_t sequence);        // its blocks return to the budget unless shared
  std::uint32_t length(std::uint32_t sequence) const;
  std::uint32_t live_blocks() const { return live_blocks_; }

  // Makes room for `count` more positions. Code::over_budget leaves the sequence as it was. Copies that became due are
  // appended to `copies`.
  Status extend(std::uint32_t sequence, std::uint32_t count, std::vector<BlockCopy>& copies);

  // Operand of kv_append and attention; shape as engine/kernels/contract.hpp says.
  View pool() const;
  // Blocks needed to address `rows`: the width of the table below.
  std::uint32_t table_width(const std::vector<SeqPos>& rows) const;
  // Block numbers of each row's sequence, [rows, width]; unused entries are 0.
  void fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out) const;

  const KvShape& shape() const { return shape_; }
  Bytes block_bytes() const { return block_bytes_; }

 private:
  struct Sequence {
    std::vector<std::uint32_t> blocks;
    std::uint32_t length = 0;
  };
  Result<std::uint32_t> take_block();
  void drop_block(std::uint32_t block);
  View block_view(std::uint32_t block) const;

  Memory& memory_;
  KvShape shape_;
  Bytes block_bytes_ = 0;
  Lease range_;
  std::map<std::uint32_t, Sequence> sequences_;
  std::vector<std::uint32_t> references_;  // per block; 0: free
  std::uint32_t next_sequence_ = 0, live_blocks_ = 0;
};

}  // namespace vitro
