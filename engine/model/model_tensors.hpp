// What the tensors of a GGUF file say of its model, beside the keys.
#pragma once
#include <string>

#include "engine/model/gguf.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/model_family.hpp"

namespace vitro {

// What llama.cpp calls rank pooling: the answer is what the head makes of the last token's hidden state. prefix: of the file's keys.
void read_value_head(const Gguf& gguf, const std::string& prefix, ModelConfig& c);
// Converters of Phi-3 leave matrices joined that its layers compute together; Gate and Up then have Up's name.
void read_joined(const Gguf& gguf, const ModelFamily& family, ModelConfig& c);
// Throws ConfigError for a tensor that is missing, or has another shape than the model's, or that no such model has.
void check_tensors(const Gguf& gguf, const ModelConfig& config);

}  // namespace vitro
