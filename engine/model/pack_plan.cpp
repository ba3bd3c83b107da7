#include "engine/model/pack_plan.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/base/hash.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/model/product_copy.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic = "VITROPAK";
constexpr std::uint32_t kVersion = 4;
constexpr Bytes kChunk = MiB;
constexpr Bytes kMaxPlan = 64 * MiB;  // thousands of layers; more is damage, and would only be memory

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

std::string order_hash(const NeuronOrder& order) {
  Hash hash;
  for (const auto& ids : order.all()) hash.add(std::as_bytes(std::span(ids)));
  return hash.hex();
}

// One section per weight, the order of the neurons behind them. Answers where the sections end.
void place(PackPlan& plan, Bytes first) {
  plan.sections.clear();
  Bytes position = first;
  const auto add = [&](const std::string& name, Bytes bytes) {
    plan.sections.push_back({name, position, round_up(bytes, kPageSize)});
    position += plan.sections.back().bytes;
  };
  for (Weight& weight : plan.weights) {
    weight.extent = {FileId{}, position, weight.stored_bytes()};
    add(weight.name, weight.extent.length);
  }
  if (!plan.options.order.empty()) {
    Bytes ids = 0;
    for (const auto& of_ffn : plan.options.order.all()) ids += of_ffn.size();
    add(std::string(kOrderSection), ids * sizeof(std::uint32_t));
  }
  plan.file_size = position + checksum_table_bytes(plan.sections);
}

Json describe_options(const PackOptions& options) {
  Json tiled = Json::array(), lut = Json::array(), never = Json::array();
  for (const Format format : options.tiled) tiled.push_back(to_string(format));
  for (const Format format : options.lut) lut.push_back(to_string(format));
  for (const Role role : options.never_tiled) never.push_back(to_string(role));
  Json out{{"tiled", tiled}, {"never_tiled", never}};
  if (!lut.empty()) out["lut"] = lut;
  if (options.bundles) out["bundles"] = to_string(*options.bundles);
  if (options.products) out["products"] = to_string(*options.products);
  if (!options.order.empty()) out["order"] = order_hash(options.order);
  return out;
}

std::string describe_plan(const PackPlan& plan) {
  Json tensors = Json::array(), sections = Json::array();
  for (const Weight& w : plan.weights) {
    tensors.push_back({{"name", w.name},
                       {"role", to_string(w.role)},
                       {"layer", w.layer},
                       {"rows", w.rows},
                       {"columns", w.columns},
                       {"experts", w.experts},
                       {"format", to_string(w.format)},
                       {"layout", to_string(w.layout)},
                       {"bytes", w.extent.length}});
  }
  for (const PackSection& s : plan.sections) sections.push_back({{"name", s.name}, {"offset", s.offset}, {"bytes", s.bytes}});
  const Json text{{"source", plan.source}, {"options", describe_options(plan.options)}, {"tensors", tensors}, {"sections", sections}};
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);  // a name need not be UTF-8
}

// Of a plan that is a file's.
[[noreturn]] void unknown_name(std::string_view name) { throw ConfigError(fmt::format("damaged: its plan says \"{}\"", name)); }

Format format_from(const Json& name) {
  const auto format = format_by_name(name.get<std::string>());
  if (format && format->is_for_weights()) return *format;
  unknown_name(name.get<std::string>());
}

Role role_from(const Json& name) {
  for (std::size_t i = 0; i < kRoles; ++i) {
    if (to_string(static_cast<Role>(i)) == name.get<std::string>()) return static_cast<Role>(i);
  }
  unknown_name(name.get<std::string>());
}

PackOptions options_from(const Json& plan) {
  const Json& found = plan.at("options");
  PackOptions options;
  const auto formats = [](const Json& names) {
    std::set<Format> out;
    for (const Json& name : names) out.insert(format_from(name));
    return out;
  };
  options.tiled = formats(found.at("tiled"));
  if (found.contains("lut")) options.lut = formats(found.at("lut"));
  for (const Json& name : found.at("never_tiled")) options.never_tiled.insert(role_from(name));
  if (found.contains("products")) options.products = format_from(found.at("products"));
  if (!found.contains("bundles")) return options;
  const auto name = found.at("bundles").get<std::string>();
  options.bundles = form_by_name(name);
  if (!options.bundles) unknown_name(name);
  return options;
}

// Any number converts, and one that does not fit to anything.
Bytes bytes_from(const Json& number) {
  if (!number.is_number_unsigned()) unknown_name(number.dump(-1, ' ', false, Json::error_handler_t::replace));
  return number.get<Bytes>();
}

