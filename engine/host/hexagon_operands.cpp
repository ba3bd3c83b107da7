#include "engine/host/hexagon_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "engine/kernels/common/kernel_set.hpp"
#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/lut_stages.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/group_formats.hpp"

namespace vitro::hexagon {
namespace {

Status refused(std::string why) { return {Code::unsupported_shape, std::move(why)}; }

// A row of activations in blocks of `group`, as the int8 contract defines them, or with `top` in the place of 127.
template <class Quant>
struct QuantisedRow {
  std::vector<Quant> quants;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

using Quantised = QuantisedRow<std::int8_t>;

template <class Quant>
void quantise_to(float top, const float* x, std::uint32_t columns, std::uint32_t group, QuantisedRow<Quant>& out) {
  const std::uint32_t blocks = columns / group;
  out.quants.resize(columns);
  out.scales.resize(blocks);
  out.sums.resize(blocks);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const float* block = x + std::size_t{b} * group;
    float most = 0;
    for (std::uint32_t i = 0; i < group; ++i) most = std::max(most, std::abs(block[i]));
    const bool zero = most < 0x1p-100f;
    const float inverse = zero ? 0 : top / most;
    out.scales[b] = zero ? 0 : most / top;
    out.sums[b] = 0;
    for (std::uint32_t i = 0; i < group; ++i) {
      const auto q = static_cast<Quant>(std::nearbyint(block[i] * inverse));
      out.quants[std::size_t{b} * group + i] = q;
      out.sums[b] += q;
    }
  }
}

void quantise(const float* x, std::uint32_t columns, std::uint32_t group, Quantised& out) {
  if (group != kBlock) return quantise_to(127, x, columns, group, out);
  const std::uint32_t blocks = columns / group;
  out.quants.resize(columns);
  out.scales.resize(blocks);
  out.sums.resize(blocks);
  kernel_set("auto").quantise(x, blocks, 1, out.quants.data(), out.scales.data(), out.sums.data());
  for (std::int32_t& sum : out.sums) sum /= -8;
}

// Of a block with tables of int8 (variant::kInt8Tables).
RoundedScale rounded_scale(std::span<const std::int8_t> quants, float scale, std::int32_t sum, std::int32_t step) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < quants.size(); i += lut::kGroup) {
    std::int32_t whole = 0;
    for (std::size_t j = 0; j < lut::kGroup; ++j) whole += std::abs(std::int32_t{quants[i + j]});
    most = std::max(most, whole);
  }
  const std::int32_t factor = most == 0 ? 0 : std::min(32767, (127 << 15) / most);
  return {scale, sum, factor, static_cast<float>(most) / 127.0f * (static_cast<float>(step) * 0.5f)};
}

// turned: as the matrix unit's second operand has them.
void write_tiles(const View& x, bool turned, std::byte* out) {
  const std::uint32_t batch = x.shape[0], k = columns(x), tiles = k / kTile;
  std::memset(out, 0, Bytes{round_up(batch, kTile)} * k * 2);
  for (std::uint32_t m = 0; m < batch; ++m) {
    const float* row = x.as<float>() + std::size_t{m} * k;
    std::byte* strip = out + std::size_t{m / kTile} * tiles * kTileElements * 2;
    for (std::uint32_t c = 0; c < k; ++c) {
      const std::uint16_t bits = float_to_half(row[c]);
      const std::uint32_t place = turned ? tile_place(c % kTile, m % kTile) : tile_place(m % kTile, c % kTile);
      std::memcpy(strip + (std::size_t{c / kTile} * kTileElements + place) * 2, &bits, 2);
    }
  }
}

void write_int8_tiles(const View& x, std::byte* out, float* scales) {
  const std::uint32_t batch = x.shape[0], k = columns(x);
  std::memset(out, 0, Bytes{round_up(batch, kTile)} * k);
  Quantised row;
  for (std::uint32_t m = 0; m < batch; ++m) {
    quantise(x.as<float>() + std::size_t{m} * k, k, k, row);
    scales[m] = row.scales[0];
    std::byte* strip = out + std::size_t{m / kTile} * kTile * k;
    for (std::uint32_t c = 0; c < k; ++c) {
      strip[c / kTile * kTileElements + tile_place_int8(m % kTile, c % kTile)] = static_cast<std::byte>(row.quants[c]);
    }
  }
}

