// Tape: what a machine's books were told in a stretch of simulated time, so that they can be told again.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "engine/base/units.hpp"
#include "hw_models/context.hpp"

namespace vitro::sim {

// What a unit spends energy for.
enum class Cause : std::uint8_t {
  compute,   // products, attention and all other arithmetic
  rows,      // rows that a unit puts elsewhere: gather, the weighted sum that scatters back, keys and values into the cache, copies
  switches,  // another graph is made current
};

// What the system takes a core for.
enum class SystemWork : std::uint8_t { issue_io, policy, take_result };

// In the order in which they were told. Times count from the beginning; whatever has no time of its own happened in the latest event.
struct Tape {
  struct Event {
    Picoseconds at;
    hw::Label label;
  };
  struct KernelBegins {
    std::uint32_t processor;
  };
  struct ChainEnds {
    std::uint32_t unit;
  };
  struct CallEnds {
    std::uint32_t processor;
    Picoseconds began, computed;
    Bytes written, weights, others;
  };
  struct Draws {
    std::uint32_t processor;
    Cause cause;
    double seconds, computed;
  };
  struct Works {  // the system, on a core
    std::uint32_t processor;
    SystemWork kind;
    Picoseconds from, duration;
  };
  struct Executes {
    std::uint32_t unit, call;
  };
  struct MemoryRate {
    double bytes_per_second;
  };
  struct MemoryMoved {
    double read, written;  // bytes of a request that has ended
  };
  using Step = std::variant<Event, KernelBegins, ChainEnds, CallEnds, Draws, Works, Executes, MemoryRate, MemoryMoved>;

  std::vector<Step> steps;
  Picoseconds begin{0};
  bool whole = true;  // nothing failed while it was recorded
};

}  // namespace vitro::sim
