// What every byte of a lease holds, as far as storage and units tell: a map of runs, looked up anew each time.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "engine/machine/io_request.hpp"

namespace vitro {

struct Holds {
  enum class Kind : std::uint8_t {
    nothing,   // zeros, or what somebody computed
    coming,    // a read is under way
    failed,    // the last read did not bring it
    from_file  // the last read brought it
  };
  Kind kind = Kind::nothing;
  FileId file{};
  Bytes from = 0;  // of the run's first byte, in that file
};

class ShadowBytes {
 public:
  struct Run {
    Bytes begin = 0, end = 0;
    Holds holds;
  };

  void put(Bytes begin, Bytes end, Holds holds);
  // All of [begin, end), in order; runs of nothing included.
  std::vector<Run> runs(Bytes begin, Bytes end) const;

 private:
  std::map<Bytes, std::pair<Bytes, Holds>> runs_;  // begin to end and what it is; no two overlap, and none holds nothing
};

}  // namespace vitro
