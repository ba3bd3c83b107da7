#include "engine/model/packed_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/base/hash.hpp"
#include "engine/model/bundle_writer.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/model/pack_contents.hpp"
#include "engine/model/pack_plan.hpp"
#include "engine/model/product_copy.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

constexpr Bytes kChunk = MiB;

// Why a file with a sound header is not the one that the plan describes; "" when it is.
std::string difference(const PackHeader& header, const PackPlan& plan) {
  if (header.text == plan.text) return "";
  const auto source = header.plan.find("source");
  if (source == header.plan.end() || *source == plan.source) return "made for another layout";
  const auto value = [&](const char* key) { return source->is_object() && source->contains(key) ? source->at(key).dump() : "?"; };
  if (value("file") == plan.source["file"].dump() && value("header_hash") == plan.source["header_hash"].dump()) {
    return fmt::format("made from another state of {}, which has changed since", value("file"));
  }
  return fmt::format("made from another source: {} of {} bytes (expected {} of {} bytes)", value("file"), value("bytes"),
                     plan.source["file"].dump(), plan.source["bytes"].dump());
}

std::string why_stale(const std::string& path, const Gguf& gguf, const PackPlan& plan, const std::string& cache_dir) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return fmt::format("{}: there is no such file", path);
  const InputFile file(path);
  try {
    const PackHeader header = read_pack_header(file);
    std::string problem = difference(header, plan);
    if (problem.empty() && !cache_dir.empty()) {
      problem = find_new_damage(file, header.sections, cache_dir, [&] { return find_bad_contents(file, gguf, plan); });
    }
    return problem.empty() ? "" : fmt::format("{}: {}", path, problem);
  } catch (const ConfigError& damage) {
    return damage.what();
  }
}

void copy_vector(const Gguf& gguf, const TensorInfo& source, SectionWriter& out) {
  std::vector<std::byte> raw(source.size);
  gguf.read(source, 0, raw);
  std::vector<float> values(source.columns());
  dequantise_row(source.format, raw.data(), values.data(), values.size());
  out.write(std::as_bytes(std::span(values)));
}

void copy_as_stored(const Gguf& gguf, const TensorInfo& source, SectionWriter& out) {
  std::vector<std::byte> chunk(std::min(kChunk, source.size));
  for (Bytes at = 0; at < source.size; at += chunk.size()) {
    chunk.resize(std::min(kChunk, source.size - at));
    gguf.read_stored(source, at, chunk);
    out.write(chunk);
  }
}

// A predictor's rows stand in the order of the neurons that they speak of.
void copy_rows_in_order(const Gguf& gguf, const TensorInfo& source, const Weight& weight, const NeuronOrder& order, SectionWriter& out) {
  std::vector<std::byte> row(row_bytes(source.format, weight.columns));
  for (std::uint32_t expert = 0; expert < weight.experts; ++expert) {
    for (const std::uint32_t id : order.of(static_cast<std::uint32_t>(weight.layer), expert)) {
      gguf.read(source, (Bytes{expert} * weight.rows + id) * row.size(), row);
      out.write(row);
    }
  }
}

// Experts follow one another and each has a multiple of kTileRows rows, so groups never straddle two of them.
void copy_tiled(const Gguf& gguf, const TensorInfo& source, Layout layout, SectionWriter& out) {
  std::vector<std::byte> rows(kTileRows * row_bytes(source.format, source.columns()));
  std::vector<std::byte> tile(kTileRows * row_bytes(source.format, source.columns(), layout));
  for (Bytes at = 0; at < source.size; at += rows.size()) {
    gguf.read(source, at, rows);
    pack_tile(source.format, source.columns(), rows.data(), tile.data(), layout);
    out.write(tile);
  }
}

void write_packed(const Gguf& gguf, const PackPlan& plan, const std::string& path) {
  OutputFile file(path);
  file.write(plan.header);
  SectionWriter out(file);
  std::vector<std::byte> scales;  // of the bundles that were written last
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const Weight& weight = plan.weights[i];
    VITRO_CHECK(out.position() == weight.extent.offset, "the packed file does not follow its plan");
    for (const TensorInfo* source : plan.sources[i]) {
      if (source != nullptr) gguf.check_blocks(*source);
    }
    if (weight.role == Role::ffn_bundle) {
      scales = write_bundles(gguf, plan.sources[i], weight, plan.options.order, out);
    } else if (weight.role == Role::ffn_scales) {
      out.write(scales);
    } else if (weight.role == Role::predictor_out && !plan.options.order.empty()) {
      copy_rows_in_order(gguf, *plan.sources[i][0], weight, plan.options.order, out);
    } else if (is_vector(weight.role) && !is_order(weight.role)) {
      copy_vector(gguf, *plan.sources[i][0], out);
    } else if (weight.role == Role::ffn_down && plan.sources[i][0]->name != weight.name) {
      write_transposed(gguf, *plan.sources[i][0], weight, out);
    } else if (plan.options.products) {
      write_anew(gguf, *plan.sources[i][0], weight, out);
    } else if (weight.layout != stored_layout(weight.format)) {
      copy_tiled(gguf, *plan.sources[i][0], weight.layout, out);
    } else {
      copy_as_stored(gguf, *plan.sources[i][0], out);
    }
    out.end_section();
  }
  if (!plan.options.order.empty()) {
    for (const auto& ids : plan.options.order.all()) out.write(std::as_bytes(std::span(ids)));
    out.end_section();
  }
  out.write_table();
  VITRO_CHECK(out.position() == plan.file_size, "the packed file does not end with its plan");
  // A source that was rewritten while we read it would leave a mixture behind, under its old identity.
  if (source_identity(gguf) != plan.source) throw RunError(fmt::format("{}: the file changed while it was being packed", gguf.path()));
  file.commit();
}

