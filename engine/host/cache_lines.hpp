// Maintenance of the CPU's caches by address, from a program: for memory that another processor shares and that only one of the two keeps
// coherent. On aarch64 the instructions dc cvac and dc civac, which Linux lets programs use (arm64: SCTLR_EL1.UCI); elsewhere caches are
// coherent with everybody, and nothing is done.
#pragma once
#include <cstddef>

namespace vitro {

// What was written here is in memory afterwards.
void clean_cache_lines(const void* begin, std::size_t bytes);
// What is read here next comes from memory. Lines that were written and not cleaned are written first.
void invalidate_cache_lines(const void* begin, std::size_t bytes);

}  // namespace vitro
