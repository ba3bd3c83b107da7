// The worker's operating system: Linux by trap0(#1) under qemu-hexagon. On a phone this file is QuRT and FastRPC instead
// (docs/design/hexagon.md); nothing else of the worker knows where it runs.
#pragma once
#include <stddef.h>
#include <stdint.h>

extern "C" void* memcpy(void* to, const void* from, size_t bytes);
extern "C" void* memset(void* to, int byte, size_t bytes);

namespace vitro::hexagon {

// A region that the CPU shares with the worker; null when it can not be mapped. `fd` was inherited.
void* map_shared(int fd, uint32_t bytes, bool writable);
void unmap(void* region, uint32_t bytes);
void sleep_us(uint32_t microseconds);
bool orphaned();  // whoever started the worker is gone
[[noreturn]] void leave(int code);

// Cache maintenance by address: the two processors are coherent in one direction only (TTS-NPU 6).
void clean_cache(const volatile void* begin, uint32_t bytes);       // what the worker wrote becomes visible to the CPU
void invalidate_cache(const volatile void* begin, uint32_t bytes);  // the worker forgets what it read before

}  // namespace vitro::hexagon