// Sections follow one another from the first page after the plan to within the file.
std::vector<PackSection> sections_from(const Json& plan, Bytes header_end, Bytes file_size) {
  std::vector<PackSection> sections;
  Bytes position = 0;
  for (const Json& s : plan.at("sections")) {
    const PackSection section{s.at("name").get<std::string>(), bytes_from(s.at("offset")), bytes_from(s.at("bytes"))};
    const bool first = section.offset >= header_end && section.offset - header_end <= kMaxPlan && section.offset % kPageSize == 0;
    const bool begins = sections.empty() ? first : section.offset == position;
    if (!begins || section.offset > file_size || section.bytes == 0 || section.bytes % kPageSize != 0) {
      throw ConfigError(fmt::format("damaged: {} is not in its plan", section.name));
    }
    if (section.bytes > file_size - section.offset) {
      throw ConfigError(fmt::format("the file is {} bytes long and ends before the end of {}", file_size, section.name));
    }
    position = section.offset + section.bytes;
    sections.push_back(section);
  }
  if (sections.empty()) throw ConfigError("damaged: it has no sections");
  return sections;
}

// What rows that are made anew are stored in: a second rounding to a few bits would cost more than the first.
Format stored_anew(Format format) { return block_elements(format) == 1 || format == Format::q4_0 ? format : Format::q8_0; }

}  // namespace

PackOptions pack_options_of(std::string_view layout) {
  PackOptions options;
  if (layout == "tiled") return options;
  if (layout == "lut") {
    options.lut = formats_with(Layout::lut);
    return options;
  }
  options.tiled.clear();
  if (layout == "rows") return options;
  options.bundles = form_by_name(layout);
  if (!options.bundles) {
    std::vector<std::string_view> known{"rows", "tiled", "lut"};
    for (const BundleForm form : kBundleForms) known.push_back(to_string(form));
    throw ConfigError(fmt::format("layout \"{}\" is unknown (expected {})", layout, fmt::join(known, ", ")));
  }
  return options;
}

nlohmann::ordered_json source_identity(const Gguf& gguf) {
  struct stat info{};
  if (::fstat(gguf.file().descriptor(), &info) != 0) throw RunError(fmt::format("{}: can not be examined", gguf.path()));
  Hash hash;
  hash.add(header_hash(gguf));
  return {{"file", std::filesystem::path(canonical_path(gguf.path())).filename().string()},
          {"bytes", static_cast<std::uint64_t>(info.st_size)},
          {"modified_ns", static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec},
          {"header_hash", hash.hex()}};
}

Format bundle_format(Format gate, Format up, Format down) {
  const auto bits = [](Format format) { return block_bytes(format) * 8 / block_elements(format); };
  Format widest = stored_anew(gate);
  for (const Format format : {stored_anew(up), stored_anew(down)}) {
    if (format != widest && bits(format) == bits(widest)) return Format::f32;  // f16 and bf16: neither holds the other
    if (bits(format) > bits(widest)) widest = format;
  }
  return widest;
}

// Of a matrix that is stored the other way round: blocks run along the other axis, so they are made anew.
Format transposed_format(Format format, std::uint32_t columns) {
  const Format stored = stored_anew(format);
  return columns % block_elements(stored) == 0 ? stored : Format::f16;
}

