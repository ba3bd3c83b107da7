// How the three FFN matrices lie in flash neuron by neuron: Gate row, Up row and Down column of one neuron side by side,
// because they are needed together (PowerInfer-2, section 4.4). Bytes only; engine/ffn decides what to load.
#pragma once
#include "engine/machine/kernel_call.hpp"

namespace vitro {

struct BundleOptions {
  // Gate in pages of its own, so that Up and Down can be left in flash where it turns out to be zero.
  bool two_phases = false;
  // Matrix by matrix, as they are without bundles: a neuron takes three reads (the baseline of section 7.5).
  bool apart = false;
  friend bool operator==(const BundleOptions&, const BundleOptions&) = default;
};

struct BundleLayout {
  Format format = Format::f16;
  std::uint32_t neurons = 0;  // of one FFN, or of one expert
  std::uint32_t width = 0;    // elements of each of the three rows (the model's width)
  // Offsets of the rows within a bundle, and from one bundle to the next in a block; multiples of kPlaceUnit.
  Bytes gate = 0, up = 0, down = 0, bundle = 0;
  std::uint32_t per_block = 1;  // bundles under 4 KiB share a block
  Bytes block = 0;              // a multiple of kPageSize: the unit of I/O and of caching
  // Loading in two phases: a block's first `first_part` bytes hold the Gate row, the rest Up and Down. 0: in one read.
  Bytes first_part = 0;
  // 3 when the matrices lie apart: first the Gate rows of all blocks, then all Up rows, then all Down columns. A block is then
  // made of three pieces of equal size, and the offsets of its rows are within their pieces.
  std::uint32_t stripes = 1;

  std::uint32_t blocks() const { return (neurons + per_block - 1) / per_block; }
  Bytes piece() const { return block / stripes; }
  Bytes bytes() const { return Bytes{blocks()} * block; }
  std::uint32_t block_of(std::uint32_t neuron) const { return neuron / per_block; }
  // From the start of the neuron's block to its bundle.
  Bytes within_block(std::uint32_t neuron) const { return neuron % per_block * bundle; }
};

// One large read per bundle (24 KiB for f16 at width 4096); or, with two_phases, Gate in whole pages and then Up and Down in
// whole pages. The scales lie inside the rows, so 4-bit rows of 4096 elements take 2304 bytes: Gate 4 KiB, Up and Down 8 KiB.
// Bundles of a page or less are always read in one. Throws ConfigError when a row is no whole number of the format's blocks.
// Matrices apart: each row in whole pages, or as many rows as one page holds.
BundleLayout bundle_layout(Format format, std::uint32_t neurons, std::uint32_t width, BundleOptions options);

}  // namespace vitro
