// Number formats: how the elements of a tensor are written.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vitro {

// A format is a value: it says what its blocks hold. Which formats exist, their names and their numbers in files: format.cpp.
struct Format {
  // What formats have in common that one codec reads (engine/quant).
  enum class Family : std::uint8_t {
    plain,    // one number per element
    block,    // a scale, then integers: q4_0, q8_0
    k_quant,  // scales (and minima) of runs within a block, and integers: q4_k, q5_k, q6_k, iq4_xs
    codebook,  // scales of runs within a block, and places in a list of 4 or 8 values at once: engine/quant/codebook_blocks.hpp
    nibbles,  // q4_0 without its scales, which are an operand of their own, f16 [N, K/32]
    group,    // w<bits>g<block>[z][r]: a scale, the zero point (z), the codes; with r all blocks of a row have one scale (and zero point)
    table,    // as q4_0, but a code names one of 16 values
    mixed,    // four bits with one scale per row, and some weights of the row in int8: engine/quant/outlier_rows.hpp
    tile,     // q4_0 in groups of 16 rows and 2 columns, in the order of a matrix unit's tiles: engine/quant/tile_groups.hpp
    kv,       // of KV pools alone: engine/quant/kv_rows.hpp
    index,    // of lists of rows, tokens and blocks
  };
  // What the bits of an element stand for: an integer, a float, or the index of a value in code_table(). Of KV pools, what their values
  // are written in: 8-bit floats with 3 or 2 bits of fraction.
  enum class Values : std::uint8_t { integers, floats, bfloats, iq4_nl, fp4, nf4, e4m3, e5m2 };

  Family family = Family::plain;
  std::uint8_t bits = 32;                      // of an element
  std::uint16_t block = 1;                     // elements
  std::uint8_t head = 0;                       // bytes of a block beside the bits of its elements
  bool zero_point = false, row_scale = false;
  Values values = Values::floats;

  // The name without its letters: w2g64z is w(2, 64, 'z'), w4g128zr is w(4, 128, "zr"). Not all of these exist.
  static constexpr Format w(std::uint32_t bits, std::uint32_t group, std::string_view letters) {
    const bool zero = letters.starts_with('z');
    return {Family::group,
            static_cast<std::uint8_t>(bits),
            static_cast<std::uint16_t>(group),
            static_cast<std::uint8_t>(zero ? 3 : 2),
            zero,
            letters.ends_with('r'),
            Values::integers};
  }
  static constexpr Format w(std::uint32_t bits, std::uint32_t group, char letter) { return w(bits, group, std::string_view(&letter, 1)); }
  static constexpr Format w(std::uint32_t bits, std::uint32_t group) { return w(bits, group, std::string_view()); }
  // Keys in integers of so many bits beside values in 8 bits. A view of them counts bytes: block_bytes() is 1, and engine/quant/kv_rows.hpp
  // says how long a row is.
  static constexpr Format kv(std::uint8_t key_bits, Values values) {
    return {Family::kv, key_bits, 1, static_cast<std::uint8_t>(1 - key_bits / 8), false, false, values};
  }
  // Of codebooks: so many whole bits per element, and the other bytes that a block of 256 takes.
  static constexpr Format iq(std::uint8_t bits, std::uint8_t head) {
    return {Family::codebook, bits, 256, head, false, false, Values::integers};
  }
  static const Format f32, f16, bf16, q4_0, q8_0, q4_k, q5_k, q6_k, q4_nibbles, iq4_nl, iq4_xs, fp4, nf4, q4_0_tile, w4_outliers, int8_fp8,
      int4_fp8, int8_e5m2, int4_e5m2, index32, iq2_xxs, iq2_xs, iq3_xxs, iq1_s, iq3_s, iq2_s, iq1_m;

  // Inlined always: files of several instruction sets use these, and no copy of one may be linked into another.
  [[gnu::always_inline]] constexpr std::size_t block_bytes() const { return head + std::size_t{block} * bits / 8; }
  [[gnu::always_inline]] constexpr bool is_group() const { return family == Family::group; }
  // A row can be read whole alone: what it has beside its blocks is for all of it.
  [[gnu::always_inline]] constexpr bool has_outliers() const { return family == Family::mixed; }
  // A block is one scale and codes of a few bits: the functions of engine/quant/group_formats.hpp read it.
  [[gnu::always_inline]] constexpr bool has_codes() const {
    return is_group() || family == Family::table || (family == Family::block && bits == 4);
  }
  [[gnu::always_inline]] constexpr bool is_codebook() const { return family == Family::codebook; }
  // Of KV pools alone. Pools in f32 and f16 hold plain numbers.
  [[gnu::always_inline]] constexpr bool is_for_kv() const { return family == Family::kv; }
  // False for what a model's weights are never given in.
  [[gnu::always_inline]] constexpr bool is_for_weights() const {
    return family != Family::nibbles && family != Family::kv && family != Family::index;
  }