// The order that the file keeps behind its weights, if it has one.
NeuronOrder read_order(const InputFile& file, const PackHeader& header, const ModelConfig& config) {
  const PackSection& section = header.sections.back();
  if (section.name != kOrderSection) return {};
  const std::size_t ffns = std::size_t{config.layers} * std::max(config.experts, 1u);
  if (section.bytes != round_up(Bytes{ffns} * config.ffn * sizeof(std::uint32_t), kPageSize)) {
    throw ConfigError(fmt::format("{}: its order of neurons is of another model", file.path()));
  }
  std::vector<std::vector<std::uint32_t>> places(ffns, std::vector<std::uint32_t>(config.ffn));
  Bytes at = section.offset;
  for (auto& ids : places) {
    file.read_at(at, std::as_writable_bytes(std::span(ids)));
    at += ids.size() * sizeof(std::uint32_t);
  }
  return {std::move(places), config, file.path()};
}

// One file per source path and set of options: a changed source replaces its old file instead of leaving it behind.
std::string packed_path(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir) {
  const std::filesystem::path source = canonical_path(gguf.path());
  Hash hash;
  hash.add(source.string());
  for (const Format format : options.tiled) hash.add(std::uint64_t{format_id(format)});
  for (const Format format : options.lut) hash.add(0x300 + std::uint64_t{format_id(format)});
  for (const Role role : options.never_tiled) hash.add(0x100 + static_cast<std::uint64_t>(role));
  if (options.products) hash.add(0x400 + std::uint64_t{format_id(*options.products)});
  if (options.bundles) hash.add(0x200 + static_cast<std::uint64_t>(*options.bundles));
  for (const auto& ids : options.order.all()) hash.add(std::as_bytes(std::span(ids)));
  return (std::filesystem::path(cache_dir) / fmt::format("{}-{}.vpacked", source.stem().string(), hash.hex())).string();
}

PackedModel packed_model(const std::string& path, PackPlan plan, bool reused) {
  return {path, plan.file_size, reused, std::move(plan.config), std::move(plan.weights), std::move(plan.options.order)};
}

}  // namespace

WeightStore PackedModel::store(FileId file) const {
  std::vector<Weight> placed = weights;
  for (Weight& weight : placed) weight.extent.file = file;
  return WeightStore(std::move(placed));
}

std::string why_stale(const std::string& path, const Gguf& gguf, const PackOptions& options, const std::string& cache_dir) {
  return why_stale(path, gguf, make_plan(gguf, options), cache_dir);
}

PackedModel pack(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) throw ConfigError(fmt::format("{}: can not make the folder for packed models: {}", cache_dir, error.message()));
  PackPlan plan = make_plan(gguf, options);
  const std::string path = packed_path(gguf, options, cache_dir);
  const bool reused = why_stale(path, gguf, plan, cache_dir).empty();
  if (!reused) {
    write_packed(gguf, plan, path);
  }
  return packed_model(path, std::move(plan), reused);
}

PackedModel pack_to(const Gguf& gguf, const PackOptions& options, const std::string& path) {
  std::error_code error;
  if (std::filesystem::equivalent(gguf.path(), path, error)) throw ConfigError(fmt::format("{}: input and output are one file", path));
  PackPlan plan = make_plan(gguf, options);
  write_packed(gguf, plan, path);
  return packed_model(path, std::move(plan), false);
}

PackedModel open_packed(const std::string& path, const Gguf& gguf, const std::string& cache_dir) {
  const InputFile file(path);
  const PackHeader header = read_pack_header(file);
  const auto refuse = [&](const std::string& problem) {
    if (!problem.empty()) throw ConfigError(fmt::format("{}: {}", path, problem));
  };
  // The model first: its shape says what to make of the rest.
  PackOptions options = header.options;
  PackPlan plan = make_plan(gguf, options);
  const auto source = header.plan.find("source");
  if (source == header.plan.end() || *source != plan.source) refuse(difference(header, plan));
  // The order of the neurons is read once the checksums hold, so that damage is called by its name.
  const auto complete_plan = [&] {
    options.order = read_order(file, header, plan.config);
    if (!options.order.empty()) plan = make_plan(gguf, options);
    refuse(difference(header, plan));
  };
  refuse(find_new_damage(file, header.sections, cache_dir, [&] {
    complete_plan();
    return find_bad_contents(file, gguf, plan);
  }));
  complete_plan();
  return packed_model(path, std::move(plan), true);
}

void verify_packed(const std::string& path) {
  const InputFile file(path);
  const std::string damage = find_damage(file, read_pack_header(file).sections);
  if (!damage.empty()) throw ConfigError(fmt::format("{}: {}", path, damage));
}

}  // namespace vitro
