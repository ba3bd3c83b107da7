#include "engine/app/loaded_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/base/rng.hpp"
#include "engine/kernels/code_methods.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/register_parts.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/group_formats.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

constexpr std::uint64_t kPromptStream = 0x70726f6d7074;

// Of matrices that can lie for look-ups and for dot products: the one that this engine wants. Accelerators lay rows out themselves.
Layout layout_for(const EngineConfig& engine, Format format) {
  if (engine.products.matmul == variant::kInt8Tables) return Layout::lut;
  if (engine.products.codes == CodeMatmul::automatic) {
    const bool cores = engine.placement.unit.empty() && std::ranges::all_of(engine.placement.units, is_core_name);
    const std::string& simulated = engine.products.simulated_set;
    const std::string& set = simulated.empty() ? engine.products.isa : simulated;
    return format.is_group() && cores && looks_up_faster(set, format.bits) ? Layout::lut : Layout::tiled;
  }
  return engine.products.codes == CodeMatmul::look_up ? Layout::lut : Layout::tiled;
}

PackOptions pack_options(const EngineConfig& engine) {
  PackOptions options;
  // Tiles serve the int8 contract alone, look-ups that and its form with rounded tables; the float one reads rows.
  if (!engine.weights.repack || engine.products.matmul != variant::kInt8) options.tiled.clear();
  if (engine.weights.repack && (engine.products.matmul == variant::kInt8 || engine.products.matmul == variant::kInt8Tables)) {
    options.lut = formats_with(Layout::lut);
    std::erase_if(options.lut, [&](Format format) { return layout_for(engine, format) != Layout::lut; });
  }
  options.bundles = engine.weights.bundles;
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
    const bool looks_up = weight.layout == Layout::lut && engine.products.matmul == variant::kInt8Tables;
    if (weight.layout != stored_layout(weight.format) && engine.products.matmul != variant::kInt8 && !looks_up) {
      refuse("tiled matrices", "engine.products.numerics: int8, or a pack with layout rows");
    }
    if (weight.layout == Layout::lut && engine.products.codes == CodeMatmul::dot) {
      refuse("matrices laid out for table look-up", "engine.products.codes other than dot, or a pack with layout tiled");
    }
    if (weight.layout == Layout::tiled && can_lay(Layout::lut, weight.format, weight.rows) &&
        engine.products.codes == CodeMatmul::look_up) {
      refuse("matrices for dot products", "engine.products.codes: dot, or a pack with layout lut");
    }
  }
  if (!engine.weights.bundles || found == engine.weights.bundles) return;
  const std::string expected = fmt::format("layout {}", to_string(*engine.weights.bundles));
  if (!found) refuse("no neuron bundles", expected);
  if (lies_apart(*found) == engine.weights.neurons.bundle) {
    refuse(lies_apart(*found) ? "neurons whose Gate, Up and Down lie apart" : "neurons whose Gate, Up and Down lie side by side",
           fmt::format("engine.weights.bundle: {}", !lies_apart(*found)));
  }
  if (engine.weights.bundles != BundleForm::automatic) refuse(fmt::format("an FFN in layout {}", to_string(*found)), expected);
}

Bytes file_size(const WeightStore& weights) {
  const Weight& last = weights.all().back();
  return round_up(last.extent.offset + last.extent.length, kPageSize);
}

Format read_format(Reader& reader, std::string_view key, std::string_view otherwise) {
  const std::string name = reader.text(key, otherwise);
  const std::optional<Format> format = format_by_name(name);
  if (!format || !format->is_for_weights()) {
    reader.fail(key, fmt::format("\"{}\" is not a weight format (expected one of: {})", name, weight_format_names()));
  }
  return *format;
}

// `formats:` of a model without weights: matrices by their role; `head` is the output matrix, or the embedding that serves as one.
std::map<Role, Format> read_formats(Reader reader, const ModelConfig& config) {
  std::map<Role, Format> formats;
  for (std::size_t r = 0; r < kRoles; ++r) {
    const auto role = static_cast<Role>(r);
    if (!is_vector(role) && reader.has(to_string(role))) formats[role] = read_format(reader, to_string(role), "");
  }
  if (reader.has("head")) formats[config.tied_embedding ? Role::token_embedding : Role::output] = read_format(reader, "head", "");
  reader.finish();
  return formats;
}

// engine.kernels: lut_w2 and its like promise that something of this width is looked up.
void check_look_ups(const std::vector<Weight>& weights, const EngineConfig& engine) {
  if (engine.products.code_bits == 0) return;
  std::set<std::string_view> formats;
  for (const Weight& weight : weights) {
    if (weight.layout == Layout::lut && weight.format.bits == engine.products.code_bits) return;
    if (!is_vector(weight.role)) formats.insert(to_string(weight.format));
  }
  throw ConfigError(fmt::format(
      "engine.products.code_bits: {}: the model has no {}-bit matrix whose rows are a multiple of {} (expected no code_bits, or a "
      "model of such a format; this model has {})",
      engine.products.code_bits, engine.products.code_bits, kTileRows, fmt::join(formats, ", ")));
}

std::vector<LoraAdapter> phantom_adapters(const LoraConfig& lora, const ModelConfig& config) {
  std::vector<LoraAdapter> adapters;
  for (const AdapterConfig& adapter : lora.adapters) {
    if (!adapter.shape) {
      throw ConfigError(
          fmt::format("engine.lora: adapter {} is a file, but the model has shapes alone (expected rank and matrices)", adapter.name));
    }
    adapters.push_back(phantom_adapter(adapter.name, adapter.strength, *adapter.shape, config));
  }
  return adapters;
}

