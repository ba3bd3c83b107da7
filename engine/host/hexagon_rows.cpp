#include "engine/host/hexagon_rows.hpp"

#include <fmt/format.h>

#include <cstring>

#include "engine/kernels/common/float_copies.hpp"
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::hexagon {
namespace {

static_assert(kPlaceBytes == kRowOffsetUnit, "a call's row offsets are the worker's places");

Status lacking(std::string why) { return {Code::unsupported_shape, std::move(why)}; }

bool is_q4(Format format) { return format == Format::q4_0 || format == Format::q4_nibbles; }

std::uint32_t bits_of(Format format) { return format == Format::f16 ? 16 : format == Format::q8_0 ? 8 : 4; }

// The matrix unit's tiles hold a scale times a code in fp16, of which qfloat has finite ones alone.
bool all_finite(const KernelCall& call) {
  const View &w = call.in[0], *apart = scales_of(call);
  const std::size_t blocks = columns(w) / block_elements(w.format), step = apart != nullptr ? sizeof(Half) : block_bytes(w.format);
  bool finite = true;
  for_each_row(call, [&](std::uint32_t row, Bytes at) {
    const std::byte* scales = apart != nullptr ? apart->data() + std::size_t{row} * blocks * step : w.data() + at;
    for (std::size_t b = 0; b < blocks; ++b) finite = finite && is_finite_half(scales + b * step);
  });
  return finite;
}

}  // namespace

Result<MatmulForm> rows_form(const KernelCall& call) {
  const Format format = call.in[0].format;
  const std::uint32_t k = columns(call.in[0]);
  const Scales scales = format == Format::q4_nibbles ? Scales::apart : Scales::of_blocks;
  if (call.in.size() > (scales == Scales::apart ? 3 : 2)) return lacking("of rows in places it takes no bias");
  if (format != Format::f16 && format != Format::q8_0 && !is_q4(format)) {
    return lacking(fmt::format("it computes no rows of {} in places", to_string(format)));
  }
  const Bytes row = row_bytes(is_q4(format) ? Format::q4_0 : format, k);
  if (k == 0 || k % kBlockColumns != 0 || k > kMostColumns || row % 4 != 0 || call.in[0].offset % 4 != 0) {
    return lacking(fmt::format("its DMA takes whole words, and rows of {} columns of {} are none", k, to_string(format)));
  }
  if (call.is<ops::Accumulate>()) {
    if (call.get<ops::Accumulate>().continues) return lacking("it adds rows to nothing else");
    if (variant::adds_in_int8(call.variant, format)) return lacking("it adds rows in the float contract only");
    return MatmulForm{Kind::add_rows, {.bits = bits_of(format), .scales = scales}};
  }
  if (!call.is<ops::Matmul>()) return lacking(fmt::format("it has no operator {}", to_string(call.op)));
  if (format == Format::f16) {
    if (call.variant != variant::kHmx) return lacking("it computes f16 with fp16 activations only");
    if (k % (2 * kTile) != 0) return lacking("it takes rows of f16 in pairs of tiles");
    return MatmulForm{Kind::matmul_hmx_f16, {}};
  }
  const bool bytes = format == Format::q8_0;
  if (call.variant == variant::kInt8) return MatmulForm{bytes ? Kind::matmul_q8_0 : Kind::matmul_q4_0, {.scales = scales}};
  if (call.variant != variant::kHmx) {
    return lacking(fmt::format("it computes rows of {} with int8 or fp16 activations only", to_string(format)));
  }
  if (!all_finite(call)) return lacking("its matrix unit takes rows of finite scales only");
  return MatmulForm{bytes ? Kind::matmul_hmx_q8 : Kind::matmul_hmx, {.scales = scales}};
}

Kind in_places(Kind kind) {
  switch (kind) {
    case Kind::matmul_hmx_f16:
      return Kind::matmul_hmx_f16_rows;
    case Kind::matmul_hmx_q8:
      return Kind::matmul_hmx_q8_rows;
    case Kind::matmul_hmx:
      return Kind::matmul_hmx_rows;
    case Kind::matmul_q8_0:
      return Kind::matmul_q8_0_rows;
    case Kind::matmul_q4_0:
      return Kind::matmul_q4_0_rows;
    default:
      return kind;
  }
}

std::uint32_t rows_of(const KernelCall& call) {
  return call.row_offsets != nullptr ? static_cast<std::uint32_t>(call.row_offsets->size()) : sliced(call, call.in[0].shape[0]).count;
}

Result<std::uint32_t> place_rows(HexagonSession& session, const KernelCall& call, std::uint32_t at) {
  const View& weights = call.in[0];
  const std::uint32_t count = rows_of(call);
  const Bytes row = row_bytes(weights.format, columns(weights));
  const View* apart = scales_of(call);
  const Bytes of_scales = apart != nullptr ? scale_row_bytes(weights) : 0;
  const Bytes size = apart != nullptr ? scales_behind(count) + count * of_scales : count * sizeof(std::uint32_t);
  const Result<std::uint32_t> list = session.scratch(size);
  if (!list.ok()) return list;
  auto* places = reinterpret_cast<std::uint32_t*>(session.at(list.value()));
  for (std::uint32_t i = 0; i < count; ++i) {
    places[i] = call.row_offsets != nullptr ? (*call.row_offsets)[i] : static_cast<std::uint32_t>(i * row / kRowOffsetUnit);
    if (call.row_offsets != nullptr) session.written(at + places[i] * kPlaceBytes, row);  // other neurons may have come
  }
  std::byte* scales = session.at(list.value()) + scales_behind(count);
  for (std::uint32_t i = 0; i < count && apart != nullptr; ++i, scales += of_scales) {
    std::memcpy(scales, apart->data() + (*call.rows)[i] * of_scales, of_scales);
  }
  session.written(list.value(), size);
  return list;
}

Result<std::uint32_t> place_row_weights(HexagonSession& session, const KernelCall& call) {
  const View h = in_f32(call.in[1]);
  const std::uint32_t batch = h.shape[0], neurons = columns(h), count = rows_of(call);
  const Bytes size = Bytes{batch} * count * sizeof(float);
  const Result<std::uint32_t> at = session.scratch(size);
  if (!at.ok()) return at;
  auto* to = reinterpret_cast<float*>(session.at(at.value()));
  for (std::uint32_t b = 0; b < batch; ++b) {
    for (const std::uint32_t row : *call.rows) *to++ = h.as<float>()[std::size_t{b} * neurons + row];
  }
  session.written(at.value(), size);
  return at;
}

void store_results(const KernelCall& call, const float* y) {
  const View& out = call.out[0];
  if (call.is<ops::Accumulate>()) return store_f32(out, 0, y, elements(out));
  const std::uint32_t n = call.in[0].shape[0], batch = call.in[1].shape[0];
  for (std::uint32_t b = 0; b < batch; ++b) {
    for_each_run(call, n, [&](Range run) {
      store_f32(out, std::size_t{b} * n + run.first, y, run.count);
      y += run.count;
    });
  }
}

}  // namespace vitro::hexagon
