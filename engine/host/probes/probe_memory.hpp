// What the real machine's memory and clock give to plain loops, without the machine interface: limits that kernels and models are held
// against.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro {

struct ReadProbe {
  Bytes bytes = GiB;  // of all threads together; a cache only shows what it does below its size
  Bytes stride = 0;   // 0: the kernels' own read loops, of which the fastest counts; else one cache line of each stride
  std::uint32_t threads = 1;
  std::uint32_t repetitions = 5;
};
// Bytes per second that the loops asked for, all threads together: one value for each repetition. With a stride, bytes are the
// cache lines that were touched. Throws ConfigError for a stride that is no multiple of a cache line, or threads without cores.
std::vector<double> probe_reads(const ReadProbe& probe);

// Seconds of one load that depends on the one before it, over `bytes` in random order.
std::vector<double> probe_load_latency(Bytes bytes, std::uint32_t repetitions);

// Hertz, from a chain of dependent additions: one each cycle on every core that this runs on.
std::vector<double> probe_clock(std::uint32_t repetitions);

// Seconds to describe one kernel call of three operands and to drop it again: what a policy spends on each, whatever it decides.
std::vector<double> probe_call_building(std::uint32_t repetitions);

}  // namespace vitro
