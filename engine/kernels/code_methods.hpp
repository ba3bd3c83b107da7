// How codes of few bits are multiplied fastest. Both ways give the same bits (docs/design/lut-kernels.md).
#pragma once
#include <cstdint>
#include <string_view>

namespace vitro {

// Whether a kernel set decodes faster by look-up than by dot products, for codes of so many bits in the int8 contract. Look-ups are chosen
// where they gain more than 5 %, since batches are faster in the layout for dot products. name: a set of this machine, "auto" included, or
// of a simulated core. Throws ConfigError as kernel_set() does.
bool looks_up_faster(std::string_view name, std::uint32_t bits);

}  // namespace vitro
