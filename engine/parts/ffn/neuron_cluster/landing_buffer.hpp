// Where reads land whose bytes are not kept as they lie in flash: whole pages of DRAM, taken for one read at a time. Bookkeeping alone.
#pragma once
#include <optional>
#include <vector>

#include "engine/base/units.hpp"
#include "engine/machine/signal.hpp"

namespace vitro {

// What a read brought, still where it landed.
struct Landed {
  Bytes at = 0, bytes = 0;  // in the room; as read
  Bytes begin = 0;          // where they begin in their first piece
  Bytes into = 0;           // in the arena, of the first byte that is kept
};

class LandingBuffer {
 public:
  LandingBuffer(Executor& executor, Bytes size) : size_(round_down(size, kPageSize)), freed_(executor) { free_.push_back({0, size_}); }

  Bytes size() const { return size_; }

  // The offset of `bytes` in one piece, rounded up to pages, if there is one now. Requires: bytes <= size().
  std::optional<Bytes> try_take(Bytes bytes);
  // For reads that wait for one another (a wave that is computed when all of it has landed) beside others that do not. The latter are put
  // at the end of the highest hole, the former into the lowest, and nowhere while one of the latter lies below: when those have gone, what
  // is left is in one piece, although they go in any order.
  std::optional<Bytes> try_take_lowest(Bytes bytes);
  std::optional<Bytes> try_take_highest(Bytes bytes);
  Signal::Changed freed() { return freed_.changed(); }  // some room, for whoever found none: he looks again
  // Whether what landed there may stay until the unit that computes it copies it. The other half of the room is for reads alone, so that
  // a read never waits for a unit that waits for the read. Requires: a read is no longer than half of the room.
  bool may_wait(Bytes offset, Bytes bytes) const { return offset + round_up(bytes, kPageSize) <= size_ / 2; }
  // Requires: taken, and not given back before.
  void give_back(Bytes offset, Bytes bytes);

 private:
  struct Hole {
    Bytes begin = 0, end = 0;
  };

  Bytes size_;
  std::vector<Bytes> passing_;  // offsets of what try_take_highest() gave
  std::vector<Hole> free_;  // ascending, no two of them adjacent; about as many as there are reads under way
  Signal freed_;
};

}  // namespace vitro
