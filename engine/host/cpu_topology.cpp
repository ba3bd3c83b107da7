#include "engine/host/cpu_topology.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

namespace vitro {
namespace {

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value && value > 0) return value;
  return std::nullopt;
}

// One measure for all cores: capacities and frequencies do not compare with each other. Capacity comes first, since it
// tells a fast design from a slow one at the same frequency.
std::vector<std::uint64_t> speeds(const std::string& root, const std::vector<int>& cpus) {
  for (const char* source : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    std::vector<std::uint64_t> out;
    for (const int cpu : cpus) {
      const std::optional<std::uint64_t> value = read_number(fmt::format("{}/cpu{}/{}", root, cpu, source));
      if (value) out.push_back(*value);
    }
    if (out.size() == cpus.size()) return out;
  }
  return std::vector<std::uint64_t>(cpus.size(), 1);
}

}  // namespace

std::vector<Core> read_topology(const std::string& root, const std::vector<int>& cpus) {
  const std::vector<std::uint64_t> speed = speeds(root, cpus);
  const std::set<std::uint64_t> distinct(speed.begin(), speed.end());
  std::vector<Core> cores;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const char* core_class = speed[i] == *distinct.rbegin() ? "big" : speed[i] == *distinct.begin() ? "little" : "mid";
    cores.push_back({cpus[i], speed[i], core_class});
  }
  std::stable_sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) { return a.speed > b.speed; });
  return cores;
}

std::vector<int> allowed_cpus() {
  // Grown until the kernel's mask fits: machines with more than CPU_SETSIZE processors exist.
  for (int bits = CPU_SETSIZE;; bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    const std::size_t size = CPU_ALLOC_SIZE(bits);
    const bool known = ::sched_getaffinity(0, size, set) == 0;
    std::vector<int> cpus;
    for (int cpu = 0; known && cpu < bits; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (known) return cpus;
    if (bits > (1 << 20)) return {0};
  }
}

}  // namespace vitro
