#include "engine/kernels/hexagon/hvx_worker/operators.hpp"

#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"
#include "engine/kernels/hexagon/hvx_worker/stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/system.hpp"
#include "engine/kernels/hexagon/layout_stages.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kSuperGroup = 256;      // nibbles of a vector
constexpr uint32_t kMostScattered = 4096;  // columns

constexpr uint32_t vectors_of(uint32_t nibbles) { return nibbles / kSuperGroup; }

// Bytes of the inputs, and of the result. False for operators that do not exist, or have impossible shapes.
bool sizes(const Operator& op, uint64_t (&in)[4], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns;
  if (rows == 0 || rows > 1u << 26) return false;
  if (is_staged(op.kind)) return product_sizes(op, in, out);
  if (op.kind == Kind::attention) {
    in[0] = query_bytes(op) + seen_bytes(op);
    in[1] = uint64_t{op.bits} * 2 * op.pitch * columns * 2;
    in[2] = AttentionRoom(attention_pass(op)).table;
    out = attention_bytes(op);
    return valid_attention(op);
  }
  const uint64_t vectors = rows / kSuperGroup;
  const bool whole = rows % kSuperGroup == 0;
  switch (op.kind) {
    case Kind::lut_precompute:
      in[0] = rows;
      out = rows / 4 * 32;
      return rows % 16 == 0;
    case Kind::dequantise:
      in[0] = rows / 2;
      in[1] = rows / 32 * 2;
      in[2] = kVectorBytes;
      out = rows * 4;
      return whole && vectors % 8 == 0;
    case Kind::dequantise_tiles:
      in[0] = rows / 2;
      in[1] = rows / 32 * 2;
      in[2] = kVectorBytes;
      out = rows * 2;
      return whole && vectors % 8 == 0;
    case Kind::dequantise_fused:
      in[0] = rows / 2;
      in[1] = rows / 128 * 32;
      out = rows * 2;
      return whole && vectors % 2 == 0;
    case Kind::unpack:
      in[0] = rows / 2;
      out = rows * 2;
      return whole;
    case Kind::scatter:
      in[0] = rows * (columns / kTile) * kQ4Block + kVectorBytes;  // the last group's load goes further
      in[1] = kVectorBytes;
      out = rows * columns * 2;
      return rows % kTile == 0 && rows <= kMostTileRows && columns % kTile == 0 && columns > 0 && columns <= kMostScattered;
    case Kind::uncoalesced:
      in[0] = rows / 32 * kQ4Block + kVectorBytes;
      in[1] = kVectorBytes;
      out = rows * 2;
      return rows % (32 * kBlocksTogether) == 0;
    case Kind::convert_planes:
    case Kind::convert_planes_in_halves:
      in[0] = rows / 2;
      in[1] = in[2] = rows / 1024 * kVectorBytes;
      out = rows * 2;
      return rows % 1024 == 0;
    case Kind::copy:
      in[0] = out = rows / 2;
      return whole;
    case Kind::exp_table:
      in[0] = out = rows * 2;
      in[1] = 65536;
      return rows % 64 == 0;
    default:
      return false;
  }
}

// Whether all rows in places lie where weights do; they come from memory then, since the CPU may have put others there. Requires: the
// places themselves are inside.
bool check_and_invalidate_rows(const Operator& op, const Regions& regions) {
  const uint32_t bytes = placed_row_bytes(op);
  if (bytes == 0) return true;
  const auto* places = reinterpret_cast<const uint32_t*>(regions.inbound + op.in[3]);
  invalidate_cache(places, op.rows * sizeof(uint32_t));
  bool fit = op.in[0] >= kArenaStart && op.in[0] % 4 == 0;
  for (uint32_t row = 0; row < op.rows && fit; ++row) {
    const uint64_t at = op.in[0] + uint64_t{places[row]} * kPlaceBytes;
    fit = at + bytes <= regions.inbound_bytes;
    if (fit) invalidate_cache(regions.inbound + at, bytes);
  }
  return fit;
}

}  // namespace

bool inside(const Operator& op, const Regions& regions) {
  uint64_t in[4] = {}, out = 0;
  if (!sizes(op, in, out) || op.out_bytes != out || op.out < kResultsStart) return false;
  bool fits = op.out % kVectorBytes == 0 && op.out + out <= regions.outbound_bytes;
  for (int i = 0; i < 4; ++i) {
    const bool used = in[i] > 0;
    fits = fits && (!used || (op.in[i] >= kArenaStart && op.in[i] % kVectorBytes == 0 && op.in[i] + in[i] <= regions.inbound_bytes));
  }
  return fits && check_and_invalidate_rows(op, regions);
}

void run(const Operator& op, uint32_t index, const Regions& r, volatile uint32_t& progress) {
  const unsigned char *a = r.inbound + op.in[0], *b = r.inbound + op.in[1], *c = r.inbound + op.in[2];
  unsigned char* out = r.outbound + op.out;
  const auto halves = [](const unsigned char* p) { return reinterpret_cast<const uint16_t*>(p); };
  auto* out_halves = reinterpret_cast<uint16_t*>(out);
  const uint32_t vectors = vectors_of(op.rows);
  uint64_t in_bytes[4] = {}, out_bytes = 0;
  sizes(op, in_bytes, out_bytes);
  // The weights of a product are written once, before the first request that names them; check_and_invalidate_rows() cares for rows in
  // places.
  for (int i = is_staged(op.kind) ? 1 : 0; i < 4; ++i) invalidate_cache(r.inbound + op.in[i], static_cast<uint32_t>(in_bytes[i]));
  if (is_staged(op.kind)) return run_staged(op, index, r, progress);
  switch (op.kind) {
    case Kind::attention:
      return run_staged(op, index, r, progress);
    case Kind::dequantise_tiles:
      float_dequantise_tiles(a, halves(b), halves(c), vectors, out_halves);
      break;
    case Kind::lut_precompute:
      hvx_lut_precompute(reinterpret_cast<const int8_t*>(a), op.rows / 4, out_halves);
      break;
    case Kind::dequantise:
      hvx_dequantise(a, halves(b), halves(c), vectors, out_halves, out_halves + op.rows);
      break;
    case Kind::dequantise_fused:
      hvx_dequantise_fused(a, halves(b), vectors, out_halves);
      break;
    case Kind::unpack:
      hvx_unpack(a, vectors, reinterpret_cast<int16_t*>(out));
      break;
    case Kind::scatter:
      float_scatter_q4(a, halves(b), op.rows, op.columns, out_halves);
      break;
    case Kind::uncoalesced:
      float_uncoalesced_q4(a, halves(b), op.rows / 32, out_halves);
      break;
    case Kind::convert_planes:
      float_convert_planes_w4(a, reinterpret_cast<const float*>(b), reinterpret_cast<const float*>(c), op.rows / 1024, out_halves);
      break;
    case Kind::convert_planes_in_halves:
      float_convert_planes_w4_in_halves(a, halves(b), halves(c), op.rows / 1024, out_halves);
      break;
    case Kind::copy:
      hvx_copy(a, vectors, out);
      break;
    case Kind::exp_table:
      hvx_exp(halves(a), halves(b), op.rows / 64, out_halves);
      break;
    default:
      break;
  }
  advance(progress);
}

}  // namespace vitro::hexagon
