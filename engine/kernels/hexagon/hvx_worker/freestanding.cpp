// What the compiler calls of a C library where a program has none: the emulated ones. A phone's has its own.
#include "engine/kernels/hexagon/hvx_worker/system.hpp"

extern "C" void* memcpy(void* to, const void* from, size_t bytes) {
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < bytes; ++i) t[i] = f[i];
  return to;
}

// For copies of structures.
extern "C" void* __hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void* to, const void* from, size_t bytes) {
  return memcpy(to, from, bytes);
}

extern "C" void* memset(void* to, int byte, size_t bytes) {
  auto* t = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) t[i] = static_cast<unsigned char>(byte);
  return to;
}
