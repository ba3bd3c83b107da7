// Models whose matrices have columns in an order of their own, made of models that have not.
#pragma once
#include <map>
#include <numeric>

#include "engine/model/input_order.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {

using Orders = std::map<std::string, std::vector<std::uint32_t>>;  // by matrix: which input each column multiplies

inline std::vector<std::uint32_t> random_order(std::uint32_t n, std::uint64_t seed) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng(seed);
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// Requires: those matrices are in f32.
inline void write_reordered(const std::string& in_path, const std::string& out_path, const Orders& orders) {
  const Gguf in = Gguf::open(in_path);
  GgufWriter out(out_path);
  for (const auto& [key, value] : in.values()) out.add(key, value);
  for (const TensorInfo& tensor : in.tensors()) out.add_tensor(tensor.name, tensor.dims, tensor.format);
  for (const auto& [matrix, order] : orders) out.add_tensor(order_name(matrix), {order.size()}, Format::index32);
  for (const TensorInfo& tensor : in.tensors()) {
    std::vector<std::byte> bytes(tensor.size);
    in.read(tensor, 0, bytes);
    if (const auto order = orders.find(tensor.name); order != orders.end()) {
      const std::size_t n = tensor.columns();
      std::vector<float> values(n * tensor.rows()), moved(values.size());
      std::memcpy(values.data(), bytes.data(), bytes.size());
      for (std::size_t i = 0; i < values.size(); ++i) moved[i] = values[i / n * n + order->second[i % n] % n];  // a damaged order, too
      std::memcpy(bytes.data(), moved.data(), bytes.size());
    }
    out.write(bytes);
  }
  for (const auto& [matrix, order] : orders) out.write(std::as_bytes(std::span(order)));
  out.commit();
}

}  // namespace vitro
