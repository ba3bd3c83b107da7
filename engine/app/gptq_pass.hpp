// Quantises a model by GPTQ (engine/quant/gptq.hpp) with what its own forward pass over a text gives its matrices:
// `vitro quantize --method gptq --calibration TEXT`.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/app/machines.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/gptq.hpp"

namespace vitro {

struct GptqPass {
  std::string source, target;  // GGUF files
  std::string scheme;          // of quantize_schemes(): one whose matrices have codes with scales of blocks or rows
  VocabularyFormats vocabulary;
  std::string text_path;  // the calibration text, for messages
  GptqOptions options;
  std::string scratch;  // an empty folder: the first layers as they are so far, and their pack
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // layers; may be empty
};

struct GptqPassReport {
  std::uint64_t tokens = 0;    // of the text
  std::uint32_t window = 0;    // positions of the sequences that it was cut into
  std::uint32_t matrices = 0;  // rounded by GPTQ, each expert's by itself
};

// Names of the schemes that GPTQ can round to.
std::vector<std::string> gptq_schemes();

// Layer by layer: the first layers, all but the last already as they will be written, compute the whole text in float32 on one thread of
// the host; the moments of what the last one's matrices are given round these. So each layer makes up for what earlier ones lost, too.
// All matrices of a layer see the inputs of the unrounded layer (as the paper's code does by default). An expert sees the tokens that chose
// it. Vectors, routers, the vocabulary's matrices and what has no codes under the scheme are written as quantize() writes them.
// The text is cut into sequences of the model's context, of 2,048 positions at most, each after BOS where the model has one.
// The result is a function of source, text and options alone. Memory: the result's layers, K x K doubles for each input
// of one layer, and twice that for one of them at a time.
// Throws ConfigError before anything is computed for a scheme without codes, a text with fewer tokens than the widest matrix has inputs
// (below that the moments have no full rank whatever the text), and a model with predictors or thresholds of its layers, which belong to
// its unrounded weights; later for moments that are singular and values that are not finite. Nothing is at `target` then.
GptqPassReport quantize_by_gptq(const GptqPass& pass, const std::string& text, const MachineFactory& machines);

}  // namespace vitro
