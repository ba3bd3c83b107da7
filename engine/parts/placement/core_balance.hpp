// How much of a phase falls to each core, by how fast they are beside one another (MNN-LLM, section 5.2).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "engine/graph/lowering.hpp"

namespace vitro {

// Knows a share for each kind of block, apart for decoding and for prompts: formats differ by block, and cores that are limited by memory
// in the one compute in the other. Even until it has learned. Afterwards it is fixed, so that host and sim decide by numbers, not by time.
class CoreBalance {
 public:
  // A step of more rows than `decode_rows` is one of a prompt.
  CoreBalance(std::size_t cores, std::uint32_t decode_rows);

  // Sum: as many as there are cores.
  const Shares& shares(BlockKind kind, std::uint32_t rows) const { return shares_[index(kind, rows)]; }
  // What each core took, in seconds, for the share that it had. Cores without work keep theirs. Requires: one entry for each core.
  void learn(BlockKind kind, std::uint32_t rows, const std::vector<double>& seconds);
  // Ends learning: cores that differ by less than measurements do are alike.
  void settle();

 private:
  std::size_t index(BlockKind kind, std::uint32_t rows) const { return 2 * static_cast<std::size_t>(kind) + (rows > decode_rows_ ? 1 : 0); }

  std::uint32_t decode_rows_;
  std::vector<Shares> shares_;  // by index()
};

}  // namespace vitro
