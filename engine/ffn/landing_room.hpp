// Where reads land whose bytes are not kept as they lie in flash: whole pages of DRAM, taken for one read at a time. Bookkeeping alone.
#pragma once
#include <vector>

#include "engine/base/units.hpp"
#include "engine/machine/signal.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

class LandingRoom {
 public:
  LandingRoom(Executor& executor, Bytes size) : size_(round_down(size, kPageSize)), freed_(executor) { free_.push_back({0, size_}); }

  Bytes size() const { return size_; }

  // The offset of `bytes` in one piece, rounded up to pages; waits until there are as many. Requires: bytes <= size().
  Task<Bytes> take(Bytes bytes);
  // Requires: taken, and not given back before.
  void give_back(Bytes offset, Bytes bytes);

 private:
  struct Hole {
    Bytes begin = 0, end = 0;
  };

  Bytes size_;
  std::vector<Hole> free_;  // ascending, no two of them adjacent; about as many as there are reads under way
  Signal freed_;
};

}  // namespace vitro
