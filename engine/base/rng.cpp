#include "engine/base/rng.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mix(std::uint64_t seed, std::initializer_list<std::uint64_t> key) {
  std::uint64_t state = seed;
  std::uint64_t out = splitmix(state);
  for (const std::uint64_t part : key) {
    state = out ^ part;
    out = splitmix(state);
  }
  return out;
}

Rng::Rng(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = splitmix(seed);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  VITRO_CHECK(bound > 0, "an empty range has no draw");
  const std::uint64_t threshold = (0 - bound) % bound;  // rejects the part of the range that would favour low values
  for (;;) {
    const std::uint64_t r = next();
    if (r >= threshold) return r % bound;
  }
}

double Rng::normal() {
  const double u = 1.0 - uniform();  // in (0, 1]: the logarithm is finite
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace vitro
