#include "engine/tensor/format.hpp"

#include <algorithm>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

// GGUF has no number for these: "VT" in the upper half, far from the small numbers that ggml and its forks give out.
constexpr std::uint32_t kPrivateTypes = 0x56540000;
constexpr std::uint32_t kNoType = 0xffffffff;

struct Known {
  Format format;
  std::array<char, 12> name{};
  std::uint32_t gguf_type = kNoType;

  constexpr std::string_view text() const { return name.data(); }
};

constexpr Known named(Format format, std::string_view name, std::uint32_t gguf_type = kNoType) {
  Known known{format, {}, gguf_type};
  std::ranges::copy(name, known.name.begin());
  return known;
}

// w<bits>g<block>[z][r], and the type in which bits, zero point, scale per row and block have digits of their own.
constexpr Known group(Format format) {
  Known known{format,
              {},
              kPrivateTypes + 0x1000u * format.bits +
                  (format.zero_point ? 0x800 : 0) + (format.row_scale ? 0x400 : 0) + format.block};
  char* out = known.name.data();
  const auto digits = [&out](unsigned value, const auto& self) -> void {
    if (value >= 10) self(value / 10, self);
    *out++ = static_cast<char>('0' + value % 10);
  };
  *out++ = 'w';
  digits(format.bits, digits);
  *out++ = 'g';
  digits(format.block, digits);
  if (format.zero_point) *out++ = 'z';
  if (format.row_scale) *out = 'r';
  return known;
}

// All there are. The place in this list is the id, which files hold: new ones come last.
constexpr auto kKnown = [] {
  std::array<Known, 72> all;
  std::size_t count = 0;
  const auto add = [&](const Known& known) { all.at(count++) = known; };
  const auto add_groups = [&](char suffix) {
    for (const std::uint32_t bits : {1u, 2u, 3u, 4u}) {
      for (const std::uint32_t block : {32u, 64u, 128u}) add(group(Format::w(bits, block, suffix)));
    }
  };
  add(named(Format::f32, "f32", 0));
  add(named(Format::f16, "f16", 1));
  add(named(Format::bf16, "bf16", 30));
  add(named(Format::q4_0, "q4_0", 2));
  add(named(Format::q8_0, "q8_0", 8));
  add(named(Format::q4_k, "q4_k", 12));
  add(named(Format::q5_k, "q5_k", 13));
  add(named(Format::q6_k, "q6_k", 14));
  add(named(Format::q4_nibbles, "q4_nibbles"));
  add_groups('\0');
  add_groups('z');
  add(named(Format::iq4_nl, "iq4_nl", 20));
  add(named(Format::fp4, "fp4", kPrivateTypes + 1));
  add(named(Format::nf4, "nf4", kPrivateTypes + 2));
  add_groups('r');
  add(named(Format::int8_fp8, "int8_fp8"));
  add(named(Format::index32, "index32", 26));
  add(named(Format::int4_fp8, "int4_fp8"));
  add(named(Format::int8_e5m2, "int8_e5m2"));
  add(named(Format::int4_e5m2, "int4_e5m2"));
  for (const std::string_view letters : {"z", "zr"}) {
    for (const std::uint32_t block : {32u, 64u, 128u}) add(group(Format::w(8, block, letters)));
  }
  for (const std::uint32_t block : {32u, 64u, 128u}) add(group(Format::w(4, block, "zr")));
  add(named(Format::q4_0_tile, "q4_0_tile", kPrivateTypes + 3));
  add(named(Format::w4_outliers, "w4_outliers", kPrivateTypes + 4));
  add(named(Format::iq4_xs, "iq4_xs", 23));
  add(named(Format::iq2_xxs, "iq2_xxs", 16));
  add(named(Format::iq2_xs, "iq2_xs", 17));
  add(named(Format::iq3_xxs, "iq3_xxs", 18));
  add(named(Format::iq1_s, "iq1_s", 19));
  add(named(Format::iq3_s, "iq3_s", 21));
  add(named(Format::iq2_s, "iq2_s", 22));
  add(named(Format::iq1_m, "iq1_m", 29));
  if (count != all.size()) throw "the array is not full";
  return all;
}();

constexpr auto kFormats = [] {
  std::array<Format, kKnown.size()> formats;
  std::ranges::transform(kKnown, formats.begin(), &Known::format);
  return formats;
}();

constexpr auto kIq4 = [] {
  std::array<float, kCodes> values;
  std::ranges::copy(kIq4Values, values.begin());
  return values;
}();
// Sign, two bits of exponent (bias 1), one of fraction.
constexpr std::array<float, kCodes> kFp4{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
constexpr std::array<float, kCodes> kNf4{-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

}  // namespace

std::span<const Format> all_formats() { return kFormats; }
bool exists(Format format) { return std::ranges::find(kFormats, format) != kFormats.end(); }

std::string_view to_string(Format format) {
  const auto* const known = std::ranges::find(kKnown, format, &Known::format);
  return known == kKnown.end() ? "?" : known->text();
}

std::optional<Format> format_by_name(std::string_view name) {
  const auto* const known = std::ranges::find(kKnown, name, &Known::text);
  return known == kKnown.end() ? std::nullopt : std::optional(known->format);
}

std::string weight_format_names() {
  std::string names;
  for (const Known& known : kKnown) {
    if (known.format.is_for_weights()) names.append(names.empty() ? "" : ", ").append(known.text());
  }
  return names;
}

std::uint32_t format_id(Format format) {
  const auto* const found = std::ranges::find(kFormats, format);
  VITRO_CHECK(found != kFormats.end(), "there is no such format");
  return static_cast<std::uint32_t>(found - kFormats.begin());
}

std::optional<Format> format_by_id(std::uint32_t id) { return id < kFormats.size() ? std::optional(kFormats[id]) : std::nullopt; }

std::uint32_t gguf_type_id(Format format) {
  const auto* const known = std::ranges::find(kKnown, format, &Known::format);
  VITRO_CHECK(known != kKnown.end() && known->gguf_type != kNoType, "not a format of GGUF files");
  return known->gguf_type;
}

std::optional<Format> format_of_gguf_type(std::uint32_t type) {
  const auto* const known = std::ranges::find(kKnown, type, &Known::gguf_type);
  return known == kKnown.end() || type == kNoType ? std::nullopt : std::optional(known->format);
}

const std::array<float, kCodes>* code_table(Format format) {
  if (format.family != Format::Family::table) return nullptr;
  switch (format.values) {
    case Format::Values::iq4_nl:
      return &kIq4;
    case Format::Values::fp4:
      return &kFp4;
    case Format::Values::nf4:
      return &kNf4;
    default:
      return nullptr;
  }
}

}  // namespace vitro
