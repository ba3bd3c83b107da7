// What a part that carries FFNs out is made from.
#pragma once
#include "engine/model/model_config.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/ffn_block.hpp"
#include "engine/parts/placement/graph_cache.hpp"
#include "engine/parts/placement/placement.hpp"

namespace vitro {

struct FfnSetup {
  Machine& machine;
  GraphCache& graphs;
  const WeightStore& weights;
  const ModelConfig& model;
  Residency& residency;
  const UnitPlacement& placement;
  VariantId matmul{};
  std::uint32_t max_rows = 1;  // of a step
  std::uint32_t prefill_chunk = 1;
  const LoraBank* adapters = nullptr;  // null: the base alone
  Format activations = Format::f32;    // or f16
  VariantId accelerator_matmul{};      // of an accelerator's matmuls, in place of `matmul`; none: the same
  VariantId prefill_matmul{};          // of steps of more rows than `decode_rows`; none: the same
  std::uint32_t decode_rows = 1;
};

}  // namespace vitro