// In blocks, as the strips' bytes have the depth.
void write_block_tiles(const View& x, std::byte* out, float* scales) {
  const std::uint32_t batch = x.shape[0], k = columns(x);
  std::memset(out, 0, Bytes{round_up(batch, kTile)} * k);
  Quantised row;
  for (std::uint32_t m = 0; m < batch; ++m, scales += blocks_of(k)) {
    quantise(x.as<float>() + std::size_t{m} * k, k, kBlock, row);
    std::ranges::copy(row.scales, scales);
    std::byte* strip = out + std::size_t{m / kTile} * kTile * k;
    for (std::uint32_t c = 0; c < k; ++c) {
      const std::uint32_t place = tile_place_int8(m % kTile, summed_depth(c % kTile));
      strip[std::size_t{c / kTile} * kTileElements + place] = static_cast<std::byte>(row.quants[c]);
    }
  }
}

// What a bit of each plane adds to a code's integer, in bytes that are or'ed: the highest one is the sign (hvx_int8_tiles()).
void write_int8_tables(const PlaneForm& form, std::byte* out) {
  const std::uint32_t top = form.bits - 1;
  const auto byte = [&](std::uint32_t plane, std::uint32_t bit) -> std::uint32_t {
    if (form.zeros == Zeros::signs) return bit != 0 ? 1 : 0xff;
    return plane < top ? bit << plane : bit != 0 ? 0 : 0x100 - form.zero;
  };
  std::memset(out, 0, 2 * kVectorBytes);
  for (std::uint32_t plane = 0; plane < form.bits; ++plane) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      for (std::uint32_t e = 0; e < lut::kEntries; ++e) {
        const auto two = static_cast<std::uint16_t>(byte(plane, e >> 2 * half & 1) | byte(plane, e >> (2 * half + 1) & 1) << 8);
        std::memcpy(out + plane / 2 * kVectorBytes + 2 * table_place(plane % 2 * 2 + half, e), &two, sizeof two);
      }
    }
  }
}

// What codes stand for; before it, of bit-serial weights, the tables that make codes of bits (lut_stages.hpp).
void write_code_tables(const MatmulForm& form, std::byte* out) {
  const auto put = [&](std::uint32_t table, std::uint32_t entry, std::uint16_t half) {
    std::memcpy(out + 2 * table_place(table, entry), &half, sizeof half);
  };
  const bool planes = form.bit_serial();
  if (planes) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      for (std::uint32_t e = 0; e < lut::kEntries; ++e) put(i, e, repack_entry(i, e));
    }
    out += kVectorBytes;
  }
  for (std::uint32_t e = 0; e < lut::kEntries; ++e) {
    const auto code = static_cast<float>(e), zero = static_cast<float>(planes ? form.planes.zero : 8);
    put(0, e, float_to_half(planes && form.planes.zeros == Zeros::signs ? 2 * code - 1 : code - zero));
  }
}

}  // namespace

