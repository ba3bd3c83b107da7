// What a session needs of a model, whether it has weights or only shapes.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/app/experiment.hpp"
#include "engine/machine/storage.hpp"
#include "engine/model/lora_adapter.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/tokenizer.hpp"
#include "engine/model/weights.hpp"
#include "engine/transformer/saved_sequence.hpp"

namespace vitro {

struct LoadedModel {
  std::string name;
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;    // null: a shape-only model
  std::optional<PackedModel> packed;       // none: a shape-only model
  std::optional<PackedModel> int8_copy;    // of the layers' products, where the placement wants one
  Format phantom_format = Format::q4_0;    // of a shape-only model's matrices
  std::map<Role, Format> phantom_formats;  // of those that differ
  std::optional<BundleForm> phantom_bundles;
  std::vector<LoraAdapter> adapters;      // of engine.lora
  Layout phantom_layout = Layout::tiled;  // of matrices that have it
  std::vector<std::string> notes;         // for who reads the result

  // Weights that a token reads; of experts those that are chosen.
  Bytes bytes_per_token() const;
  // Weights that never existed, in `file`. Requires: a shape-only model.
  WeightStore shapes(FileId file) const;
  // Opens the model's file on the machine's storage: the packed one, or one that never existed.
  WeightStore open(Storage& storage) const;
  // The adapters over one base, with their files open.
  std::vector<LoraAdapter> open_adapters(Storage& storage) const;
  // The layers' products once more in 8 bits (llm.npu keeps both). Requires: the engine that the model was loaded for wants them.
  WeightStore open_int8_copy(Storage& storage) const;
};

// The key `format` of a model without weights: of its matrices, any format of weights. Default: q4_0.
Format matrix_format(Reader& model);

// Throws ConfigError also when `source.pack` was made from another model, is damaged, or has another layout than the engine
// asks for.
LoadedModel load_model(const ModelSource& source, const EngineConfig& engine, const std::string& cache_dir);

// Token ids of a request's prompt, BOS included where the model wants it; drawn ones for a prompt given as a count. After a saved sequence
// (null: none) its last token takes the place of BOS; after a kept one nothing does, and there may be none.
std::vector<std::int32_t> prompt_tokens(const LoadedModel& model, const Workload& workload, const Request& request,
                                        const SavedSequence* before = nullptr);

}  // namespace vitro
