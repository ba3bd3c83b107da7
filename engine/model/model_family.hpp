// What families of decoder-only transformers differ in. A family is a row of a table: the engine knows none of them by name.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/ops/rope.hpp"
#include "engine/ops/route.hpp"

namespace vitro {

enum class Norm : std::uint8_t { rms, layer };           // layer: subtracts the mean, and has a bias
enum class QkNorm : std::uint8_t { none, heads, whole };  // RMS norm of q and k before they turn: each head by itself, or all together

// The FFN that every row passes beside its experts.
enum class SharedFfn : std::uint8_t {
  none,
  gated,    // one, with a gate (qwen2moe): expert_shared_feed_forward_length
  several,  // expert_shared_count of an expert's width, kept as one matrix (deepseek)
};

struct ModelFamily {
  std::string_view architecture;  // `general.architecture` (llama.cpp, gguf-py/gguf/constants.py, MODEL_ARCH_NAMES)
  std::string_view name;          // ModelConfig::family
  RopeStyle rope = RopeStyle::half_split;
  QkNorm qk_norm = QkNorm::none;
  bool sub_norms = false;
  std::string_view activation = "silu";
  Norm norm = Norm::rms;
  bool mixture = false;             // has experts always
  bool renormalise_experts = true;  // where the file does not say
  ops::Scores router = ops::Scores::softmax;
  SharedFfn shared = SharedFfn::none;
  bool leading_dense = false;  // leading_dense_block_count layers have no experts
  bool joined = false;         // q, k and v may be one matrix, and so may Gate and Up
};

std::span<const ModelFamily> model_families();

}  // namespace vitro
