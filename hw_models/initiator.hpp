// Initiator: an agent of its own that uses the DRAM, such as a display, a camera or a traffic generator. Nobody asks it for anything.
#pragma once
#include "engine/base/units.hpp"

namespace vitro::hw {

class Initiator {
 public:
  virtual ~Initiator() = default;
  // Bytes that it moved in a window that has passed.
  virtual double bytes_moved(Picoseconds begin, Picoseconds end) = 0;
};

}  // namespace vitro::hw
