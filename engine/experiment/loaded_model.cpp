#include "engine/experiment/loaded_model.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "engine/base/rng.hpp"
#include "engine/kernels/variants.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kPromptStream = 0x70726f6d7074;

PackOptions pack_options(const EngineConfig& engine) {
  PackOptions options;
  // Tiles serve the int8 contract alone; the float one reads rows.
  if (!engine.repack || engine.matmul != variant::kInt8) options.tiled.clear();
  options.bundles = engine.bundles;
  return options;
}

// A pack made by hand brings its layout along: is it one that this engine can run?
void check_layout(const PackedModel& packed, const EngineConfig& engine) {
  const auto refuse = [&](std::string_view holds, std::string_view expected) {
    throw ConfigError(fmt::format("model.pack: {} holds {} (expected {})", packed.path, holds, expected));
  };
  std::optional<BundleForm> found;
  for (const Weight& weight : packed.weights) {
    if (weight.role == Role::ffn_bundle) found = weight.form;
    if (weight.layout == Layout::tiled && engine.matmul != variant::kInt8) {
      refuse("tiled matrices", "engine.activations: int8, or a pack with layout rows");
    }
  }
  if (!engine.bundles || found == engine.bundles) return;
  const std::string expected = fmt::format("layout {}", to_string(*engine.bundles));
  if (!found) refuse("no neuron bundles", expected);
  if (lies_apart(*found) == engine.clusters.bundle) {
    refuse(lies_apart(*found) ? "neurons whose matrices lie apart" : "neurons whose matrices lie side by side",
           fmt::format("engine.clusters.bundle: {}", !lies_apart(*found)));
  }
  if (engine.bundles != BundleForm::automatic) refuse(fmt::format("an FFN in layout {}", to_string(*found)), expected);
}

}  // namespace

WeightStore LoadedModel::open(Storage& storage) const {
  if (packed) return packed->store(storage.open(packed->path).value_or_throw());
  const WeightStore shape = phantom_weights(config, phantom_format, FileId{}, phantom_bundles);
  const Weight& last = shape.all().back();
  const Bytes size = round_up(last.extent.offset + last.extent.length, kPageSize);
  return phantom_weights(config, phantom_format, storage.open_phantom(size).value_or_throw(), phantom_bundles);
}

Format matrix_format(Reader& model) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kFormatCount; ++i) {
    if (can_quantise(static_cast<Format>(i))) names.emplace_back(to_string(static_cast<Format>(i)));
  }
  return *format_by_name(model.choice("format", names, "q4_0"));
}

LoadedModel load_model(const ModelSource& source, const EngineConfig& engine, const std::string& cache_dir) {
  LoadedModel model;
  if (source.shape) {
    Reader reader(*source.shape, "model");
    model.phantom_format = matrix_format(reader);
    for (const char* key : {"description", "profile", "provenance"}) reader.ignore(key);
    Reader shape = reader.child("shape");
    model.config = config_from_node(shape);
    model.name = model.config.name;
    model.phantom_bundles = engine.bundles;
    reader.finish();
    return model;
  }
  const Gguf gguf = Gguf::open(source.gguf);
  model.name = std::filesystem::path(source.gguf).stem().string();
  model.tokenizer = Tokenizer::from_gguf(gguf);
  if (source.pack.empty()) {
    model.packed = pack(gguf, pack_options(engine), cache_dir);
  } else {
    model.packed = open_packed(source.pack, gguf, cache_dir);
    check_layout(*model.packed, engine);
  }
  model.config = model.packed->config;
  return model;
}

std::vector<std::int32_t> prompt_tokens(const LoadedModel& model, const Workload& workload) {
  std::vector<std::int32_t> ids;
  if (workload.prompt) {
    if (!model.tokenizer) throw ConfigError("workload.prompt: a model without weights has no tokenizer (expected workload.prompt_tokens)");
    if (model.tokenizer->add_bos() && model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
    const std::vector<std::int32_t> text = model.tokenizer->encode(*workload.prompt);
    ids.insert(ids.end(), text.begin(), text.end());
    if (ids.empty()) throw ConfigError("workload.prompt: is empty, and the model has no BOS token to start from");
  } else {
    for (std::uint32_t i = 0; i < workload.prompt_tokens; ++i) {
      ids.push_back(static_cast<std::int32_t>(mix(workload.seed, {kPromptStream, i}) % model.config.vocab));
    }
  }
  const std::uint64_t longest = ids.size() + workload.output_tokens;
  if (model.config.context > 0 && longest > model.config.context) {
    throw ConfigError(fmt::format("workload: {} prompt tokens and {} output tokens exceed the model's context of {}", ids.size(),
                                  workload.output_tokens, model.config.context));
  }
  return ids;
}

}  // namespace vitro
