// Turns the three matrices of an FFN into neuron bundles (bundle_layout.hpp): Gate and Up are rows already, Down is
// transposed, so that what neuron i adds to the output becomes one row.
#pragma once
#include "engine/model/gguf.hpp"
#include "engine/model/neuron_order.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// What transposing may hold in memory, beside a few rows. Down is read once per group of neurons whose columns fit.
inline constexpr Bytes kTransposeBytes = 64 * MiB;

// Writes the bundles of all experts of one layer. Rows that keep their format keep their bits; others, and a Down in blocks
// (whose blocks run along the other axis), are dequantised and quantised anew. sources: gate, up, down; where the first two are one tensor,
// it has the rows of Up behind those of Gate, and one expert. A Down that is
// stored by neurons (down_by_neuron_name) has rows like the others. The fourth: the weights of a norm over all neurons before Down, or
// null; each multiplies its neuron's row of Down, so that who adds these rows up has nothing left to do but to divide by the norm.
// Returns the bytes of the layer's Role::ffn_scales, none when the scales lie in the rows: an eighth of the nibbles.
// Columns that stand in an order of their own (input_order.hpp) go back to where their inputs are.
// Throws ConfigError for values that the bundles' format can not hold.
std::vector<std::byte> write_bundles(const Gguf& gguf, const std::array<const TensorInfo*, 4>& sources, const Weight& bundles,
                                     const NeuronOrder& order, SectionWriter& out, Bytes transpose_bytes = kTransposeBytes);

// Writes the columns of `source` as the rows of `weight`.
void write_transposed(const Gguf& gguf, const TensorInfo& source, const Weight& weight, SectionWriter& out,
                      Bytes transpose_bytes = kTransposeBytes);

}  // namespace vitro
