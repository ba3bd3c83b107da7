#include "engine/model/packed_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/check.hpp"
#include "engine/base/hash.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

constexpr std::string_view kMagic = "VITROPAK";
constexpr std::uint32_t kVersion = 1;
constexpr Bytes kChunk = MiB;

// First bytes of the file; the plan (JSON text) follows, then zeros up to the first page of weights.
struct Preamble {
  char magic[8];
  std::uint32_t version, reserved;
  std::uint64_t plan_bytes, plan_hash;
};
static_assert(sizeof(Preamble) == 32);

std::uint64_t header_hash(const Gguf& gguf) {
  Hash hash;
  std::vector<std::byte> chunk(std::min<Bytes>(kChunk, gguf.data_offset()));
  for (Bytes at = 0; at < gguf.data_offset(); at += chunk.size()) {
    chunk.resize(std::min<Bytes>(kChunk, gguf.data_offset() - at));
    gguf.read_raw(at, chunk);
    hash.add(chunk);
  }
  return hash.value();
}

// Changes when the source does: a rewritten file has another time, an edited header another hash.
nlohmann::ordered_json source_identity(const Gguf& gguf) {
  struct stat info {};
  if (::fstat(gguf.file().descriptor(), &info) != 0) throw RunError(fmt::format("{}: can not be examined", gguf.path()));
  Hash hash;
  hash.add(header_hash(gguf));
  return {{"path", std::filesystem::weakly_canonical(gguf.path()).string()},
          {"bytes", static_cast<std::uint64_t>(info.st_size)},
          {"modified_ns", static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec},
          {"header_hash", hash.hex()}};
}

struct Plan {
  ModelConfig config;
  std::vector<Weight> weights;
  std::vector<const TensorInfo*> sources;  // of the weights, in the same order
  nlohmann::ordered_json source;           // its identity when the plan was made
  std::string header;                      // preamble, plan and padding: everything before the first weight
  Bytes file_size = 0;
};

void place(Plan& plan, Bytes first) {
  Bytes position = first;
  for (Weight& weight : plan.weights) {
    weight.extent = {FileId{}, position, row_bytes(weight.format, weight.columns) * weight.rows * weight.experts};
    position = round_up(position + weight.extent.length, kPageSize);
  }
  plan.file_size = position;
}

std::string describe_plan(const Plan& plan) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const Weight& w : plan.weights) {
    tensors.push_back({{"name", w.name}, {"role", to_string(w.role)}, {"layer", w.layer}, {"rows", w.rows}, {"columns", w.columns},
                       {"experts", w.experts}, {"format", to_string(w.format)}, {"layout", w.layout == Layout::tiled ? "tiled" : "rows"},
                       {"offset", w.extent.offset}, {"bytes", w.extent.length}});
  }
  const nlohmann::ordered_json text{{"source", plan.source}, {"tensors", tensors}};
  return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a path need not be UTF-8
}

// The plan is a function of source and options, so a cached file is good exactly when its header is this plan's.
Plan make_plan(const Gguf& gguf, const PackOptions& options) {
  Plan plan;
  plan.config = config_from_gguf(gguf);
  plan.weights = weights_of(plan.config);
  for (Weight& weight : plan.weights) {
    const TensorInfo* tensor = gguf.find_tensor(weight.name);
    plan.sources.push_back(tensor);
    weight.format = is_vector(weight.role) ? Format::f32 : tensor->format;
    const bool tile = options.tiled.contains(weight.format) && !options.never_tiled.contains(weight.role) &&
                      weight.role != Role::token_embedding && can_tile(weight.format, weight.rows);
    weight.layout = tile ? Layout::tiled : Layout::rows;
  }
  plan.source = source_identity(gguf);
  // The plan names offsets that depend on its own length: settle the header's size first, generously, then fix it.
  place(plan, 0);
  const Bytes header = round_up(sizeof(Preamble) + describe_plan(plan).size() + 16 * plan.weights.size(), kPageSize);
  place(plan, header);
  const std::string text = describe_plan(plan);
  VITRO_CHECK(sizeof(Preamble) + text.size() <= header, "the plan outgrew its header");

  Hash hash;
  hash.add(text);
  Preamble preamble{{}, kVersion, 0, text.size(), hash.value()};
  std::memcpy(preamble.magic, kMagic.data(), sizeof preamble.magic);
  plan.header.assign(reinterpret_cast<const char*>(&preamble), sizeof preamble);
  plan.header += text;
  plan.header.resize(header, '\0');
  return plan;
}

