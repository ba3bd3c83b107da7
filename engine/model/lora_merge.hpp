// `vitro merge BASE.gguf ADAPTER.gguf OUT.gguf`: a LoRA adapter merged into its base, W + scale B A (MNN-LLM 5.5).
#pragma once
#include <optional>
#include <string>

#include "engine/tensor/format.hpp"

namespace vitro {

struct LoraMerge {
  std::string base, adapter, out;
  double strength = 1;
  std::optional<Format> format;  // of the matrices that are merged, where their rows are whole blocks of it; none: each its own
};

// Quantised matrices are dequantised, merged in double precision, and quantised again. All else is copied. Streams row by row;
// nothing is at `out` until all of it is. Throws ConfigError as LoraFile::open() does, for a format that can not be made, and for a
// merged weight that its format can not hold.
void merge_lora(const LoraMerge& merge);

}  // namespace vitro
