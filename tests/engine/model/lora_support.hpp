// Small made-up adapters of a SmallModel.
#pragma once
#include <cmath>

#include "tests/engine/model/support.hpp"

namespace vitro {

struct AdapterTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // contiguous dimension first
  Format format = Format::f32;
};

// Two pairs of rank 4: of an attention matrix of the first layer, and of Down of the second.
struct SmallAdapter {
  std::vector<std::pair<std::string, GgufValue>> values{{"general.architecture", std::string("llama")},
                                                        {"general.type", std::string("adapter")},
                                                        {"adapter.type", std::string("lora")},
                                                        {"adapter.lora.alpha", 8.0f}};
  std::vector<AdapterTensor> tensors{{"blk.0.attn_q.weight.lora_a", {64, 4}},
                                     {"blk.0.attn_q.weight.lora_b", {4, 64}},
                                     {"blk.1.ffn_down.weight.lora_a", {96, 4}, Format::f16},
                                     {"blk.1.ffn_down.weight.lora_b", {4, 64}, Format::f16}};
  std::uint64_t seed = 3;

  void set(const std::string& key, GgufValue value) {
    std::erase_if(values, [&](const auto& entry) { return entry.first == key; });
    values.emplace_back(key, std::move(value));
  }

  void write(const std::string& path) const {
    GgufWriter out(path);
    for (const auto& [key, value] : values) out.add(key, value);
    for (const AdapterTensor& tensor : tensors) out.add_tensor(tensor.name, tensor.dims, tensor.format);
    Rng rng(seed);
    for (const AdapterTensor& tensor : tensors) {
      std::size_t elements = 1;
      for (const std::uint64_t d : tensor.dims) elements *= d;
      std::vector<float> floats(elements);
      for (float& x : floats) x = 0.25f * static_cast<float>(rng.normal());
      const std::size_t columns = tensor.dims[0], row = row_bytes(tensor.format, columns);
      std::vector<std::byte> bytes(elements / columns * row);
      for (std::size_t r = 0; r < elements / columns; ++r) {
        quantise_row(tensor.format, floats.data() + r * columns, bytes.data() + r * row, columns);
      }
      out.write(bytes);
    }
    out.commit();
  }
};

inline std::vector<float> floats_of(const Gguf& gguf, const std::string& name) {
  const TensorInfo& tensor = *gguf.find_tensor(name);
  std::vector<std::byte> bytes(tensor.size);
  gguf.read(tensor, 0, bytes);
  std::vector<float> values(tensor.rows() * tensor.columns());
  dequantise_row(tensor.format, bytes.data(), values.data(), values.size());
  return values;
}

}  // namespace vitro
