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

// A thread of this process, which never ends: run(argument) on a stack of its own (its end is aligned to vectors). False when there is
// none. On a phone each of them that computes in HVX locks a context first (qurt_hvx_lock).
bool start_thread(void* stack, uint32_t stack_bytes, void (*run)(void*), void* argument);
// Sleeps while *word is `value`; may return early, so callers look again. wake: all who sleep on it.
void sleep_while(const uint32_t& word, uint32_t value);
void wake(uint32_t& word);

// Words that threads share. Whatever was written before a raise() is seen after a look() that sees it.
inline uint32_t look(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
inline uint32_t raise(uint32_t& word, uint32_t by = 1) { return __atomic_fetch_add(&word, by, __ATOMIC_ACQ_REL); }  // what it was before

// Cache maintenance by address: the two processors are coherent in one direction only (TTS-NPU 6).
void clean_cache(const volatile void* begin, uint32_t bytes);       // what the worker wrote becomes visible to the CPU
void invalidate_cache(const volatile void* begin, uint32_t bytes);  // the worker forgets what it read before

}  // namespace vitro::hexagon
