// Stands in for the Hexagon SDK's header of this name, as a DSP sees it: what system_qurt.cpp uses of it.
#pragma once
#include <stddef.h>
#include <stdint.h>

using remote_handle64 = uint64_t;
union remote_arg {
  struct {
    void* pv;
    size_t nLen;
  } buf;
  remote_handle64 h64;
};

#define REMOTE_SCALARS_METHOD(scalars) ((scalars) >> 24 & 0x1f)
// Numbers of buffers in and out, then of handles in and out.
#define REMOTE_SCALARS_MAKEX(attributes, method, in, out, handles_in, handles_out)                                                       \
  (static_cast<uint32_t>(attributes) << 29 | static_cast<uint32_t>(method) << 24 | static_cast<uint32_t>(in) << 16 |                    \
   static_cast<uint32_t>(out) << 8 | static_cast<uint32_t>(handles_in) << 4 | static_cast<uint32_t>(handles_out))
#define REMOTE_SCALARS_MAKE(method, in, out) REMOTE_SCALARS_MAKEX(0, method, in, out, 0, 0)
