// Rows of bytes that change places with columns, 16 bytes at a time.
#pragma once
#include <cstdint>

namespace vitro {

using Units = std::uint32_t __attribute__((vector_size(16)));
using Bytes16 = std::uint8_t __attribute__((vector_size(16)));

// 4 x 4 units change places: unit j of row r becomes unit r of row j.
[[gnu::always_inline]] inline void transpose(Units (&row)[4]) {
  const Units low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5), low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Units high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7), high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  row[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  row[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  row[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  row[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// Of 16 rows, four bytes each, four rows a register: register k becomes byte k of all of them.
[[gnu::always_inline]] inline void transpose_bytes(Units (&row)[4]) {
  for (Units& u : row) {
    const auto bytes = reinterpret_cast<Bytes16>(u);
    u = reinterpret_cast<Units>(__builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }
  transpose(row);
}

}  // namespace vitro
