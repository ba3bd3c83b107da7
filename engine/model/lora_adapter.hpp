// A LoRA adapter as the engine applies it beside its base (MNN-LLM 5.5): y += scale B (A x) for each matrix that it adapts. It owns no
// bytes: like the weights of the base, its matrices are extents of a file.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/lora_file.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct LoraMatrices {
  float scale = 1;
  Weight a, b;  // [rank, columns of the base], [rows of the base, rank]; role and layer are the base's

  std::uint32_t rank() const { return a.rows; }
};

struct LoraAdapter {
  std::string name;
  std::string file;                                       // empty: shapes alone
  std::map<std::pair<Role, int>, LoraMatrices> matrices;  // by what they adapt; not empty

  const LoraMatrices* find(Role role, int layer) const;
  Extent extent() const;  // from the first byte of all matrices to the last
  void set_file(FileId file);
  // Matrices of Gate and Up as one (ffn_gate_up) become two that share A, each with its half of B's rows.
  LoraAdapter with_halves() const;
};

// The base matrices that can be adapted beside the base: of attention, of a dense FFN, and the output matrix.
bool is_adaptable(const Weight& weight, const ModelConfig& base);

// Throws ConfigError that names file and tensor where the file adapts something else.
LoraAdapter adapter_from_file(const std::string& name, double strength, const LoraFile& file, const ModelConfig& base);

// Shapes alone, for a base of shapes alone: every layer's matrices of `roles`, one behind the other in a file that never existed.
struct LoraShape {
  std::uint32_t rank = 0;
  double alpha = 0;         // 0: scale is the strength alone
  std::vector<Role> roles;  // not empty
  Format format = Format::f16;
};
// Throws ConfigError where the base lacks a role, or a row of rank or of the base is not a whole number of the format's blocks.
LoraAdapter phantom_adapter(const std::string& name, double strength, const LoraShape& shape, const ModelConfig& base);

}  // namespace vitro