Result<MatmulForm> matmul_form(const KernelCall& call, CodeMatmul products) {
  if (!call.is<ops::Matmul>()) return refused(fmt::format("it has no operator {}", to_string(call.op)));
  const bool rounded = call.variant == variant::kInt8Tables, wide = call.variant == variant::kInt16Tables;
  if (call.variant != variant::kInt8 && call.variant != variant::kHmx && call.variant != variant::kInt8Rows && !rounded && !wide) {
    return refused("it computes with integer or fp16 activations only");
  }
  if (call.in.size() > 2) return refused("it adds no bias");
  if (call.rows != nullptr || call.row_offsets != nullptr) return refused("it computes dense rows only");
  // What is bound at launch may be other bytes each time.
  const View& weights = call.in[0];
  if (!weights.memory || weights.data() == nullptr)
    return refused("it packs weights when a graph is loaded, but these are bound at launch");
  if (rounded || wide) {
    const Kind kind = wide ? Kind::matmul_lut_wide : Kind::matmul_lut_rounded;
    if (const std::optional<PlaneForm> planes = plane_form(weights)) return MatmulForm{kind, *planes};
  } else if (call.variant == variant::kInt8Rows) {
    const std::optional<PlaneForm> planes = plane_form(weights);
    if (planes && finite_scales(weights) && one_scale_per_row(weights)) return MatmulForm{Kind::matmul_hmx_int8, *planes};
    if (planes) {
      return refused(fmt::format("its matrix unit computes int8 matmuls of {} only if each row has one scale", to_string(weights.format)));
    }
  } else if (call.variant == variant::kHmx) {
    if (can_pack_strips(weights)) {
      if (weights.format == Format::q8_0) return MatmulForm{Kind::matmul_hmx_q8, {}};
      const Scales scales = weights.format == Format::q4_0_tile ? Scales::of_tile_groups
                            : weights.format.has_outliers()    ? Scales::of_outlier_rows
                                                               : Scales::of_blocks;
      return MatmulForm{Kind::matmul_hmx, {.scales = scales}};
    }
    const std::optional<PlaneForm> planes = weights.format.is_group() ? plane_form(weights) : std::nullopt;
    const Kind kind = call.method == Method::scaled_tables ? Kind::matmul_hmx_scaled : Kind::matmul_hmx_lut;
    if (planes && finite_scales(weights)) return MatmulForm{kind, *planes};
    if (can_pack_f16_strips(weights)) return MatmulForm{Kind::matmul_hmx_f16, {}};
  } else {
    const std::optional<PlaneForm> planes = plane_form(weights);
    const bool dots = can_pack(weights);
    if (planes && (products == CodeMatmul::look_up || (!dots && products != CodeMatmul::dot))) {
      return MatmulForm{Kind::matmul_lut, *planes};
    }
    if (planes && !dots) return refused(fmt::format("it computes {} by table look-up only", to_string(weights.format)));
    if (dots) return MatmulForm{weights.format == Format::q8_0 ? Kind::matmul_q8_0 : Kind::matmul_q4_0, {}};
  }
  return refused(fmt::format("it has no kernel for {} of this shape", to_string(weights.format)));
}

std::optional<StoredRows> stored_rows(const MatmulForm& form, const View& weights, Range rows) {
  const std::uint32_t k = columns(weights);
  if (form.kind == Kind::matmul_hmx && form.planes.scales == Scales::of_tile_groups) {
    return StoredRows{strips_bytes(Scales::of_tile_groups, rows.first, k), strips_bytes(Scales::of_tile_groups, rows.count, k)};
  }
  const Bytes row = Bytes{k} * sizeof(std::uint16_t);
  if (form.kind == Kind::matmul_hmx_f16 && weights.format == Format::f16 && weights.layout == Layout::rows && row % kVectorBytes == 0) {
    return StoredRows{rows.first * row, rows.count * row, kRowOffsetUnit, true};
  }
  return std::nullopt;
}

Bytes weights_bytes(const MatmulForm& form, std::uint32_t rows, std::uint32_t columns) {
  if (form.bit_serial()) return lut_panels_bytes(form.planes, rows, columns);
  if (form.kind == Kind::matmul_hmx_q8 || form.kind == Kind::matmul_q8_0) return q8_strips_bytes(rows, columns);
  if (form.kind == Kind::matmul_hmx_f16) return f16_strips_bytes(rows, columns);
  return strips_bytes(form.planes.scales, rows, columns);
}

void pack_weights(const MatmulForm& form, const View& weights, Range rows, std::byte* out) {
  if (form.bit_serial()) return pack_lut_panels(weights, rows, out);
  if (form.kind == Kind::matmul_hmx_f16) return pack_f16_strips(weights, rows, out);
  pack_strips(weights, rows, out);
}

