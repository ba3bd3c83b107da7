// A model of two small layers, whose operator graph a test can count.
#pragma once
#include "engine/model/model_config.hpp"

namespace vitro::test {

inline ModelConfig small_model() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 2, c.width = 64, c.heads = 4, c.kv_heads = 2, c.head_dim = 16, c.ffn = 96, c.vocab = 128, c.context = 64;
  c.rope.dims = 16;
  return c;
}

}  // namespace vitro::test
