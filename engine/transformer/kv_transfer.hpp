// Keys and values of one sequence between the KV pool and a file of the machine's storage.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/transformer/transformer.hpp"

namespace vitro {

// Where blocks of a sequence lie in a file: part after part, in each of them the blocks by position. A part has a layer's slice of every
// block; or there is one part, of whole blocks.
struct BlocksInFile {
  FileId file{};
  Bytes offset = 0;             // of the first part
  std::uint32_t parts = 1;      // 1, or the model's layers
  Bytes unit = 0;               // bytes of a block in a part
  std::uint32_t first = 0;      // the block that each part begins with
  std::uint32_t capacity = 0;   // blocks of a part
  KvSums* sums = nullptr;       // of the file's units; null: its bytes are not checked here

  Extent extent(std::uint32_t part, std::uint32_t block, std::uint32_t count) const {
    return {file, offset + (Bytes{part} * capacity + block - first) * unit, count * unit};
  }
};

// Neighbours in the pool: blocks [first, first + count) of a sequence.
struct KvPiece {
  std::uint32_t first = 0, count = 0;
  Bytes memory = 0;  // offset in the pool
};
// Where units of blocks [first, end) are now: in a block of the pool, or where a slice of `layer` landed.
std::vector<KvPiece> pieces_of(const KvCache& kv, std::uint32_t sequence, std::uint32_t first, std::uint32_t end, std::uint32_t layer,
                               Bytes unit);
// The first block that was not given up because a window has passed it.
std::uint32_t first_block_of(const KvCache& kv, std::uint32_t sequence);

// Fills `sequence`, which is empty, with `length` positions, whose blocks from `first` on come from the file. What does not stay in DRAM
// goes to flash layer by layer. Requires: parts are layers where keys and values spill. Throws RunError, OverBudget.
Task<void> read_blocks(Machine* machine, Transformer* model, std::uint32_t sequence, std::uint32_t length, std::uint32_t first,
                       BlocksInFile from);
// Writes the blocks of `sequence` from `first` on. What is in flash comes back layer by layer for it. Requires, throws: as above.
Task<void> write_blocks(Machine* machine, Transformer* model, std::uint32_t sequence, std::uint32_t first, BlocksInFile to);

}  // namespace vitro
