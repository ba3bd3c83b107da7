// What units answer is held against the model before it is used: a driver or a worker that answers with experts or tokens that there are
// not is a failure of the step, not an index.
#pragma once
#include <vector>

#include "engine/model/model_config.hpp"
#include "engine/ops/outcome.hpp"

namespace vitro {

// Each row has `used` different experts below `experts`, and as many finite weights. Throws RunError.
void check_choices(const std::vector<ExpertChoice>& choices, std::size_t rows, const ModelConfig& config, int layer);
// One token of the vocabulary for each of `rows`. Throws RunError.
void check_tokens(const TokenChoice& choice, std::size_t rows, const ModelConfig& config);

}  // namespace vitro
