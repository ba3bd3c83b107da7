// A FastRPC invocation as it reaches the emulated phone: the double of the vendor's library (tests/engine/host/fastrpc_double.cpp) writes
// it to memory that the emulator inherits as kCallFd, phone.cpp calls the module's entry with it. Plain words for both compilers.
#pragma once
#include <stdint.h>

namespace vitro::test {

constexpr int kCallFd = 3;

struct EmulatedCall {
  uint32_t scalars;   // one buffer in, nothing out
  uint32_t in_bytes;
  uint8_t in[64];
  uint32_t returned;  // 1: `result` is the method's
  int32_t result;
};

}  // namespace vitro::test