std::uint32_t encoding(const MatmulForm& form) {
  // One with q4_0's values; the others need none.
  if (form.kind == Kind::matmul_hmx || form.kind == Kind::matmul_hmx_q8 || form.kind == Kind::matmul_hmx_f16) return 1;
  if (form.by_blocks()) return 2;
  if (form.kind == Kind::matmul_hmx_int8) return 8192 + form.planes.bits * 4 + static_cast<std::uint32_t>(form.planes.zeros);
  if (form.kind == Kind::matmul_hmx_scaled) return 16384 + form.planes.zero * 4 + static_cast<std::uint32_t>(form.planes.zeros);
  if (form.kind == Kind::matmul_hmx_lut) return 256 + form.planes.zero * 4 + static_cast<std::uint32_t>(form.planes.zeros);
  if (!form.looks_up()) return 0;
  if (form.kind == Kind::matmul_lut_wide) return 2048 + form.planes.group;
  const bool rounded = form.kind == Kind::matmul_lut_rounded;  // beside which stands what an entry is worth
  return form.planes.group + (rounded ? 4096u + (form.planes.zeros == Zeros::signs ? 1 : 0) : 0);
}

ActivationBytes activations_bytes(const MatmulForm& form, std::uint32_t batch, std::uint32_t columns) {
  if (form.in_tiles()) return {Bytes{round_up(batch, kTile)} * columns * 2, form.bit_serial() ? 2 * kVectorBytes : kVectorBytes};
  if (form.kind == Kind::matmul_hmx_int8) return {Bytes{round_up(batch, kTile)} * columns, 2 * kVectorBytes + batch * sizeof(float)};
  if (form.by_blocks()) return {Bytes{round_up(batch, kTile)} * columns, Bytes{batch} * blocks_of(columns) * sizeof(float)};
  if (form.looks_up()) {
    const Bytes scale = form.kind == Kind::matmul_lut_rounded ? sizeof(RoundedScale) : sizeof(ActivationScale);
    const Bytes quant = form.kind == Kind::matmul_lut_wide ? sizeof(std::int16_t) : sizeof(std::int8_t);
    return {Bytes{batch} * columns * quant, Bytes{batch} * (columns / form.planes.group) * scale};
  }
  return {};
}

namespace {

void write_wide(const MatmulForm& form, const View& x, std::byte* first, std::byte* second) {
  const std::uint32_t k = columns(x), group = form.planes.group;
  auto* scales = reinterpret_cast<ActivationScale*>(second);
  QuantisedRow<std::int16_t> row;
  for (std::uint32_t m = 0; m < x.shape[0]; ++m, first += k * sizeof(std::int16_t)) {
    quantise_to(variant::kMostWide, x.as<float>() + std::size_t{m} * k, k, group, row);
    std::memcpy(first, row.quants.data(), k * sizeof(std::int16_t));
    for (std::uint32_t b = 0; b < k / group; ++b) *scales++ = {row.scales[b], row.sums[b]};
  }
}

}  // namespace

void write_activations(const MatmulForm& form, const View& x, std::byte* first, std::byte* second) {
  if (form.in_tiles()) {
    write_tiles(x, form.kind == Kind::matmul_hmx_scaled, first);
    return write_code_tables(form, second);
  }
  if (form.kind == Kind::matmul_hmx_int8) {
    write_int8_tables(form.planes, second);
    return write_int8_tiles(x, first, reinterpret_cast<float*>(second + 2 * kVectorBytes));
  }
  if (form.by_blocks()) return write_block_tiles(x, first, reinterpret_cast<float*>(second));
  if (form.kind == Kind::matmul_lut_wide) return write_wide(form, x, first, second);
  const std::uint32_t k = columns(x), group = form.planes.group;
  Quantised row;
  auto* scales = reinterpret_cast<ActivationScale*>(second);
  auto* rounded = reinterpret_cast<RoundedScale*>(second);
  for (std::uint32_t m = 0; m < x.shape[0]; ++m) {
    quantise(x.as<float>() + std::size_t{m} * k, k, group, row);
    std::memcpy(first + std::size_t{m} * k, row.quants.data(), k);
    for (std::uint32_t b = 0; b < k / group; ++b) {
      const std::int8_t* quants = row.quants.data() + std::size_t{b} * group;
      if (form.kind == Kind::matmul_lut_rounded) {
        *rounded++ = rounded_scale({quants, group}, row.scales[b], row.sums[b], form.planes.zeros == Zeros::signs ? 2 : 1);
      } else {
        *scales++ = {row.scales[b], row.sums[b]};
      }
    }
  }
}

}  // namespace vitro::hexagon
