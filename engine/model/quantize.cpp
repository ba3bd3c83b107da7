#include "engine/model/quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/base/check.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/npu_int4.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/code_search.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

// A router stays as it is: a token that goes to another expert costs more than its bits. Vectors, with or without a second
// dimension of 1, do as well.
bool is_matrix(const TensorInfo& tensor) {
  return tensor.rows() > 1 && !tensor.name.ends_with(".ffn_gate_inp.weight");
}
constexpr std::string_view kEmbedding = "token_embd.weight", kOutput = "output.weight";
bool is_embedding(const TensorInfo& tensor) { return tensor.name == kEmbedding || tensor.name == kOutput; }
bool is_down(const TensorInfo& tensor) { return tensor.name.find(".ffn_down") != std::string::npos; }
// A predictor's outputs are chosen one by one.
bool is_predictor_matrix(const TensorInfo& tensor) { return tensor.name.ends_with(".fc1.weight") || tensor.name.ends_with(".fc2.weight"); }

// `wanted`, or the same with a smaller group, whichever has blocks that fill rows of so many columns. Of tile groups, ordinary ones.
std::optional<Format> fitting(Format wanted, const TensorInfo& tensor) {
  const std::uint64_t columns = tensor.columns();
  const bool tiles = can_store(wanted, tensor.dims[1], columns) && !is_predictor_matrix(tensor);
  if (stored_layout(wanted) != Layout::rows && !tiles) wanted = Format::q4_0;
  while (!can_store(wanted, tensor.dims[1], columns)) {
    wanted.block /= 2;
    if (!wanted.is_group() || !exists(wanted)) return std::nullopt;
  }
  return wanted;
}

// How a file is to be written: a scheme, and what was asked for beside it.
struct Wanted {
  const QuantizeScheme& scheme;
  VocabularyFormats vocabulary;
  std::optional<std::uint32_t> layers{};  // QuantizeOptions

  bool left_out(const TensorInfo& tensor) const { return layers && layer_of(tensor.name) >= static_cast<int>(*layers); }
  bool kept(const TensorInfo& tensor) const { return layers && layer_of(tensor.name) + 1 == static_cast<int>(*layers); }

  std::optional<Format> chosen(const TensorInfo& tensor) const {
    if (tensor.name == kEmbedding) return vocabulary.embedding;
    return tensor.name == kOutput ? vocabulary.output : std::nullopt;
  }
  bool two_formats() const {
    return vocabulary.embedding.value_or(scheme.embeddings) != vocabulary.output.value_or(scheme.embeddings);
  }
};

Format format_of(const TensorInfo& tensor, const Wanted& of) {
  const QuantizeScheme& scheme = of.scheme;
  if (!is_matrix(tensor)) return tensor.format == Format::index32 ? tensor.format : Format::f32;
  if (of.kept(tensor)) return tensor.format;
  if (const std::optional<Format> chosen = of.chosen(tensor)) {
    if (tensor.columns() % chosen->block == 0) return *chosen;
    throw ConfigError(fmt::format("{}: rows of {} are no whole number of blocks of {}, which has {} (choose another format for it)",
                                  tensor.name, tensor.columns(), to_string(*chosen), chosen->block));
  }
  Format wanted = is_embedding(tensor) ? scheme.embeddings : scheme.matrices;
  if (scheme.down && is_down(tensor)) wanted = *scheme.down;
  return fitting(wanted, tensor).value_or(tensor.format);
}

// Rows of one file as floats.
class RowValues {
 public:
  explicit RowValues(const Gguf& in) : in_(in) {}
  std::span<const float> read(const TensorInfo& tensor, std::uint64_t row) {
    const Bytes stride = row_bytes(tensor.format, tensor.columns());
    bytes_.resize(stride);
    in_.read(tensor, row * stride, bytes_);
    values_.resize(tensor.columns());
    dequantise_row(tensor.format, bytes_.data(), values_.data(), values_.size());
    return values_;
  }

 private:
  const Gguf& in_;
  std::vector<std::byte> bytes_;
  std::vector<float> values_;
};

// Turns one tensor into another format, some rows at a time.
class Converter {
 public:
  Converter(const Gguf& in, const TensorInfo& tensor, const Wanted& wanted)
      : in_(in), tensor_(tensor), scheme_(wanted.scheme), target_(format_of(tensor, wanted)) {
    const bool plain = !is_matrix(tensor) || is_embedding(tensor) || (scheme_.down && is_down(tensor)) || wanted.kept(tensor);
    if (!plain) grain_ = scheme_.grain;
    if (!target_.is_group() && grain_ == ScaleGrain::ternary) grain_ = ScaleGrain::block;
  }

