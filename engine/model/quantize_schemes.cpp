// The schemes that `vitro quantize` knows, and the formats that it writes.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "engine/model/npu_int4.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

// Those with a scale per group: without zero points first, then by falling bits and rising groups.
std::vector<Format> group_formats() {
  std::vector<Format> found;
  std::ranges::copy_if(all_formats(), std::back_inserter(found), [](Format f) { return f.is_group() && !f.row_scale; });
  std::ranges::sort(found, {}, [](Format f) { return std::tuple(f.zero_point, -f.bits, f.block); });
  return found;
}

std::vector<QuantizeScheme> make_schemes() {
  const Format q4_0 = Format::q4_0, q8_0 = Format::q8_0, f32 = Format::f32;
  std::vector<QuantizeScheme> schemes{
      {"q8_0", "8 bits per weight in blocks of 32 (8.5 with the scale)", q8_0, q8_0, 7},
      {"q4_0", "4 bits per weight in blocks of 32 (4.5 with the scale); embeddings and output in q8_0, here and below", q4_0, q8_0, 2},
      {"q4_0_down_q8", "q4_0, with ffn_down in q8_0 (test-time scaling, 7.1)", q4_0, q8_0, std::nullopt, ScaleGrain::block, 0, q8_0},
      {"q4_0_tile", "q4_0 in groups of 16 outputs x 2 inputs, as a matrix unit's tiles lie (test-time scaling, 5.1; 4.5)",
       Format::q4_0_tile, q8_0},
      {"q4_k", "4 bits per weight in blocks of 256 with scales and minima of 6 bits (4.5)", Format::q4_k, q8_0, 14},
      {"iq4_nl", "codes of 4 bits into GGUF's table, blocks of 32 (4.5 with the scale)", Format::iq4_nl, q8_0, 25},
      {"nf4", "codes of 4 bits into the quantiles of a normal distribution, blocks of 32 (4.5)", Format::nf4, q8_0},
      {"fp4", "E2M1 numbers of 4 bits, blocks of 32 (4.5 with the scale)", Format::fp4, q8_0},
      {"w4_outliers", "4 bits with one scale per row, the largest 1 % of each row in int8 (PowerInfer-2, 7.6)", Format::w4_outliers, q8_0},
      {"npu_int4_channel", "what an NPU makes of INT4 with one scale per row, as exact values in f32", f32, q8_0, 0,
       ScaleGrain::int4_channel},
      {"npu_int4_outliers", "the same with the largest 1 % of each row in INT8 (PowerInfer-2, 7.6)", f32, q8_0, 0, ScaleGrain::int4_channel,
       kOutlierShare},
  };
  for (std::uint32_t bits = 4; bits >= 1; --bits) {
    schemes.push_back({fmt::format("w{}_channel", bits),
                       fmt::format("{} bit{} with one scale per row (w{}g128r)", bits, bits > 1 ? "s" : "", bits),
                       Format::w(bits, 128, 'r'), q8_0});
  }
  for (const std::uint32_t bits : {8u, 4u}) {
    schemes.push_back({fmt::format("w{}z_channel", bits),
                       fmt::format("{} bits with one scale and zero point per row (w{}g128zr)", bits, bits),
                       Format::w(bits, 128, "zr"), q8_0});
  }
  schemes.push_back({"ternary", "-1, 0 and 1 with one scale per matrix (BitNet b1.58; w2g128r)", Format::w(2, 128, 'r'), q8_0, std::nullopt,
                     ScaleGrain::ternary});
  for (const Format format : group_formats()) {
    const double size = 8.0 * static_cast<double>(block_bytes(format)) / format.block;
    schemes.push_back({std::string(to_string(format)),
                       fmt::format("{} bit{} in groups of {}, with a scale{} ({:.4g} per weight)", format.bits, format.bits > 1 ? "s" : "",
                                   format.block, format.zero_point ? " and a zero point" : "", size),
                       format, q8_0});
  }
  return schemes;
}

}  // namespace

const std::vector<QuantizeScheme>& quantize_schemes() {
  static const std::vector<QuantizeScheme> kSchemes = make_schemes();
  return kSchemes;
}

Format written_format(std::string_view option, std::string_view name) {
  const std::optional<Format> format = format_by_name(name);
  if (format && format->is_for_weights() && can_quantise(*format)) return *format;
  std::vector<std::string_view> known;
  for (const Format each : all_formats()) {
    if (each.is_for_weights() && can_quantise(each)) known.push_back(to_string(each));
  }
  throw ConfigError(fmt::format("{}: there is no format \"{}\" to write (expected one of: {})", option, name, fmt::join(known, ", ")));
}

const QuantizeScheme& quantize_scheme(std::string_view name) {
  std::vector<std::string_view> known;
  for (const QuantizeScheme& scheme : quantize_schemes()) {
    if (scheme.name == name) return scheme;
    known.push_back(scheme.name);
  }
  throw ConfigError(fmt::format("scheme \"{}\" is unknown (expected one of: {})", name, fmt::join(known, ", ")));
}

}  // namespace vitro
