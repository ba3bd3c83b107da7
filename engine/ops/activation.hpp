// Activation functions, which several operators apply.
#pragma once
#include <cstdint>

#include "engine/ops/work.hpp"

namespace vitro {

enum class Activation : std::uint8_t { silu, relu, relu_squared, gelu };

}  // namespace vitro

namespace vitro::work {

constexpr std::uint64_t activation(Activation act) {
  switch (act) {
    case Activation::silu:
      return kTranscendental + 4;  // negate, add, divide, times up
    case Activation::relu:
      return 2;
    case Activation::relu_squared:
      return 3;
    case Activation::gelu:
      return kTranscendental + 8;
  }
  return 0;
}

}  // namespace vitro::work
