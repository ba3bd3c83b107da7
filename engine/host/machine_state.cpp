#include "engine/host/machine_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "engine/host/cpu_topology.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

Picoseconds now() { return std::chrono::duration_cast<Picoseconds>(std::chrono::steady_clock::now().time_since_epoch()); }

std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::map<int, std::uint64_t> read_clocks(const std::string& root, const std::vector<int>& cpus, const char* name) {
  std::map<int, std::uint64_t> clocks;
  for (const int cpu : cpus) {
    const auto value = read_number(fmt::format("{}/devices/system/cpu/cpu{}/cpufreq/{}", root, cpu, name));
    if (value && *value > 0) clocks[cpu] = static_cast<std::uint64_t>(*value);
  }
  return clocks;
}

}  // namespace

std::map<int, std::uint64_t> read_top_clocks(const std::string& root, const std::vector<int>& cpus) {
  return read_clocks(root, cpus, "cpuinfo_max_freq");
}

MachineState read_state(const std::string& root, const std::vector<int>& cpus) {
  MachineState state;
  state.clock = read_clocks(root, cpus, "scaling_cur_freq");
  state.cap = read_clocks(root, cpus, "scaling_max_freq");
  // Zones in the order of their names: several may be of one type, of which the hottest counts.
  std::error_code hidden;
  for (const fs::directory_entry& zone : fs::directory_iterator(root + "/class/thermal", hidden)) {
    if (!zone.path().filename().string().starts_with("thermal_zone")) continue;
    const auto millidegrees = read_number(zone.path() / "temp");
    std::string type = zone.path().filename().string();
    std::ifstream(zone.path() / "type") >> type;
    if (!millidegrees) continue;
    const double celsius = static_cast<double>(*millidegrees) / 1000;
    const auto [known, added] = state.celsius.try_emplace(type, celsius);
    if (!added) known->second = std::max(known->second, celsius);
  }
  return state;
}

std::string MachineStates::throttled() const {
  for (const MachineState& sample : samples) {
    for (const auto& [cpu, cap] : sample.cap) {
      const auto made_for = top.find(cpu);
      if (made_for == top.end() || static_cast<double>(cap) >= 0.9 * static_cast<double>(made_for->second)) continue;
      return fmt::format("cpu{} was capped at {:.2f} of {:.2f} GHz", cpu, static_cast<double>(cap) * 1e-6,
                         static_cast<double>(made_for->second) * 1e-6);
    }
  }
  return {};
}

StateSampler::StateSampler(std::string root, Picoseconds interval)
    : root_(std::move(root)), interval_(interval), cpus_(allowed_cpus()), begin_(now()) {
  states_.top = read_top_clocks(root_, cpus_);
  sample();
  thread_ = std::thread([this] { work(); });
}

StateSampler::~StateSampler() { stop(); }

const MachineStates& StateSampler::stop() {
  if (!thread_.joinable()) return states_;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
  sample();
  return states_;
}

void StateSampler::sample() {
  MachineState state = read_state(root_, cpus_);
  state.at = now() - begin_;
  states_.samples.push_back(std::move(state));
}

void StateSampler::work() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::duration_cast<std::chrono::nanoseconds>(interval_), [this] { return stop_; })) sample();
}

}  // namespace vitro