  void run(GgufWriter& out) {
    in_.check_blocks(tensor_);
    const bool as_it_is = tensor_.format == target_ && grain_ == ScaleGrain::block;
    const std::uint64_t matrix = tensor_.dims.size() > 1 ? tensor_.dims[1] : 1;  // an expert's rows
    const std::uint64_t most = group_rows(stored_layout(target_));
    for (std::uint64_t first = 0; first < tensor_.rows(); first += matrix) {
      if (grain_ == ScaleGrain::ternary) find_ternary_scale(first, matrix);
      for (std::uint64_t row = first; row < first + matrix; row += most) {
        const std::uint64_t count = std::min(most, first + matrix - row);
        if (as_it_is) {
          copy(row, count);
        } else {
          read(row, count);
          convert(row, count);
        }
        out.write(bytes_);
      }
    }
  }

 private:
  std::uint64_t columns() const { return tensor_.columns(); }

  void read(std::uint64_t row, std::uint64_t count) {
    const Bytes stride = row_bytes(tensor_.format, columns());
    bytes_.resize(count * stride);
    in_.read(tensor_, row * stride, bytes_);
  }

  void copy(std::uint64_t row, std::uint64_t count) {
    const Bytes stride = row_bytes(target_, columns(), stored_layout(target_));
    bytes_.resize(count * stride);
    in_.read_stored(tensor_, row * stride, bytes_);
  }

  void dequantise(std::uint64_t row, std::uint64_t count) {
    values_.resize(count * columns());
    const Bytes n = columns(), stride = bytes_.size() / count;
    for (std::uint64_t r = 0; r < count; ++r) dequantise_row(tensor_.format, &bytes_[r * stride], &values_[r * n], n);
    const Format bound = grain_ == ScaleGrain::block ? target_ : Format::f16;  // as its scales have
    if (const auto k = first_unholdable(bound, values_)) {
      throw ConfigError(fmt::format("{}: {}: row {}, element {} is {}, which {} can not hold", in_.path(), tensor_.name,
                                    row + *k / columns(), *k % columns(), values_[*k], to_string(bound)));
    }
  }

  void convert(std::uint64_t row, std::uint64_t count) {
    dequantise(row, count);
    if (grain_ == ScaleGrain::int4_channel) round_to_int4_channel(values_, scheme_.outliers);
    bytes_.resize(row_bytes(target_, values_.size(), stored_layout(target_)));
    if (stored_layout(target_) == Layout::strips) return quantise_strip(values_.data(), columns(), bytes_.data());
    if (grain_ == ScaleGrain::ternary) return quantise_ternary(target_, ternary_, values_.data(), bytes_.data(), values_.size());
    quantise_row(target_, values_.data(), bytes_.data(), values_.size());
  }

  // The mean magnitude of the matrix, as BitNet b1.58 rounds; its one magnitude where it is ternary already.
  void find_ternary_scale(std::uint64_t first, std::uint64_t rows) {
    double sum = 0;
    float largest = 0;
    bool ternary = true;
    for (std::uint64_t row = first; row < first + rows; ++row) {
      read(row, 1);
      dequantise(row, 1);
      for (const float x : values_) {
        const float magnitude = std::abs(x);
        sum += double{magnitude};
        if (magnitude == 0 || magnitude == largest) continue;
        ternary = ternary && largest == 0;
        largest = std::max(largest, magnitude);
      }
    }
    ternary_ = ternary ? largest : static_cast<float>(sum / static_cast<double>(rows * columns()));
  }

  const Gguf& in_;
  const TensorInfo& tensor_;
  const QuantizeScheme& scheme_;
  const Format target_;
  ScaleGrain grain_ = ScaleGrain::block;
  float ternary_ = 0;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::optional<std::size_t> first_unholdable(Format target, std::span<const float> values) {
  constexpr float kLargestHalf = 65504;
  float limit = std::numeric_limits<float>::max();
  if (target == Format::q8_0) limit = kLargestHalf * 127;
  if (target == Format::q4_k) limit = kLargestHalf * 63;  // its minima; scales reach further
  if (target.has_codes()) limit = largest_codable(target);
  if (target == Format::q4_0_tile || target == Format::w4_outliers) limit = largest_codable(Format::q4_0);
  if (target == Format::f16) limit = kLargestHalf;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (!(std::abs(values[k]) <= limit)) return k;
  }
  return std::nullopt;
}

