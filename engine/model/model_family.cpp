#include "engine/model/model_family.hpp"

#include <array>

namespace vitro {

std::span<const ModelFamily> model_families() {
  // Llama's and DeepSeek's converters permute q and k, so that the rotation is interleaved. The first BitNets had silu; those that
  // llama.cpp's forks call 25 and b1.58 (BitNet b1.58 2B4T) square a relu. Whether weights of experts are renormalised is norm_topk_prob of
  // the published configurations (Qwen1.5-MoE, Qwen2-57B-A14B, OLMoE and DeepSeekMoE: no; Qwen3: yes).
  static constexpr std::array<ModelFamily, 12> kFamilies{{
      {.architecture = "llama", .name = "llama", .rope = RopeStyle::interleaved},
      {.architecture = "qwen2", .name = "qwen2"},
      {.architecture = "qwen3", .name = "qwen3", .qk_norm = QkNorm::heads},
      {.architecture = "bitnet", .name = "bitnet", .sub_norms = true},
      {.architecture = "bitnet-25", .name = "bitnet", .sub_norms = true, .activation = "relu_squared"},
      {.architecture = "bitnet-b1.58", .name = "bitnet", .sub_norms = true, .activation = "relu_squared"},
      {.architecture = "qwen2moe", .name = "qwen2moe", .mixture = true, .renormalise_experts = false, .shared = SharedFfn::gated},
      {.architecture = "qwen3moe", .name = "qwen3moe", .qk_norm = QkNorm::heads, .mixture = true},
      {.architecture = "olmoe", .name = "olmoe", .qk_norm = QkNorm::whole, .mixture = true, .renormalise_experts = false},
      {.architecture = "phi3", .name = "phi3", .joined = true},
      {.architecture = "phimoe",
       .name = "phimoe",
       .norm = Norm::layer,
       .mixture = true,
       .renormalise_experts = false,
       .router = ops::Scores::sparse_mixer},
      {.architecture = "deepseek",
       .name = "deepseek",
       .rope = RopeStyle::interleaved,
       .mixture = true,
       .renormalise_experts = false,
       .shared = SharedFfn::several,
       .leading_dense = true},
  }};
  return kFamilies;
}

}  // namespace vitro
