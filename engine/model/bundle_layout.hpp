// How the three FFN matrices lie in flash neuron by neuron: Gate row, Up row and Down column of one neuron side by side,
// because they are needed together (PowerInfer-2, section 4.4). Bytes only; engine/ffn decides what to load.
#pragma once
#include <string_view>

#include "engine/machine/kernel_call.hpp"

namespace vitro {

enum class BundleForm : std::uint8_t {
  automatic,        // scales_resident for q4_0, else one_read
  one_read,         // one large read per bundle: 24 KiB for f16 at width 4096
  two_phases,       // Gate in pages of its own, so that Up and Down can be left in flash where it turns out to be zero
  scales_inline,    // q4_0 rows side by side: the pages that Gate ends in come first, 4 + 4 KiB at width 4096 (section 4.4)
  scales_resident,  // nibbles alone in flash, as two_phases; the scales of all neurons stay in DRAM (section 7.2.3 counts them)
};
// As `engine.layout` and `vitro pack --layout` call them: auto, bundles, bundles_two_phase, scales_inline, scales_resident.
std::string_view to_string(BundleForm form);
inline constexpr BundleForm kBundleForms[] = {BundleForm::automatic, BundleForm::one_read, BundleForm::two_phases,
                                              BundleForm::scales_inline, BundleForm::scales_resident};

struct BundleOptions {
  BundleForm form = BundleForm::automatic;
  friend bool operator==(const BundleOptions&, const BundleOptions&) = default;
};

struct BundleLayout {
  Format format = Format::f16;  // of the rows in the blocks: q4_nibbles when the scales are resident
  std::uint32_t neurons = 0;    // of one FFN, or of one expert
  std::uint32_t width = 0;      // elements of each of the three rows (the model's width)
  // Offsets of the rows within a bundle, and from one bundle to the next in a block; multiples of kPlaceUnit.
  Bytes gate = 0, up = 0, down = 0, bundle = 0;
  std::uint32_t per_block = 1;  // bundles under 4 KiB share a block
  Bytes block = 0;              // a multiple of kPageSize: the unit of I/O and of caching
  // Loading in two phases: a block's first `first_part` bytes hold the whole Gate row, the rest what is missing of Up and
  // Down. 0: in one read.
  Bytes first_part = 0;

  std::uint32_t blocks() const { return (neurons + per_block - 1) / per_block; }
  Bytes bytes() const { return Bytes{blocks()} * block; }
  std::uint32_t block_of(std::uint32_t neuron) const { return neuron / per_block; }
  // From the start of the neuron's block to its bundle.
  Bytes within_block(std::uint32_t neuron) const { return neuron % per_block * bundle; }
};

// `format`: of the weights as a model has them (q4_0, not q4_nibbles). Bundles of a page or less are always read in one.
// Throws ConfigError when a row is no whole number of the format's blocks, or when a form for 4 bits meets another format.
BundleLayout bundle_layout(Format format, std::uint32_t neurons, std::uint32_t width, BundleForm form);

// What `automatic` means for weights of this format; any other form is itself. Throws ConfigError as bundle_layout() does.
BundleForm resolved_form(BundleForm form, Format format);

}  // namespace vitro
