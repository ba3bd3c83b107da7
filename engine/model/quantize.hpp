// Re-quantises a GGUF file: `vitro quantize IN.gguf OUT.gguf --scheme NAME`.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/machine/kernel_call.hpp"

namespace vitro {

struct QuantizeScheme {
  std::string_view name;
  std::string_view what;  // one line for lists
  Format matrices;        // of every matrix but those below
  Format embeddings;      // of token_embd and output: they touch every token, so they keep more bits
  int file_type;          // general.file_type of the result, as other tools number it
  // Matrices hold, exactly in `matrices`, the values of npu_int4.hpp with this share of outliers; none: another scheme.
  std::optional<double> int4_outliers{};
};
const std::vector<QuantizeScheme>& quantize_schemes();

// The first value that a row of `target` can not hold: not finite, or beyond what an fp16 scale or element can express.
std::optional<std::size_t> first_unholdable(Format target, std::span<const float> values);

// Writes `out_path` with the matrices of `in_path` (f32, f16, bf16, or already quantised: then dequantised first) in the
// formats of the scheme. One-dimensional tensors and the router of a mixture become f32; a matrix whose rows are no
// whole number of blocks keeps its format if it is plain. Streams row by row; nothing is at out_path until all of it is.
// Throws ConfigError for an unknown scheme, a bad file, or values that are not finite or too large for the scheme.
void quantize(const std::string& in_path, const std::string& out_path, std::string_view scheme);

}  // namespace vitro
