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
  const Shares& shares(BlockKind kind, std::uint32_t rows) const { return learned_[index(kind, rows)].shares; }
  // One round with these shares: what each core took for its own in all, and the mean of a phase as a whole, both in seconds. The next
  // shares follow from the former. Cores without work keep theirs. Requires: one entry for each core.
  void learn(BlockKind kind, std::uint32_t rows, const std::vector<double>& seconds, double phase);
  // The next round tries to do without the slowest core, and teaches nothing about rates. False, and nothing is changed: cores are alike.
  bool leave_out_slowest(BlockKind kind, std::uint32_t rows);
  // Ends learning. The shares are those of the last round that was not slower than the fastest one; a round without the slowest core counts
  // before all others. A core that an operating system takes away is not slower in proportion to its share: where each phase waits until it
  // is back, equal shares may be better, or none. Cores that differ by less than measurements do are alike.
  void settle();

 private:
  struct Round {
    Shares shares;
    double phase;
  };
  struct Learned {
    Shares shares;
    std::vector<Round> rounds;
    bool without_slowest = false;  // the round to come
  };

  std::size_t index(BlockKind kind, std::uint32_t rows) const { return 2 * static_cast<std::size_t>(kind) + (rows > decode_rows_ ? 1 : 0); }

  std::uint32_t decode_rows_;
  std::vector<Learned> learned_;  // by index()
};

}  // namespace vitro