Format target_format(const TensorInfo& tensor, const QuantizeScheme& scheme, const VocabularyFormats& vocabulary) {
  return format_of(tensor, {scheme, vocabulary});
}

int layer_of(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  int layer = -1;
  if (!tensor.starts_with(kPrefix)) return layer;
  const auto [end, error] = std::from_chars(tensor.data() + kPrefix.size(), tensor.data() + tensor.size(), layer);
  return error == std::errc() && end != tensor.data() + tensor.size() && *end == '.' ? layer : -1;
}

void quantize(const std::string& in_path, const std::string& out_path, std::string_view scheme_name, const QuantizeOptions& options) {
  const QuantizeScheme& scheme = quantize_scheme(scheme_name);
  const Wanted wanted{scheme, options.vocabulary, options.layers};
  const Gguf in = Gguf::open(in_path);
  std::error_code error;
  if (std::filesystem::equivalent(in_path, out_path, error)) throw ConfigError(fmt::format("{}: input and output are one file", out_path));

  GgufWriter out(out_path, in.alignment());
  const std::string architecture = in.text("general.architecture", "");
  const std::string layers = architecture + ".block_count", dense_layers = architecture + ".leading_dense_block_count";
  for (const auto& [key, value] : in.values()) {
    if (key == "general.alignment" || key == "general.file_type" || key == "general.quantization_version") continue;
    if (options.layers && key == dense_layers) {
      out.add(key, static_cast<std::uint32_t>(std::min<std::uint64_t>(in.integer(key, 0, *options.layers), *options.layers)));
      continue;
    }
    out.add(key, options.layers && key == layers ? GgufValue(*options.layers) : value);
  }
  out.add("general.quantization_version", std::uint32_t{2});
  if (scheme.file_type) out.add("general.file_type", static_cast<std::uint32_t>(*scheme.file_type));
  std::vector<TensorInfo> tensors = in.tensors();
  if (const TensorInfo* tied = in.find_tensor(kEmbedding); tied != nullptr && !in.find_tensor(kOutput) && wanted.two_formats()) {
    tensors.push_back(*tied);
    tensors.back().name = kOutput;
  }
  std::erase_if(tensors, [&](const TensorInfo& tensor) { return wanted.left_out(tensor); });
  for (const TensorInfo& tensor : tensors) out.add_tensor(tensor.name, tensor.dims, format_of(tensor, wanted));
  for (const TensorInfo& tensor : tensors) {
    const bool rounded = options.rounded != nullptr && options.rounded->contains(tensor.name);
    if (!rounded) {
      Converter(in, tensor, wanted).run(out);
      continue;
    }
    const std::vector<std::byte>& bytes = options.rounded->find(tensor.name)->second;
    VITRO_CHECK(bytes.size() == row_bytes(format_of(tensor, wanted), tensor.columns()) * tensor.rows(), "bytes of another format");
    out.write(bytes);
  }
  out.commit();
}

WeightError weight_error(const std::string& path, const std::string& reference_path) {
  const Gguf model = Gguf::open(path), reference = Gguf::open(reference_path);
  double differences = 0, squares = 0;
  Bytes packed = 0;
  std::uint64_t weights = 0;
  RowValues ours(model), theirs(reference);
  for (const TensorInfo& tensor : reference.tensors()) {
    if (!is_matrix(tensor) || is_embedding(tensor)) continue;
    const TensorInfo* same = model.find_tensor(tensor.name);
    if (same == nullptr || same->dims != tensor.dims)
      model.fail(tensor.name, fmt::format("differs in shape from the matrix in {}", reference_path));
    const Layout layout = stored_layout(same->format) == Layout::strips ? Layout::strips : Layout::tiled;
    packed += row_bytes(same->format, same->columns(), layout) * same->rows();
    weights += tensor.rows() * tensor.columns();
    for (std::uint64_t row = 0; row < tensor.rows(); ++row) {
      const std::span<const float> values = ours.read(*same, row), expected = theirs.read(tensor, row);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const double off = double{values[k]} - double{expected[k]};
        differences += off * off;
        squares += double{expected[k]} * double{expected[k]};
      }
    }
  }
  if (weights == 0) throw ConfigError(fmt::format("{}: it has no matrices to compare with", reference_path));
  return {squares == 0 ? 0 : std::sqrt(differences / squares), 8.0 * static_cast<double>(packed) / static_cast<double>(weights)};
}

}  // namespace vitro
