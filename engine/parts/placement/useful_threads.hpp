#pragma once
#include <cstdint>

#include "engine/base/units.hpp"

namespace vitro {

// Cores among which a phase of a dense model can be shared without loss: a further one has to save more than it costs to hand work to it
// and to wait for it. `bytes_per_token`: of weights that a token reads. From 1 to `most`.
std::uint32_t useful_threads(Bytes bytes_per_token, std::uint32_t layers, std::uint32_t most);

}  // namespace vitro