PackPlan make_plan(const Gguf& gguf, const PackOptions& options) {
  if (!options.order.empty() && !options.bundles) {
    throw ConfigError("an order of neurons needs neuron bundles (expected layout auto, or another layout of bundles)");
  }
  PackPlan plan;
  plan.options = options;
  plan.config = config_from_gguf(gguf);
  plan.weights = options.products ? products_of(plan.config) : weights_of(plan.config, options.bundles.has_value());
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    Weight& weight = plan.weights[i];
    if (weight.role == Role::ffn_bundle) {
      const auto source = [&](Role role) {
        const TensorInfo* found = gguf.find_tensor(tensor_name(role, weight.layer, plan.config.has_experts(weight.layer)));
        return found != nullptr ? found : gguf.find_tensor(down_by_neuron_name(weight.layer));
      };
      const bool joined = plan.config.joined_gate_up;
      const auto& of = plan.sources.emplace_back(std::array{source(joined ? Role::ffn_gate_up : Role::ffn_gate),
                                                            source(joined ? Role::ffn_gate_up : Role::ffn_up), source(Role::ffn_down),
                                                            plan.config.sub_norms ? source(Role::ffn_sub_norm) : nullptr});
      // A row whose elements change places has other blocks.
      const auto format_of = [&](const TensorInfo* tensor) {
        return tensor->format == Format::q4_0 && gguf.find_tensor(order_name(tensor->name)) != nullptr ? Format::q8_0 : tensor->format;
      };
      const Format ffn = bundle_format(format_of(of[0]), format_of(of[1]), format_of(of[2]));
      const std::size_t scales = set_form(plan.weights, i, *options.bundles, ffn);
      plan.sources.resize(plan.sources.size() + scales);  // they come from the same tensors
      i += scales;
      continue;
    }
    const TensorInfo* tensor = gguf.find_tensor(weight.name);
    const bool transposed = tensor == nullptr;  // of the tensors that a model has, Down alone may be
    if (transposed) tensor = gguf.find_tensor(down_by_neuron_name(weight.layer));
    plan.sources.push_back({tensor});
    weight.format = is_vector(weight.role) && !is_order(weight.role) ? Format::f32 : tensor->format;
    if (transposed || options.products) weight.format = transposed_format(options.products.value_or(weight.format), weight.columns);
    const bool by_group = !transposed && !options.products && !options.never_tiled.contains(weight.role) &&
                          weight.role != Role::token_embedding && weight.role != Role::predictor_out;
    const auto lies = [&](Layout layout, const std::set<Format>& formats) {
      return by_group && formats.contains(weight.format) && can_lay(layout, weight.format, weight.rows);
    };
    if (stored_layout(weight.format) != Layout::rows) {
      if (!by_group) {
        gguf.fail(weight.name, fmt::format("is read row by row, which {} can not be (expected q4_0, or another format of rows)",
                                           to_string(weight.format)));
      }
      weight.layout = stored_layout(weight.format);
      continue;
    }
    weight.layout = lies(Layout::lut, options.lut) ? Layout::lut : lies(Layout::tiled, options.tiled) ? Layout::tiled : Layout::rows;
  }
  plan.source = source_identity(gguf);
  // The plan names offsets that depend on its own length: settle the header's size first, generously, then fix it.
  place(plan, 0);
  const Bytes header = round_up(sizeof(Preamble) + describe_plan(plan).size() + 16 * plan.sections.size(), kPageSize);
  place(plan, header);
  plan.text = describe_plan(plan);
  VITRO_CHECK(sizeof(Preamble) + plan.text.size() <= header, "the plan outgrew its header");

  Hash hash;
  hash.add(plan.text);
  Preamble preamble{{}, kVersion, 0, plan.text.size(), hash.value()};
  std::memcpy(preamble.magic, kMagic.data(), sizeof preamble.magic);
  plan.header.assign(reinterpret_cast<const char*>(&preamble), sizeof preamble);
  plan.header += plan.text;
  plan.header.resize(header, '\0');
  return plan;
}

PackHeader read_pack_header(const InputFile& file) {
  const auto fail = [&](std::string_view problem) { throw ConfigError(fmt::format("{}: {}", file.path(), problem)); };
  Preamble preamble{};
  if (file.size() < sizeof preamble) fail("too short for a packed file");
  file.read_at(0, std::as_writable_bytes(std::span(&preamble, 1)));
  if (std::string_view(preamble.magic, sizeof preamble.magic) != kMagic) fail("not a packed file");
  if (preamble.version != kVersion)
    fail(fmt::format("packed-file version {} (expected {}): pack the model again", preamble.version, kVersion));
  if (preamble.plan_bytes > std::min(kMaxPlan, file.size() - sizeof preamble))
    fail("damaged: its plan is longer than the file or any plan");
  PackHeader header;
  header.text.resize(preamble.plan_bytes);
  file.read_at(sizeof preamble, std::as_writable_bytes(std::span(header.text)));
  Hash hash;
  hash.add(header.text);
  if (hash.value() != preamble.plan_hash || preamble.reserved != 0) fail("damaged: the checksum of its plan is wrong");
  const Bytes text_end = sizeof preamble + header.text.size();
  try {
    header.plan = Json::parse(header.text);
    header.options = options_from(header.plan);
    header.sections = sections_from(header.plan, text_end, file.size());
  } catch (const Json::exception&) {
    fail("damaged: its plan can not be read");
  } catch (const ConfigError& error) {
    fail(error.what());
  }
  std::string padding(header.sections.front().offset - text_end, '\0');
  file.read_at(text_end, std::as_writable_bytes(std::span(padding)));
  if (padding.find_first_not_of('\0') != std::string::npos) fail("damaged: there are bytes after its plan");
  header.file_size = header.sections.back().offset + header.sections.back().bytes + checksum_table_bytes(header.sections);
  if (file.size() != header.file_size) fail(fmt::format("the file is {} bytes long (expected {})", file.size(), header.file_size));
  return header;
}

}  // namespace vitro
