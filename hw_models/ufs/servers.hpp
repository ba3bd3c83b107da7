// Servers: equal servers behind one first-come queue, in closed form.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro::hw {

class Servers {
 public:
  explicit Servers(std::uint32_t count) : free_(count, Picoseconds(0)) {}

  // When a job that comes at `from` and lasts `duration` is done. Requires: jobs come in the order of their service.
  Picoseconds serve(Picoseconds from, Picoseconds duration) {
    Picoseconds& server = *std::min_element(free_.begin(), free_.end());
    server = std::max(server, from) + duration;
    return server;
  }

 private:
  std::vector<Picoseconds> free_;
};

}  // namespace vitro::hw