// notes: grows by what speaks against an adapter.
std::vector<LoraAdapter> adapters_from_files(const LoraConfig& lora, const Gguf& base, const ModelConfig& config,
                                             std::vector<std::string>* notes) {
  std::vector<LoraAdapter> adapters;
  for (const AdapterConfig& adapter : lora.adapters) {
    if (adapter.file.empty()) {
      throw ConfigError(fmt::format("engine.lora: adapter {} has shapes alone, but the model has weights (expected file)", adapter.name));
    }
    const LoraFile file = LoraFile::open(adapter.file, base);
    if (std::string doubt = file.doubt(base); !doubt.empty()) notes->push_back(std::move(doubt));
    adapters.push_back(adapter_from_file(adapter.name, adapter.strength, file, config));
  }
  return adapters;
}

}  // namespace

WeightStore LoadedModel::shapes(FileId file) const {
  return phantom_weights(config, phantom_format, file, phantom_bundles, phantom_layout, phantom_formats);
}

Bytes LoadedModel::bytes_per_token() const {
  Bytes bytes = 0;
  const WeightStore weights = packed ? packed->store(FileId{}) : shapes(FileId{});
  const bool tied = weights.find(Role::output) == nullptr;  // the output matrix is the embedding
  for (const Weight& weight : weights.all()) {
    if (weight.role == Role::token_embedding && !tied) continue;
    bytes += weight.matrix_bytes() * (weight.experts > 1 ? config.experts_used : 1);
  }
  return bytes;
}

WeightStore LoadedModel::open(Storage& storage) const {
  if (packed) return packed->store(storage.open(packed->path).value_or_throw());
  return shapes(storage.open_phantom(file_size(shapes(FileId{}))).value_or_throw());
}

std::vector<LoraAdapter> LoadedModel::open_adapters(Storage& storage) const {
  std::vector<LoraAdapter> opened = adapters;
  for (LoraAdapter& adapter : opened) {
    const Extent extent = adapter.extent();
    const Bytes size = round_up(extent.offset + extent.length, kPageSize);
    adapter.set_file((adapter.file.empty() ? storage.open_phantom(size) : storage.open(adapter.file)).value_or_throw());
  }
  return opened;
}

WeightStore LoadedModel::open_int8_copy(Storage& storage) const {
  if (packed) return int8_copy.value().store(storage.open(int8_copy->path).value_or_throw());
  return phantom_products(config, Format::q8_0,
                          storage.open_phantom(file_size(phantom_products(config, Format::q8_0, FileId{}))).value_or_throw());
}

Format matrix_format(Reader& model) { return read_format(model, "format", "q4_0"); }

LoadedModel load_model(const ModelSource& source, const EngineConfig& engine, const std::string& cache_dir) {
  LoadedModel model;
  if (source.shape) {
    Reader reader(*source.shape, source.shape_at);
    model.phantom_format = matrix_format(reader);
    for (const char* key : {"description", "profile", "provenance"}) reader.ignore(key);
    Reader shape = reader.child("shape");
    model.config = config_from_node(shape);
    if (std::optional<Reader> formats = reader.optional_child("formats"))
      model.phantom_formats = read_formats(std::move(*formats), model.config);
    model.name = model.config.name;
    model.phantom_bundles = engine.weights.bundles;
    model.phantom_layout = layout_for(engine, model.phantom_format);
    reader.finish();
    check_look_ups(model.shapes(FileId{}).all(), engine);
    model.adapters = phantom_adapters(engine.lora, model.config);
    return model;
  }
  if (source.gguf_at.file && !std::filesystem::exists(source.gguf)) {
    fail_at(source.gguf_at, "model.gguf", fmt::format("\"{}\" is not a file (paths start at the file that names them)", source.gguf));
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
  if (placement_kinds().find(engine.placement.kind)->int8_copy) {
    PackOptions products;
    products.products = Format::q8_0;
    model.int8_copy = pack(gguf, products, cache_dir);
  }
  check_look_ups(model.packed->weights, engine);
  model.config = model.packed->config;
  model.adapters = adapters_from_files(engine.lora, gguf, model.config, &model.notes);
  return model;
}

std::vector<std::int32_t> prompt_tokens(const LoadedModel& model, const Workload& workload, const Request& request,
                                        const SavedSequence* before) {
  std::vector<std::int32_t> ids;
  if (before != nullptr) {
    const auto known = [&](std::int32_t token) { return token >= 0 && static_cast<std::uint32_t>(token) < model.config.vocab; };
    if (!std::ranges::all_of(before->tokens, known)) throw ConfigError(fmt::format("{}: has tokens that the model lacks", before->path));
    ids.push_back(before->tokens.back());
  }
  if (request.prompt) {
    if (!model.tokenizer) throw ConfigError("workload.prompt: a model without weights has no tokenizer (expected workload.prompt_tokens)");
    const bool begins = before == nullptr && request.goes_on.empty();
    if (begins && model.tokenizer->add_bos() && model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
    const std::vector<std::int32_t> text = model.tokenizer->encode(*request.prompt);
    ids.insert(ids.end(), text.begin(), text.end());
    if (ids.empty() && begins) throw ConfigError("workload.prompt: is empty, and the model has no BOS token to start from");
  } else {
    for (std::uint32_t i = 0; i < request.prompt_tokens; ++i) {
      ids.push_back(static_cast<std::int32_t>(mix(workload.seed, {kPromptStream, i}) % model.config.vocab));
    }
  }
  return ids;
}

}  // namespace vitro
