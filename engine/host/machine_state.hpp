// The state of the real machine while a run goes on: clocks, their caps and temperatures, so that a throttled run can be told
// from a slow policy. What the system hides is left out.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/units.hpp"

namespace vitro {

struct MachineState {
  Picoseconds at{0};  // since sampling began
  // By CPU number, kHz: the clock now, and what the system allows at most at the moment.
  std::map<int, std::uint64_t> clock, cap;
  std::map<std::string, double> celsius;  // by the name of the thermal zone
};

struct MachineStates {
  std::map<int, std::uint64_t> top;  // kHz that each CPU is made for
  std::vector<MachineState> samples;

  // "cpu0 was capped at 2.0 of 3.3 GHz" when the system allowed less than nine tenths of what a CPU is made for; empty otherwise. A
  // low clock alone says nothing: an idle core has one, too.
  std::string throttled() const;
};

// `root` stands for /sys.
MachineState read_state(const std::string& root, const std::vector<int>& cpus);
std::map<int, std::uint64_t> read_top_clocks(const std::string& root, const std::vector<int>& cpus);

// Samples from construction to stop(), on a thread of its own that sleeps in between, and once at either end.
class StateSampler {
 public:
  explicit StateSampler(std::string root = "/sys", Picoseconds interval = Picoseconds(250'000'000'000));
  ~StateSampler();
  StateSampler(const StateSampler&) = delete;
  StateSampler& operator=(const StateSampler&) = delete;

  const MachineStates& stop();

 private:
  void work();
  void sample();

  const std::string root_;
  const Picoseconds interval_;
  std::vector<int> cpus_;
  Picoseconds begin_;
  MachineStates states_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace vitro