std::string why_stale(const std::string& path, const Plan& plan) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return fmt::format("{}: there is no such file", path);
  const InputFile file(path);
  const auto because = [&](std::string_view problem) { return fmt::format("{}: {}", path, problem); };
  Preamble preamble{};
  if (file.size() < sizeof preamble) return because("too short for a packed file");
  file.read_at(0, std::as_writable_bytes(std::span(&preamble, 1)));
  if (std::string_view(preamble.magic, sizeof preamble.magic) != kMagic) return because("not a packed file");
  if (preamble.version != kVersion) return because(fmt::format("packed-file version {} (expected {})", preamble.version, kVersion));
  if (preamble.plan_bytes > file.size() - sizeof preamble) return because("damaged: its plan is longer than the file");
  std::string text(preamble.plan_bytes, '\0');
  file.read_at(sizeof preamble, std::as_writable_bytes(std::span(text)));
  Hash hash;
  hash.add(text);
  if (hash.value() != preamble.plan_hash) return because("damaged: the checksum of its plan does not hold");
  if (plan.header.compare(sizeof preamble, text.size(), text) != 0) return because("made from another source or plan");
  if (file.size() != plan.file_size) return because(fmt::format("the file is {} bytes long (expected {})", file.size(), plan.file_size));
  return "";
}

void copy_vector(const Gguf& gguf, const TensorInfo& source, OutputFile& out) {
  std::vector<std::byte> raw(source.size);
  gguf.read(source, 0, raw);
  std::vector<float> values(source.columns());
  dequantise_row(source.format, raw.data(), values.data(), values.size());
  out.write(std::as_bytes(std::span(values)));
}

void copy_rows(const Gguf& gguf, const TensorInfo& source, OutputFile& out) {
  std::vector<std::byte> chunk(std::min(kChunk, source.size));
  for (Bytes at = 0; at < source.size; at += chunk.size()) {
    chunk.resize(std::min(kChunk, source.size - at));
    gguf.read(source, at, chunk);
    out.write(chunk);
  }
}

// Experts follow one another and each has a multiple of kTileRows rows, so groups never straddle two of them.
void copy_tiled(const Gguf& gguf, const TensorInfo& source, OutputFile& out) {
  const Bytes group = kTileRows * row_bytes(source.format, source.columns());
  std::vector<std::byte> rows(group), tile(group);
  for (Bytes at = 0; at < source.size; at += group) {
    gguf.read(source, at, rows);
    pack_tile(source.format, source.columns(), rows.data(), tile.data());
    out.write(tile);
  }
}

void write_packed(const Gguf& gguf, const Plan& plan, const std::string& path) {
  OutputFile out(path);
  out.write(plan.header);
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const Weight& weight = plan.weights[i];
    VITRO_CHECK(out.position() == weight.extent.offset, "the packed file does not follow its plan");
    if (is_vector(weight.role)) {
      copy_vector(gguf, *plan.sources[i], out);
    } else if (weight.layout == Layout::tiled) {
      copy_tiled(gguf, *plan.sources[i], out);
    } else {
      copy_rows(gguf, *plan.sources[i], out);
    }
    out.pad_to(kPageSize);
  }
  // A source that was rewritten while we read it would leave a mixture behind, under its old identity.
  if (source_identity(gguf) != plan.source) throw RunError(fmt::format("{}: the file changed while it was being packed", gguf.path()));
  out.commit();
}

// One file per source path and set of options: a changed source replaces its old file instead of leaving it behind.
std::string packed_path(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir) {
  const std::filesystem::path source = std::filesystem::weakly_canonical(gguf.path());
  Hash hash;
  hash.add(source.string());
  for (const Format format : options.tiled) hash.add(static_cast<std::uint64_t>(format));
  for (const Role role : options.never_tiled) hash.add(0x100 + static_cast<std::uint64_t>(role));
  return (std::filesystem::path(cache_dir) / fmt::format("{}-{}.vpacked", source.stem().string(), hash.hex())).string();
}

}  // namespace

WeightStore PackedModel::store(FileId file) const {
  std::vector<Weight> placed = weights;
  for (Weight& weight : placed) weight.extent.file = file;
  return WeightStore(std::move(placed));
}

std::string why_stale(const std::string& path, const Gguf& gguf, const PackOptions& options) {
  return why_stale(path, make_plan(gguf, options));
}

PackedModel pack(const Gguf& gguf, const PackOptions& options, const std::string& cache_dir) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) throw ConfigError(fmt::format("{}: can not make the folder for packed models: {}", cache_dir, error.message()));
  Plan plan = make_plan(gguf, options);
  const std::string path = packed_path(gguf, options, cache_dir);
  const bool reused = why_stale(path, plan).empty();
  if (!reused) {
    write_packed(gguf, plan, path);
  }
  return {path, plan.file_size, reused, std::move(plan.config), std::move(plan.weights)};
}

}  // namespace vitro
