// What the worker hands to the emulator's matrix unit, as one does to a device in memory: it fills a call in and writes `state` last.
// A plug-in of the emulator watches that write, multiplies, and answers in `state`. Addresses are the worker's.
#pragma once
#include <stdint.h>

enum { kMatrixMagic = 0x584d4856, kMatrixAsked = 1, kMatrixDone = 2 };
#define VITRO_MATRIX_DOORBELL "ask_matrix_unit"  // the function that writes `state`

struct matrix_call {
  uint32_t state, magic;
  uint32_t unit;          // an HmxModel (hmx.hpp)
  uint32_t x, w;          // tiles of activations and of weights
  uint32_t tiles, bytes;  // bytes: 1 for tiles of int8, 2 for those of fp16
};
