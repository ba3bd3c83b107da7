// Builds a target's KernelSet from its T (tiles.hpp), which names its V (lanes.hpp) and its widest register type.
#pragma once
#include "engine/kernels/common/block_groups.hpp"
#include "engine/kernels/common/block_rows.hpp"
#include "engine/kernels/common/codebook_tiles.hpp"
#include "engine/kernels/common/coefficients.hpp"
#include "engine/kernels/common/half_sums.hpp"
#include "engine/kernels/common/k_tiles.hpp"
#include "engine/kernels/common/limits.hpp"
#include "engine/kernels/common/outliers.hpp"
#include "engine/kernels/common/pack_kv.hpp"
#include "engine/kernels/common/rounded_look_up.hpp"
#include "engine/kernels/common/rows.hpp"
#include "engine/kernels/common/unpack_kv.hpp"

namespace vitro {

template <class T>
constexpr KernelSet make_kernel_set(const char* name) {
  using V = typename T::V;
  KernelSet set{};
  set.name = name;
  set.dots_f32 = lanes::dots<V, float, float>;
  set.dots_f16 = lanes::dots<V, Half, float>;
  set.dots_halves = lanes::dots<V, Half, Half>;
  set.half_sums = lanes::half_sums<V>;
  set.weighted_f32 = lanes::weighted<V, float>;
  set.weighted_f16 = lanes::weighted<V, Half>;
  set.placed_dots_f32 = lanes::placed_dots<V, float>;
  set.placed_dots_f16 = lanes::placed_dots<V, Half>;
  set.placed_weighted_f32 = lanes::placed_weighted<V, float>;
  set.placed_weighted_f16 = lanes::placed_weighted<V, Half>;
  set.placed_weighted_q4_0 = lanes::placed_weighted_q4_0<V>;
  set.placed_weighted_nibbles = lanes::placed_weighted_nibbles<V>;
  set.placed_coefficients_q4_0 = coefficients::q4_0<T>;
  set.placed_coefficients_nibbles = coefficients::nibbles<T>;
  set.softmax = lanes::softmax<V>;
  set.activate = lanes::activate<V>;
  set.scale = lanes::scale<V>;
  set.add_halves = lanes::add_halves<V>;
  set.relu_halves = lanes::relu_halves<V>;
  set.to_f16 = lanes::convert<V, float, Half>;
  set.to_f32 = lanes::convert<V, Half, float>;
  set.dequantise = block_rows::dequantise<V>;
  set.dequantise_nibbles = block_rows::dequantise_nibbles<V>;
  set.unpack_kv = unpack_kv::rows<V>;
  set.pack_kv = pack_kv::row<T>;
  set.quantise = lanes::quantise<V>;
  set.quantise_blocks = lanes::quantise_blocks<V>;
  set.tiles_q4_0 = tiles::multiply<T, tiles::Q4>;
  set.tiles_q8_0 = tiles::multiply<T, tiles::Q8>;
  if constexpr (tiles::GathersLines<T>) {
    set.group_q4_0 = tiles::multiply_group<T, tiles::Q4>;
    set.group_q8_0 = tiles::multiply_group<T, tiles::Q8>;
    set.group_q4_k = tiles::multiply_group_q4_k<T>;
  }
  set.tiles_values = tiles::multiply_values<T>;
  set.tiles_q4_k = tiles::multiply_k<T, tiles::Q4K>;
  set.tiles_q5_k = tiles::multiply_k<T, tiles::Q5K>;
  set.tiles_q6_k = tiles::multiply_k<T, tiles::Q6K>;
  set.tiles_iq4_xs = tiles::multiply_k<T, tiles::Iq4Xs>;
  set.codebook_rows = tiles::codebook_rows<T>;
  set.code_dots = tiles::code_dots<T>;
  set.add_outliers = outliers::add<V>;
  set.unpack_planes = tiles::unpack_planes<T>;
  set.tables = look_up::tables<T>;
  set.look_ups = look_up::multiply<T>;
  set.rounded_tables = look_up::rounded_tables<T>;
  set.rounded_look_ups = look_up::multiply_rounded<T>;
  set.reads = {{{"one stream", limits::read<T, 1, 0>},
                {"one stream, prefetch", limits::read<T, 1, 4096>},
                {"four streams", limits::read<T, 4, 0>},
                {"four streams, prefetch", limits::read<T, 4, 2048>}}};
  set.row_reads = {{{"one row at a time", limits::read_rows<T, 1, 0>},
                    {"four rows by turns", limits::read_rows<T, 4, 0>},
                    {"16 rows by turns", limits::read_rows<T, 16, 0>},
                    {"16 rows by turns, prefetch", limits::read_rows<T, 16, 512>}}};
  set.int8_macs = limits::int8_macs<T>;
  set.float_macs = limits::float_macs<V>;
  return set;
}

}  // namespace vitro
