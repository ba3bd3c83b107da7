// How fast the kernels run beside what the machine can do at all: the best of several read loops over the same bytes, and
// multiply-adds in registers. `vitro bench kernels` prints the rows.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/machine/clock.hpp"

namespace vitro {

struct BenchOptions {
  std::string set = "auto";
  std::string only;     // kernels whose name starts with this, or the name of a row; empty: all
  bool smoke = false;   // tiny sizes, for tests: the numbers mean nothing
  Bytes weights = GiB;  // that a pass rotates over: more than any last-level cache
  int repetitions = 7;  // limit and kernels take turns; rows are medians
};

struct BenchRow {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> limit, fraction_of_limit;  // none for the limits themselves
  std::string result_hash;                         // of the kernel's output; the same on every machine
};

// Uses the memory that the options say and at most two threads of its own.
std::vector<BenchRow> bench_kernels(const BenchOptions& options, const Clock& clock);

}  // namespace vitro
