#include "engine/model/lora_adapter.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

Weight matrix_of(const Weight& base, std::string_view suffix, std::uint64_t rows, std::uint64_t columns, Format format, Extent extent) {
  Weight matrix;
  matrix.name = base.name + std::string(suffix);
  matrix.role = base.role;
  matrix.layer = base.layer;
  matrix.rows = static_cast<std::uint32_t>(rows);
  matrix.columns = static_cast<std::uint32_t>(columns);
  matrix.format = format;
  matrix.extent = extent;
  return matrix;
}

}  // namespace

const LoraMatrices* LoraAdapter::find(Role role, int layer) const {
  const auto found = matrices.find({role, layer});
  return found == matrices.end() ? nullptr : &found->second;
}

Extent LoraAdapter::extent() const {
  Bytes begin = ~Bytes{0}, end = 0;
  for (const auto& [key, pair] : matrices) {
    for (const Weight* matrix : {&pair.a, &pair.b}) {
      begin = std::min(begin, matrix->extent.offset);
      end = std::max(end, matrix->extent.offset + matrix->extent.length);
    }
  }
  return {matrices.begin()->second.a.extent.file, begin, end - begin};
}

void LoraAdapter::set_file(FileId file) {
  for (auto& [key, pair] : matrices) pair.a.extent.file = pair.b.extent.file = file;
}

LoraAdapter LoraAdapter::with_halves() const {
  LoraAdapter halves{name, file, {}};
  for (const auto& [key, pair] : matrices) {
    if (key.first != Role::ffn_gate_up) {
      halves.matrices[key] = pair;
      continue;
    }
    for (const Role role : {Role::ffn_gate, Role::ffn_up}) {
      LoraMatrices& half = halves.matrices[{role, key.second}] = pair;
      half.a.role = half.b.role = role;
      half.b.rows /= 2;
      half.b.extent.length /= 2;
      if (role == Role::ffn_up) half.b.extent.offset += half.b.extent.length;
    }
  }
  return halves;
}

bool is_adaptable(const Weight& weight, const ModelConfig& base) {
  constexpr Role kAdaptable[] = {Role::attn_q, Role::attn_k,   Role::attn_v,      Role::attn_qkv, Role::attn_output,
                                 Role::ffn_gate, Role::ffn_up, Role::ffn_gate_up, Role::ffn_down, Role::output};
  return (base.experts == 0 || !is_ffn(weight.role)) && std::ranges::find(kAdaptable, weight.role) != std::end(kAdaptable);
}

LoraAdapter adapter_from_file(const std::string& name, double strength, const LoraFile& file, const ModelConfig& base) {
  const std::vector<Weight> weights = weights_of(base);
  LoraAdapter adapter{name, file.gguf().path(), {}};
  for (const LoraPair& pair : file.pairs()) {
    const auto weight = std::ranges::find(weights, pair.target, &Weight::name);
    if (weight == weights.end() || !is_adaptable(*weight, base)) {
      file.gguf().fail(pair.a->name,
                       fmt::format("{} can not be adapted while the base runs (expected a merged model: vitro merge)", pair.target));
    }
    const auto matrix = [&](const TensorInfo& tensor, std::string_view suffix) {
      if (stored_layout(tensor.format) != Layout::rows) {
        file.gguf().fail(tensor.name, fmt::format("is in {}, whose rows do not lie one by one (expected f16 or another format of rows)",
                                                  to_string(tensor.format)));
      }
      file.gguf().check_blocks(tensor);
      return matrix_of(*weight, suffix, tensor.rows(), tensor.columns(), tensor.format, {FileId{}, tensor.offset, tensor.size});
    };
    adapter.matrices[{weight->role, weight->layer}] = {file.scale(pair, strength), matrix(*pair.a, ".lora_a"), matrix(*pair.b, ".lora_b")};
  }
  return adapter;
}

LoraAdapter phantom_adapter(const std::string& name, double strength, const LoraShape& shape, const ModelConfig& base) {
  const std::vector<Weight> weights = weights_of(base);
  LoraAdapter adapter{name, {}, {}};
  const float scale = static_cast<float>(shape.alpha == 0 ? strength : strength * shape.alpha / shape.rank);
  Bytes next = 0;
  const auto matrix = [&](const Weight& weight, std::string_view suffix, std::uint32_t rows, std::uint32_t columns) {
    if (columns % block_elements(shape.format) != 0) {
      throw ConfigError(fmt::format("engine.lora: adapter {}: rows of {} elements of {}{} are not whole blocks of {} (expected f16 or f32)",
                                    name, columns, weight.name, suffix, to_string(shape.format)));
    }
    const Extent extent{FileId{}, next, rows * row_bytes(shape.format, columns)};
    next += extent.length;
    return matrix_of(weight, suffix, rows, columns, shape.format, extent);
  };
  for (const Role role : shape.roles) {
    const auto has_role = [&](const Weight& weight) { return weight.role == role && is_adaptable(weight, base); };
    if (std::ranges::none_of(weights, has_role)) {
      throw ConfigError(fmt::format("engine.lora: adapter {}: the model has no {} that can be adapted", name, to_string(role)));
    }
    for (const Weight& weight : weights) {
      if (!has_role(weight)) continue;
      LoraMatrices& pair = adapter.matrices[{role, weight.layer}];
      pair.scale = scale;
      pair.a = matrix(weight, ".lora_a", shape.rank, weight.columns);
      pair.b = matrix(weight, ".lora_b", weight.rows, shape.rank);
    }
  }
  return adapter;
}

}  // namespace vitro
