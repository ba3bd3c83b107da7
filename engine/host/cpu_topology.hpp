// Which cores this machine has, fastest first, and what class each belongs to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace vitro {

struct Core {
  int os_cpu = 0;
  std::uint64_t speed = 0;  // relative: the kernel's capacity, or the top frequency in kHz; equal for all when hidden
  std::string core_class;   // "big", "mid" or "little" by distinct speed; a uniform machine is all "big"
  friend bool operator==(const Core&, const Core&) = default;
};

// Sorted by descending speed, then by ascending CPU number. `root` stands for /sys/devices/system/cpu. A machine that
// hides the speed of some core counts as uniform.
std::vector<Core> read_topology(const std::string& root, const std::vector<int>& cpus);

// The CPUs that this process may run on, ascending.
std::vector<int> allowed_cpus();

}  // namespace vitro
