// The worker's operating system: Linux by trap0(#1) under qemu-hexagon (system.cpp), QuRT and FastRPC on a phone (system_qurt.cpp,
// docs/design/hexagon.md); nothing else of the worker knows where it runs.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "engine/kernels/hexagon/protocol.hpp"

extern "C" void* memcpy(void* to, const void* from, size_t bytes);
extern "C" void* memset(void* to, int byte, size_t bytes);

namespace vitro::hexagon {

// The worker's loop (main.cpp), which is started by the operating system's part: answers requests in the regions until it is told to
// stop, or nobody is left to ask. 0, or why it could not begin: 1: the regions are not what this program expects, 2: not mapped.
int serve(const ServeCall& regions);

// A region that the CPU shares with the worker; null when it can not be mapped. `fd` was inherited, or came with the call.
void* map_shared(int fd, uint32_t bytes, bool writable);
void unmap(void* region, uint32_t bytes);
void sleep_us(uint32_t microseconds);
bool orphaned();  // whoever started the worker is gone
[[noreturn]] void leave(int code);

// A thread of this process, which never ends: run(argument) on a stack of its own (its end is aligned to vectors). vectors: it computes
// in HVX, for which a phone's threads lock a context first. False when there is none.
bool start_thread(void* stack, uint32_t stack_bytes, bool vectors, void (*run)(void*), void* argument);
// Sleeps while *word is `value`; may return early, so callers look again. wake: all who sleep on it.
void sleep_while(const uint32_t& word, uint32_t value);
void wake(uint32_t& word);

// Words that threads share. Whatever was written before a raise() is seen after a look() that sees it.
inline uint32_t look(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
inline uint32_t raise(uint32_t& word, uint32_t by = 1) { return __atomic_fetch_add(&word, by, __ATOMIC_ACQ_REL); }  // what it was before

// Cache maintenance by address: the two processors are coherent in one direction only (TTS-NPU 6). Lines have 64 bytes or more.
inline uintptr_t cache_line(const volatile void* at) { return reinterpret_cast<uintptr_t>(at) & ~uintptr_t{63}; }
// What the worker wrote becomes visible to the CPU.
inline void clean_cache(const volatile void* begin, uint32_t bytes) {
  for (uintptr_t line = cache_line(begin); line < reinterpret_cast<uintptr_t>(begin) + bytes; line += 64) {
    __asm__ volatile("dccleana(%0)" : : "r"(line) : "memory");
  }
}
// The worker forgets what it read before.
inline void invalidate_cache(const volatile void* begin, uint32_t bytes) {
  for (uintptr_t line = cache_line(begin); line < reinterpret_cast<uintptr_t>(begin) + bytes; line += 64) {
    __asm__ volatile("dccleaninva(%0)" : : "r"(line) : "memory");
  }
}

}  // namespace vitro::hexagon
