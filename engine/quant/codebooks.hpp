// The codebooks of GGUF formats, whose entries their indices name, and what their bits of signs do. Constants of the format: its
// files mean these (github.com/ggml-org/llama.cpp; the gguf Python package, from which tools/quant/codebook_digits.py takes them).
#pragma once
#include <cstddef>
#include <cstdint>

namespace vitro::codebook {

// Bytes of consecutive columns, the first lowest. Plain arrays: kernels of several instruction sets index them, and no inline function of
// the standard library may be among what they compile.
template <class Word, std::size_t kCount>
struct Book {
  Word at[kCount];
};

extern const Book<std::uint64_t, 256> kIq2Xxs;  // 8, 25 or 43
extern const Book<std::uint64_t, 512> kIq2Xs;
extern const Book<std::uint64_t, 1024> kIq2S;
extern const Book<std::uint32_t, 256> kIq3Xxs;  // 4, 12, 20, 28, 36, 44, 52 or 62
extern const Book<std::uint32_t, 512> kIq3S;    // 1, 3, ..., 15
extern const Book<std::uint64_t, 2048> kIq1;    // 8 g + 1 + 128, with g = -1, 0 or 1

// Bytes of 0xff where a bit is set.
extern const Book<std::uint64_t, 256> kMasks;

}  // namespace vitro::codebook
