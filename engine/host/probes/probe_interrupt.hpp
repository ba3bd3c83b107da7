// What the policy's wake-ups cost the core that it shares with a unit: its thread takes the core from a call in progress and gives it
// back. A device that computes on every core has many of these in a step, and a probe of idle units sees none of them.
#pragma once
#include <vector>

#include "engine/host/probes/probe.hpp"

namespace vitro {

struct InterruptProbe {
  CallShape work;                  // of the first unit, which shares its core with the policy; some microseconds each
  std::uint32_t calls = 200;       // in one chain of it
  std::uint32_t repetitions = 10;  // after one that is not counted
};

struct InterruptTimes {
  // Seconds of one chain of the first unit, for each repetition: with all other units at rest, and while the last unit answers one
  // small call after the other.
  std::vector<double> alone, disturbed;
  std::vector<double> answers;  // of such small calls in a disturbed chain, for each repetition
  std::vector<double> trips;    // seconds from the submission of a small call to its answer, all of them
  // Seconds for each call when the chain's calls are handed over one by one, two of them under way at a time.
  std::vector<double> queued;
};
// With one unit `disturbed`, `answers` and `trips` stay empty. Throws ConfigError for a shape that the kernels have no form of.
InterruptTimes probe_interrupts(MachineHost& host, const InterruptProbe& probe);

}  // namespace vitro
