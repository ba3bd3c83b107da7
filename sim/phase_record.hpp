// PhaseRecord: the events of a phase, and what they added to the machine's meters.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "engine/base/units.hpp"
#include "hw_models/context.hpp"
#include "sim/activity_meter.hpp"
#include "sim/energy_causes.hpp"

namespace vitro::sim {

// Steps in order. Times count from the beginning of the phase; a step without a time happened in the event before it.
struct PhaseRecord {
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
    Picoseconds began, computed;  // computed: what it would have taken without memory
    Bytes written, weights, others;  // moved: to DRAM, and from and to it weights and all else
  };
  struct Draws {
    std::uint32_t processor;
    Cause cause;
    double seconds, computed;
  };
  struct CoreTaken {  // by the system
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
  using Step = std::variant<Event, KernelBegins, ChainEnds, CallEnds, Draws, CoreTaken, Executes, MemoryRate, MemoryMoved>;

  std::vector<Step> steps;
  Picoseconds begin{0};
  bool failed = false;  // a call, while it was recorded
};

}  // namespace vitro::sim
