// Which read brought what a kernel reads: of each place in memory the last read into it that no kernel has taken yet.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Not thread-safe. Memory is bounded: beyond kMost reads that no kernel took the oldest are forgotten.
class ReadFlows {
 public:
  static constexpr std::size_t kMost = 1 << 16;

  // A read has ended, whose bytes are now in [offset, offset + length) of a block. -> a number of its own, from 1 on
  std::uint64_t arrived(std::uint64_t block, Bytes offset, Bytes length);
  // The reads that brought what the call reads, ascending. Nobody takes them again.
  std::vector<std::uint64_t> taken(const KernelCall& call);
  // Numbers go on.
  void forget_all();
  std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Brought {
    Bytes end = 0;
    std::uint64_t flow = 0;
  };
  using Places = std::map<Bytes, Brought>;  // by where they begin; disjoint

  void take(Places& places, Bytes begin, Bytes end, std::vector<std::uint64_t>& flows);
  void take_operand(const KernelCall& call, std::size_t operand, Places& places, std::vector<std::uint64_t>& flows);
  void forget_oldest();

  std::unordered_map<std::uint64_t, Places> blocks_;
  struct Arrival {
    std::uint64_t block = 0;
    Bytes offset = 0;
    std::uint64_t flow = 0;
  };
  std::deque<Arrival> order_;  // the oldest first; some of it is gone
  std::size_t kept_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace vitro
