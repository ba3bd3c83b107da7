// How a softmax makes its powers of two (TTS-NPU 5.2.1). One header serves all compilers, so plain words and no library.
#pragma once
#include <stdint.h>

namespace vitro {

enum class Exponential : uint32_t {
  table,  // gathered from a table of all halves that are not positive
  f16,    // a polynomial of degree 4 in fp16; zero below 2^-14
  f32,    // a polynomial of degree 6 in float32, rounded to fp16; zero below 2^-25
};

}  // namespace vitro
