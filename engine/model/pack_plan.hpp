// What a packed file will hold and where, before a byte of it is written: a function of source, options and neuron order
// alone, so a file is good exactly when its header is the one that would be written now. docs/formats.md has the bytes.
#pragma once
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"
#include "engine/model/neuron_order.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

struct PackOptions {
  // Formats of matrices to store as Layout::tiled (16 rows interleaved), where the row count allows it. The token
  // embedding always stays Layout::rows: it is read row by row.
  std::set<Format> tiled{Format::q4_0, Format::q8_0};
  std::set<Role> never_tiled{};            // roles that stay Layout::rows although their format could be tiled
  std::optional<BundleOptions> bundles{};  // the FFN neuron by neuron, instead of as three matrices
  NeuronOrder order{};                     // of the bundles' neurons; requires bundles
};

// `--layout` of the command line and `engine.layout`: rows, tiled, bundles or bundles_two_phase. With bundles the other
// matrices stay in rows, which every numeric contract reads. Throws ConfigError for other names.
PackOptions pack_options_of(std::string_view layout);

// A run of pages with checksums of its own.
struct PackSection {
  std::string name;             // a tensor's, "neuron_order"
  Bytes offset = 0, bytes = 0;  // whole pages
};

struct PackPlan {
  ModelConfig config;
  std::vector<Weight> weights;
  // Where weight i comes from: one tensor, or the gate, up and down of bundles.
  std::vector<std::array<const TensorInfo*, 3>> sources;
  PackOptions options;
  nlohmann::ordered_json source;  // identity of the GGUF file when the plan was made
  std::vector<PackSection> sections;
  std::string text;     // all of it that has to be equal
  std::string header;   // preamble, text and padding: everything before the first section
  Bytes file_size = 0;  // sections and checksums included
};

inline constexpr std::string_view kOrderSection = "neuron_order";

// Throws ConfigError when the model is bad or has no such form.
PackPlan make_plan(const Gguf& gguf, const PackOptions& options);

// Size, time and header of the file as it is now: a rewritten file has another time, an edited header another hash.
nlohmann::ordered_json source_identity(const Gguf& gguf);

// The format in which the three rows of a bundle are stored: the widest of the three that holds them all. Formats that we do
// not quantise into (K-quants) count as q8_0, since a transposed Down has to be quantised anew; f16 with bf16 makes f32.
Format bundle_format(Format gate, Format up, Format down);

// The header of a packed file, read without its model.
struct PackHeader {
  std::string text;  // the plan
  nlohmann::ordered_json plan;
  PackOptions options;  // without the order
  std::vector<PackSection> sections;
  Bytes file_size = 0;
};
// Throws ConfigError, beginning with the path, when the file has no whole header of this version or is not as long as the
// header says. Nothing in the file is believed before it is checked.
PackHeader read_pack_header(const InputFile& file);

}  // namespace vitro
