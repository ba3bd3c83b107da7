// How the three FFN matrices lie in flash neuron by neuron: Gate row, Up row and Down column of one neuron side by side,
// because they are needed together (PowerInfer-2, section 4.4). Bytes only; engine/parts/ffn/neuron_cluster decides what to load.
#pragma once
#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/ops/kernel_call.hpp"

namespace vitro {

enum class BundleForm : std::uint8_t {
  automatic,         // scales_resident for q4_0, else one_read
  one_read,          // one large read per bundle: 24 KiB for f16 at width 4096
  two_phases,        // Gate in pages of its own, so that Up and Down can be left in flash where it turns out to be zero
  apart,             // matrix by matrix, as they are without bundles: a neuron takes three reads (the baseline of section 7.5)
  apart_two_phases,  // the same, Gate before Up and Down
  scales_inline,     // q4_0 rows side by side: the pages that Gate ends in come first, 4 + 4 KiB at width 4096 (section 4.4)
  scales_resident,   // nibbles alone in flash, as two_phases; the scales of all neurons stay in DRAM (section 7.2.3 counts them)
};
inline constexpr BundleForm kBundleForms[] = {BundleForm::automatic,      BundleForm::one_read,         BundleForm::two_phases,
                                              BundleForm::apart,          BundleForm::apart_two_phases, BundleForm::scales_inline,
                                              BundleForm::scales_resident};

// As `vitro pack --layout`, a pack's plan and `engine.layout` call them: auto, bundles, bundles_two_phase, apart,
// apart_two_phase, scales_inline, scales_resident.
std::string_view to_string(BundleForm form);
std::optional<BundleForm> form_by_name(std::string_view name);  // none: no form has it
constexpr bool lies_apart(BundleForm form) { return form == BundleForm::apart || form == BundleForm::apart_two_phases; }

struct BundleLayout {
  Format format = Format::f16;  // of the rows in the blocks: q4_nibbles when the scales are resident
  std::uint32_t neurons = 0;    // of one FFN, or of one expert
  std::uint32_t width = 0;      // elements of each of the three rows (the model's width)
  // In flash: offsets of the rows within a bundle, and from one bundle to the next in a block; multiples of kRowOffsetUnit.
  Bytes gate = 0, up = 0, down = 0, bundle = 0;
  std::uint32_t per_block = 1;  // bundles under 4 KiB share a block
  Bytes block = 0;              // a multiple of kPageSize: the unit of I/O and of caching
  // Loading in two phases: a block's first `first_part` bytes hold the whole Gate row, the rest what is missing of Up and
  // Down. 0: in one read.
  Bytes first_part = 0;
  // 3 when the matrices lie apart: first the Gate rows of all blocks, then all Up rows, then all Down columns. A block is then
  // made of three pieces of equal size, and the offsets of its rows are within their pieces.
  std::uint32_t stripes = 1;
  // Of the bytes of a piece: those from gap_begin to gap_end, behind a Gate row with pages of its own, and those from `end` on are padding.
  Bytes gap_begin = 0, gap_end = 0, end = 0;

  std::uint32_t blocks() const { return (neurons + per_block - 1) / per_block; }
  Bytes piece() const { return block / stripes; }
  Bytes bytes() const { return Bytes{blocks()} * block; }
  std::uint32_t block_of(std::uint32_t neuron) const { return neuron / per_block; }
  // In DRAM the padding is left out, so the rows of a bundle lie side by side: what of a piece's first `offset` bytes is no padding.
  Bytes kept_before(Bytes offset) const { return std::min(offset, gap_begin) + (offset > gap_end ? std::min(offset, end) - gap_end : 0); }
  Bytes kept_piece() const { return kept_before(piece()); }
  Bytes kept_block() const { return stripes * kept_piece(); }
  bool padded() const { return kept_piece() < piece(); }
  // From the start of the neuron's block to its bundle.
  Bytes within_block(std::uint32_t neuron) const { return neuron % per_block * bundle; }
};

// `format`: of the weights as a model has them (q4_0, not q4_nibbles). Bundles of a page or less are always read in one; matrices
// apart have each row in whole pages, or as many rows as one page holds.
// Throws ConfigError when a row is no whole number of the format's blocks, or when a form for 4 bits meets another format.
BundleLayout bundle_layout(Format format, std::uint32_t neurons, std::uint32_t width, BundleForm form);

// What `automatic` means for weights of this format; any other form is itself. Throws ConfigError as bundle_layout() does.
BundleForm resolved_form(BundleForm form, Format format);

}  // namespace vitro
