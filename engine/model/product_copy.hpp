// The layers' products once more, in another format: what an engine keeps twice whose processors want the weights in two forms (llm.npu).
#pragma once
#include "engine/model/gguf.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// Of weights_of(config) the matrices of layers that are multiplied with activations, but for routers and predictors.
std::vector<Weight> products_of(const ModelConfig& config);

// Writes the rows of `source` quantised anew to the weight's format, row by row.
void write_anew(const Gguf& gguf, const TensorInfo& source, const Weight& weight, SectionWriter& out);

}  // namespace vitro