  [[gnu::always_inline]] friend constexpr bool operator==(Format a, Format b) {
    return __builtin_bit_cast(std::uint64_t, a) == __builtin_bit_cast(std::uint64_t, b);
  }
};
static_assert(sizeof(Format) == sizeof(std::uint64_t), "compared as one word");

inline constexpr Format Format::f32{};
inline constexpr Format Format::f16{.bits = 16};
inline constexpr Format Format::bf16{.bits = 16, .values = Values::bfloats};
inline constexpr Format Format::q4_0{Family::block, 4, 32, 2, false, false, Values::integers};
inline constexpr Format Format::q8_0{Family::block, 8, 32, 2, false, false, Values::integers};
inline constexpr Format Format::q4_k{Family::k_quant, 4, 256, 16, false, false, Values::integers};
inline constexpr Format Format::q5_k{Family::k_quant, 5, 256, 16, false, false, Values::integers};
inline constexpr Format Format::q6_k{Family::k_quant, 6, 256, 18, false, false, Values::integers};
inline constexpr Format Format::q4_nibbles{Family::nibbles, 4, 32, 0, false, false, Values::integers};
inline constexpr Format Format::iq4_nl{Family::table, 4, 32, 2, false, false, Values::iq4_nl};
inline constexpr Format Format::iq4_xs{Family::k_quant, 4, 256, 8, false, false, Values::iq4_nl};
inline constexpr Format Format::fp4{Family::table, 4, 32, 2, false, false, Values::fp4};
inline constexpr Format Format::nf4{Family::table, 4, 32, 2, false, false, Values::nf4};
inline constexpr Format Format::q4_0_tile{Family::tile, 4, 2, 2, false, false, Values::integers};  // blocks: of a row by itself
inline constexpr Format Format::w4_outliers{Family::mixed, 4, 32, 0, false, true, Values::integers};  // blocks: of nibbles alone
inline constexpr Format Format::int8_fp8 = Format::kv(8, Values::e4m3);
inline constexpr Format Format::int4_fp8 = Format::kv(4, Values::e4m3);
inline constexpr Format Format::int8_e5m2 = Format::kv(8, Values::e5m2);
inline constexpr Format Format::int4_e5m2 = Format::kv(4, Values::e5m2);
inline constexpr Format Format::index32{Family::index, 32, 1, 0, false, false, Values::integers};
inline constexpr Format Format::iq2_xxs = Format::iq(2, 2);
inline constexpr Format Format::iq2_xs = Format::iq(2, 10);
inline constexpr Format Format::iq3_xxs = Format::iq(3, 2);
inline constexpr Format Format::iq1_s = Format::iq(1, 18);
inline constexpr Format Format::iq3_s = Format::iq(3, 14);
inline constexpr Format Format::iq2_s = Format::iq(2, 18);
inline constexpr Format Format::iq1_m = Format::iq(1, 24);

// Formats that exist, in the order of their ids.
std::span<const Format> all_formats();
bool exists(Format format);

std::string_view to_string(Format format);  // "?" for one that does not exist
std::optional<Format> format_by_name(std::string_view name);
std::string weight_format_names();  // for messages: those of is_for_weights(), with commas

// A number for cache keys and the like: it stays the same when formats are added. Requires: exists(format).
std::uint32_t format_id(Format format);
std::optional<Format> format_by_id(std::uint32_t id);
inline std::strong_ordering operator<=>(Format a, Format b) { return format_id(a) <=> format_id(b); }  // Requires: both exist

// The type of tensors in GGUF files. Requires: weights can have the format, or it is index32.
std::uint32_t gguf_type_id(Format format);
std::optional<Format> format_of_gguf_type(std::uint32_t type);

// The values at scale 1, by code: of iq4_nl (GGUF's), fp4 (E2M1) and nf4 (QLoRA's); nullptr for other families.
inline constexpr std::size_t kCodes = 16;
// Those of iq4_nl and iq4_xs.
inline constexpr std::int8_t kIq4Values[kCodes]{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const std::array<float, kCodes>* code_table(Format format);

}  // namespace vitro
