// Re-quantises a GGUF file: `vitro quantize IN.gguf OUT.gguf --scheme NAME`.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Which weights share a scale.
enum class ScaleGrain : std::uint8_t {
  block,         // those of a block of the format, or of a row if the format has one scale for it
  ternary,       // those of a matrix, whose values are -scale, 0 and scale (BitNet b1.58)
  int4_channel,  // those of a row: values of npu_int4.hpp, exactly in f32
};

struct QuantizeScheme {
  std::string name;
  std::string what;              // one line for lists
  Format matrices;               // of every matrix but those below
  Format embeddings;             // of token_embd and output: they touch every token, so they keep more bits
  std::optional<int> file_type;  // general.file_type of the result, as other tools number it; none: they have no number for it
  ScaleGrain grain = ScaleGrain::block;
  double outliers = 0;           // of int4_channel: the share of a row's weights that are kept apart
  std::optional<Format> down{};  // of ffn_down, where it differs from the other matrices
};

// Formats for the two matrices of the vocabulary in place of the scheme's: an embedding that is read from flash row by row may be wide,
// the output matrix is read whole for every token.
struct VocabularyFormats {
  std::optional<Format> embedding, output;
};
// What else quantize() may be told of a file.
struct QuantizeOptions {
  VocabularyFormats vocabulary;
  // Matrices that were rounded elsewhere (engine/app/gptq_pass.hpp), by the tensor's name: all its bytes in target_format(). Null: none.
  const std::map<std::string, std::vector<std::byte>, std::less<>>* rounded = nullptr;
  // The result has the first layers alone, and matrices of the last of them stay as they are. None: it has all layers.
  std::optional<std::uint32_t> layers;
};
// The scheme of that name. Throws ConfigError, which lists the known ones.
const QuantizeScheme& quantize_scheme(std::string_view name);
// What quantize() makes of a tensor under a scheme. Throws ConfigError where a format of `vocabulary` does not fit.
Format target_format(const TensorInfo& tensor, const QuantizeScheme& scheme, const VocabularyFormats& vocabulary = {});
// The layer of a tensor, "blk.3.attn_q.weight"; -1: of none.
int layer_of(std::string_view tensor);

// A format of that name that quantize() can write. Throws ConfigError, which begins with `option`.
Format written_format(std::string_view option, std::string_view name);

const std::vector<QuantizeScheme>& quantize_schemes();

// The first value that a row of `target` can not hold: not finite, or beyond what an fp16 scale or element can express.
std::optional<std::size_t> first_unholdable(Format target, std::span<const float> values);

// Writes `out_path` with the matrices of `in_path` (f32, f16, bf16, or already quantised: then dequantised first) in the
// formats of the scheme. One-dimensional tensors and the router of a mixture become f32. Where the rows of a matrix are no
// whole number of blocks, a group format gives way to the same with a smaller group; if none fits, or for another format,
// the matrix keeps the format that it has; of q4_0_tile, q4_0 stands in. A matrix that is embedding and output in one (tied) becomes two
// tensors when the two are to have different formats. Streams row by row; nothing is at out_path until all of it is.
// Throws ConfigError for an unknown scheme, a bad file, a format of the vocabulary whose blocks do not fill the rows, or values that are
// not finite or too large for the scheme.
void quantize(const std::string& in_path, const std::string& out_path, std::string_view scheme, const QuantizeOptions& options = {});

// How far the matrices of a model are from those of another one with the same tensors: all but embeddings and routers.
struct WeightError {
  double relative = 0;         // root of the squared differences' sum over that of the reference's squares
  double bits_per_weight = 0;  // as packed for products: a row's one scale counts once
};
// Throws ConfigError when a matrix is missing or has another shape.
WeightError weight_error(const std::string& path, const std::string& reference_path);

}  // namespace vitro
