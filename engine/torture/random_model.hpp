// Small models with random weights and shapes, as GGUF files: what a torture run decodes with.
#pragma once
#include <cstdint>
#include <string>

#include "engine/tensor/format.hpp"

namespace vitro {

struct RandomModel {
  bool mixture = false;
  std::uint64_t seed = 1;  // of shapes, family and weights
  std::uint32_t layers = 2;
  Format matrices = Format::f16;
  bool value_head = false;  // beside its output matrix: as a reward model it answers with a number
  // Of a family whose FFNs are not all alike: one with a norm over all neurons before Down, or a mixture whose first layer is dense, which
  // has two layers or more.
  bool other = false;
  friend bool operator==(const RandomModel&, const RandomModel&) = default;
};

// A vocabulary of bytes and a few letters, rows of whole groups of every weight format. One seed, one file.
// Throws RunError when it can not be written.
void write_random_model(const RandomModel& model, const std::string& path);

}  // namespace vitro
