// What a packed file will hold and where, before a byte of it is written: a function of source, options and neuron order
// alone, so a file is good exactly when its header is the one that would be written now. docs/reference/formats.md has the bytes.
#pragma once
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/gguf.hpp"
#include "engine/model/pack_options.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// A run of pages with checksums of its own.
struct PackSection {
  std::string name;             // a tensor's, "neuron_order"
  Bytes offset = 0, bytes = 0;  // whole pages
};

struct PackPlan {
  ModelConfig config;
  std::vector<Weight> weights;
  // Where weight i comes from: one tensor, or the gate, up and down of bundles, and the norm before down if there is one.
  std::vector<std::array<const TensorInfo*, 4>> sources;
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

// The format in which the three rows of a bundle are stored: the widest of the three that holds them all. Plain formats, q8_0 and
// q4_0 stand for themselves and all others for q8_0, since a transposed Down has to be quantised anew; f16 with bf16 makes f32.
Format bundle_format(Format gate, Format up, Format down);
Format transposed_format(Format format, std::uint32_t columns);

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
