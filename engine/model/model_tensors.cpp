#include "engine/model/model_tensors.hpp"

#include <fmt/format.h>

#include <set>

#include "engine/model/weights.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

std::string shape_text(std::span<const std::uint64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

// Whether a file's tensor has the shape that is asked for. A dimension of 1 behind the others says nothing: converters differ in it.
bool same_shape(std::vector<std::uint64_t> found, const std::vector<std::uint64_t>& wanted) {
  while (found.size() > wanted.size() && found.back() == 1) found.pop_back();
  return found == wanted;
}

}  // namespace

void read_value_head(const Gguf& gguf, const std::string& prefix, ModelConfig& c) {
  constexpr std::uint64_t kRank = 4, kMaxPooling = 255;
  const std::string head = tensor_name(Role::value_head, -1, false), bias = tensor_name(Role::value_bias, -1, false);
  c.value_head = gguf.find_tensor(head) != nullptr;
  c.value_bias = gguf.find_tensor(bias) != nullptr;
  const std::string key = prefix + "pooling_type";
  const std::uint64_t pooling = gguf.integer(key, 0, kMaxPooling, c.value_head ? kRank : 0);
  if (pooling == kRank && !c.value_head) gguf.fail(head, fmt::format("the tensor is missing, but {} is 4 (rank)", key));
  if (c.value_head && pooling != kRank) gguf.fail(key, fmt::format("is {}, but there is a {} (expected 4, rank)", pooling, head));
  if (c.value_bias && !c.value_head) gguf.fail(head, fmt::format("the tensor is missing, but there is a {}", bias));
}

void read_joined(const Gguf& gguf, const ModelFamily& family, ModelConfig& c) {
  if (!family.joined) return;
  c.joined_qkv = gguf.find_tensor("blk.0.attn_qkv.weight") != nullptr;
  const TensorInfo *gate = gguf.find_tensor("blk.0.ffn_gate.weight"), *up = gguf.find_tensor("blk.0.ffn_up.weight");
  c.joined_gate_up = gate == nullptr && up != nullptr && up->rows() == std::uint64_t{2} * c.ffn;
}

void check_tensors(const Gguf& gguf, const ModelConfig& config) {
  std::set<std::string, std::less<>> expected;
  for (const Weight& weight : weights_of(config)) {
    const TensorInfo* tensor = gguf.find_tensor(weight.name);
    const TensorInfo* by_neuron = weight.role == Role::ffn_down ? gguf.find_tensor(down_by_neuron_name(weight.layer)) : nullptr;
    const bool transposed = tensor == nullptr && by_neuron != nullptr;
    if (transposed) tensor = by_neuron;
    expected.insert(transposed ? by_neuron->name : weight.name);
    std::vector<std::uint64_t> dims{transposed ? weight.rows : weight.columns};
    if (!is_vector(weight.role)) dims.push_back(transposed ? weight.columns : weight.rows);
    if (weight.experts > 1) dims.push_back(weight.experts);
    if (tensor == nullptr) gguf.fail(weight.name, fmt::format("the tensor is missing (expected it with shape {})", shape_text(dims)));
    if (!same_shape(tensor->dims, dims)) {
      gguf.fail(weight.name, fmt::format("the tensor has shape {} (expected {})", shape_text(tensor->dims), shape_text(dims)));
    }
    if (is_vector(weight.role) && block_elements(tensor->format) != 1) {
      gguf.fail(weight.name, fmt::format("a vector in format {} (expected f32, f16 or bf16)", to_string(tensor->format)));
    }
  }
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (!expected.contains(tensor.name)) gguf.fail(tensor.name, "a model of this family has no such tensor");
  }
}

}  // namespace vitro
