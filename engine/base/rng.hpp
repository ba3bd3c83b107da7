// Our own generator and our own distributions: those of the standard library differ between implementations, and a
// simulation must give the same draw on every machine.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace vitro {

// A draw that depends on its arguments alone: seed, then what it is for (sequence, position, layer ...). Recomputable
// at any position without a chain from the start, and independent of the order of calls.
std::uint64_t mix(std::uint64_t seed, std::initializer_list<std::uint64_t> key);

// Uniform in [0, 1) with 53 bits, from a mixed value.
constexpr double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

// A sequential stream (xoshiro256**, Blackman and Vigna 2018), seeded through splitmix64.
class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  std::uint64_t next();
  double uniform() { return to_unit(next()); }
  // Uniform in [0, bound). Requires: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  double normal();

 private:
  std::uint64_t state_[4];
};

}  // namespace vitro
