#include "engine/model/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/base/check.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/npu_int4.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

const QuantizeScheme& scheme_by_name(std::string_view name) {
  std::vector<std::string_view> known;
  for (const QuantizeScheme& scheme : quantize_schemes()) {
    if (scheme.name == name) return scheme;
    known.push_back(scheme.name);
  }
  throw ConfigError(fmt::format("scheme \"{}\" is unknown (expected one of: {})", name, fmt::join(known, ", ")));
}

// A router stays as it is: a token that goes to another expert costs more than its bits.
bool is_matrix(const TensorInfo& tensor) { return tensor.dims.size() > 1 && !tensor.name.ends_with(".ffn_gate_inp.weight"); }
bool is_embedding(const TensorInfo& tensor) { return tensor.name == "token_embd.weight" || tensor.name == "output.weight"; }

Format target_format(const TensorInfo& tensor, const QuantizeScheme& scheme) {
  if (!is_matrix(tensor)) return Format::f32;
  const Format wanted = is_embedding(tensor) ? scheme.embeddings : scheme.matrices;
  return tensor.columns() % block_elements(wanted) == 0 ? wanted : tensor.format;
}

void convert_row(const Gguf& in, const TensorInfo& tensor, std::uint64_t row, Format target, std::optional<double> int4_outliers,
                 std::vector<float>& values, std::vector<std::byte>& bytes) {
  const Bytes stride = row_bytes(tensor.format, tensor.columns());
  bytes.resize(stride);
  in.read(tensor, row * stride, bytes);
  if (tensor.format == target && !int4_outliers) return;
  values.resize(tensor.columns());
  dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
  const Format bound = int4_outliers ? Format::f16 : target;  // as its scales have
  if (const auto k = first_unholdable(bound, values)) {
    throw ConfigError(fmt::format("{}: {}: row {}, element {} is {}, which {} can not hold", in.path(), tensor.name, row, *k, values[*k],
                                  to_string(bound)));
  }
  if (int4_outliers) round_to_int4_channel(values, *int4_outliers);
  bytes.resize(row_bytes(target, tensor.columns()));
  quantise_row(target, values.data(), bytes.data(), values.size());
}

}  // namespace

std::optional<std::size_t> first_unholdable(Format target, std::span<const float> values) {
  constexpr float kLargestHalf = 65504;
  float limit = std::numeric_limits<float>::max();
  if (target == Format::q8_0) limit = kLargestHalf * 127;
  if (target == Format::q4_0) limit = kLargestHalf * 8;
  if (target == Format::f16) limit = kLargestHalf;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (!(std::abs(values[k]) <= limit)) return k;
  }
  return std::nullopt;
}

const std::vector<QuantizeScheme>& quantize_schemes() {
  static const std::vector<QuantizeScheme> kSchemes{
      {"q8_0", "8 bits per weight in blocks of 32 (8.5 with the scale)", Format::q8_0, Format::q8_0, 7},
      {"q4_0", "4 bits per weight in blocks of 32 (4.5 with the scale); embeddings and output in q8_0", Format::q4_0, Format::q8_0, 2},
      {"npu_int4_channel", "what an NPU makes of INT4 with one scale per row, as exact values in f32; embeddings and output in q8_0",
       Format::f32, Format::q8_0, 0, 0.0},
      {"npu_int4_outliers", "the same with the largest 1 % of each row in INT8 (PowerInfer-2, 7.6)", Format::f32, Format::q8_0, 0,
       kOutlierShare},
  };
  return kSchemes;
}

void quantize(const std::string& in_path, const std::string& out_path, std::string_view scheme_name) {
  const QuantizeScheme& scheme = scheme_by_name(scheme_name);
  const Gguf in = Gguf::open(in_path);
  std::error_code error;
  if (std::filesystem::equivalent(in_path, out_path, error)) throw ConfigError(fmt::format("{}: input and output are one file", out_path));

  GgufWriter out(out_path, in.alignment());
  for (const auto& [key, value] : in.values()) {
    if (key != "general.alignment" && key != "general.file_type" && key != "general.quantization_version") out.add(key, value);
  }
  out.add("general.quantization_version", std::uint32_t{2});
  out.add("general.file_type", static_cast<std::uint32_t>(scheme.file_type));
  for (const TensorInfo& tensor : in.tensors()) out.add_tensor(tensor.name, tensor.dims, target_format(tensor, scheme));

  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (const TensorInfo& tensor : in.tensors()) {
    const Format target = target_format(tensor, scheme);
    const bool channels = is_matrix(tensor) && !is_embedding(tensor);
    for (std::uint64_t row = 0; row < tensor.rows(); ++row) {
      convert_row(in, tensor, row, target, channels ? scheme.int4_outliers : std::nullopt, values, bytes);
      out.write(bytes);
    }
  }
  out.commit();
}

}  // namespace vitro
