#include "engine/model/lora_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/model/gguf_writer.hpp"
#include "engine/model/input_order.hpp"
#include "engine/model/lora_file.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr Bytes kCopyChunk = MiB;

std::vector<float> rows_of(const Gguf& gguf, const TensorInfo& tensor, std::uint64_t first, std::uint64_t count) {
  const Bytes stride = row_bytes(tensor.format, tensor.columns());
  std::vector<std::byte> bytes(count * stride);
  gguf.read(tensor, first * stride, bytes);
  std::vector<float> values(count * tensor.columns());
  dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
  return values;
}

void copy(const Gguf& in, const TensorInfo& tensor, GgufWriter& out) {
  std::vector<std::byte> chunk;
  for (Bytes at = 0; at < tensor.size; at += chunk.size()) {
    chunk.resize(std::min(kCopyChunk, tensor.size - at));
    in.read_stored(tensor, at, chunk);
    out.write(chunk);
  }
}

// A row of W with its part of B A on top. `order`: which column of A each of W's is; empty: its own.
std::vector<float> merged_row(std::vector<float> w, std::span<const float> b, std::span<const float> a, float scale,
                              std::span<const std::uint32_t> order) {
  for (std::size_t k = 0; k < w.size(); ++k) {
    const std::size_t column = order.empty() ? k : order[k];
    double sum = 0;
    for (std::size_t r = 0; r < b.size(); ++r) sum += double{b[r]} * double{a[r * w.size() + column]};
    w[k] = static_cast<float>(double{w[k]} + double{scale} * sum);
  }
  return w;
}

void write_merged(const Gguf& base, const TensorInfo& tensor, const LoraFile& lora, const LoraPair& pair, double strength, Format target,
                  GgufWriter& out) {
  base.check_blocks(tensor);
  const std::uint64_t matrix = tensor.dims[1], rank = pair.rank();
  const std::vector<std::uint32_t> order = read_input_order(base, tensor.name);
  std::vector<std::byte> bytes(row_bytes(target, tensor.columns()));
  for (std::uint64_t expert = 0; expert < tensor.rows() / matrix; ++expert) {
    const std::vector<float> a = rows_of(lora.gguf(), *pair.a, expert * rank, rank);
    for (std::uint64_t row = expert * matrix; row < (expert + 1) * matrix; ++row) {
      const std::vector<float> b = rows_of(lora.gguf(), *pair.b, row, 1);
      const std::vector<float> merged = merged_row(rows_of(base, tensor, row, 1), b, a, lora.scale(pair, strength), order);
      if (const auto k = first_unholdable(target, merged)) {
        throw ConfigError(fmt::format("{}: {}: merged with {}, row {}, element {} is {}, which {} can not hold", lora.gguf().path(),
                                      pair.target, base.path(), row, *k, merged[*k], to_string(target)));
      }
      quantise_row(target, merged.data(), bytes.data(), merged.size());
      out.write(bytes);
    }
  }
}

// Of a tensor that is merged. Throws ConfigError when it can not be made.
Format target_of(const LoraMerge& merge, const Gguf& base, const TensorInfo& tensor) {
  Format target = tensor.format;
  if (merge.format && tensor.columns() % block_elements(*merge.format) == 0) target = *merge.format;
  if (can_quantise(target)) return target;
  throw ConfigError(
      fmt::format("{}: {}: {} can be read and not be made (expected --format, such as q8_0)", base.path(), tensor.name, to_string(target)));
}

}  // namespace

void merge_lora(const LoraMerge& merge) {
  const Gguf base = Gguf::open(merge.base);
  const LoraFile lora = LoraFile::open(merge.adapter, base);
  std::error_code error;
  for (const std::string& in : {merge.base, merge.adapter}) {
    if (std::filesystem::equivalent(in, merge.out, error)) throw ConfigError(fmt::format("{}: input and output are one file", merge.out));
  }
  const auto pair_of = [&](const TensorInfo& tensor) { return std::ranges::find(lora.pairs(), tensor.name, &LoraPair::target); };
  GgufWriter out(merge.out, base.alignment());
  for (const auto& [key, value] : base.values()) {
    if (key != "general.alignment") out.add(key, value);
  }
  for (const TensorInfo& tensor : base.tensors()) {
    const bool merged = pair_of(tensor) != lora.pairs().end();
    out.add_tensor(tensor.name, tensor.dims, merged ? target_of(merge, base, tensor) : tensor.format);
  }
  for (const TensorInfo& tensor : base.tensors()) {
    if (const auto pair = pair_of(tensor); pair == lora.pairs().end()) {
      copy(base, tensor, out);
    } else {
      write_merged(base, tensor, lora, *pair, merge.strength, target_of(merge, base, tensor), out);
    }
  }
  out.commit();
}

}  // namespace vitro
