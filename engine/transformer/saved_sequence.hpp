// Keys and values of a sequence in a file, so that a later request can go on where one ended without computing its context again.
//
// Format vitro.kv/1, little-endian: a page with the header, the tokens (int32) padded to pages, and then the slices: layer after layer, in
// each the blocks by position. A slice is one layer's part of a KV block, as engine/ops/attention.hpp lays it out. Files are not exchanged
// between builds with another block size or format of keys and values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/transformer/transformer.hpp"

namespace vitro {

// What has to be the same for values to be those that this run would compute.
struct SequenceOrigin {
  std::uint64_t model = 0;      // of the weights, an adapter's among them
  std::uint64_t contracts = 0;  // numeric contracts of matmuls, attention and an adapter's products
};

struct SavedSequence {
  std::string path;
  SequenceOrigin origin;
  std::uint32_t layers = 0, heads = 0, head_dim = 0, block_tokens = 0, format = 0;
  std::uint32_t length = 0;          // positions
  std::uint32_t first_block = 0;     // those before it were given up: no later row sees them
  std::vector<std::int32_t> tokens;  // length + 1: the last one was chosen and has no position yet
  std::uint64_t checksum = 0;        // of the slices

  std::uint32_t end_block() const { return (length + block_tokens - 1) / block_tokens; }
  Bytes slice_bytes() const;
  Bytes data_offset() const;  // in the file
};

// Reads header and tokens, and all slices once for their checksum. Throws ConfigError that names the file: not there, no such file format,
// another version, sizes that do not fit together, damaged.
SavedSequence open_sequence(const std::string& path);
// Throws ConfigError where the file is of another model, was computed with other contracts, or is laid out for other blocks than `shape`.
void check_sequence(const SavedSequence& saved, const SequenceOrigin& origin, const KvShape& shape);

// Fills `sequence`, which is empty, through the machine's storage. What does not stay in DRAM goes to flash layer by layer. Requires:
// check_sequence() took the file.
Task<void> restore_sequence(Machine* machine, Transformer* model, std::uint32_t sequence, const SavedSequence* saved);
// Writes the file whole or not at all. Keys and values in flash are read back through the machine's storage; writing the file itself is no
// part of the machine's time. `tokens`: as in SavedSequence. Requires: values are computed. Throws RunError.
Task<void> save_sequence(Transformer* model, std::uint32_t sequence, std::vector<std::int32_t> tokens, SequenceOrigin origin,
                         std::string path);

}  // namespace vitro
