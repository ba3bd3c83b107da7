#include "engine/kernels/hexagon/worker/operators.hpp"

#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/worker/kernels.hpp"
#include "engine/kernels/hexagon/worker/system.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostBlocks = 1024;  // of a row, so that the integer results of a panel fit into scratch
constexpr uint32_t kSuperGroup = 256;   // nibbles of a vector

// On a phone these are in TCM.
alignas(kVectorBytes) int32_t dots[kMostBlocks * kLutPanelRows], weighted[kMostBlocks * kLutPanelRows];
alignas(kVectorBytes) uint16_t tables[kMostBlocks * kBlockColumns / 4 * 16];
alignas(kVectorBytes) uint16_t strip[kMostBlocks * kTileElements];  // weight tiles of 32 columns, and what scales them
alignas(kVectorBytes) uint16_t spread[8 * kSuperGroup];
HmxModel hmx;

constexpr uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }
constexpr uint32_t vectors_of(uint32_t nibbles) { return nibbles / kSuperGroup; }

bool is_product(const Operator& op) {
  return op.kind == Kind::matmul_q8_0 || op.kind == Kind::matmul_q4_0 || op.kind == Kind::matmul_lut || op.kind == Kind::matmul_hmx;
}

// Blocks of a row. Division by a number that is not known beforehand is no instruction here.
uint32_t lut_blocks(const Operator& op) { return op.columns >> (op.group == 32 ? 5 : op.group == 64 ? 6 : 7); }

// A bit-serial panel (panels.hpp): bytes of its scales, its zero points and its planes.
struct LutPanel {
  uint32_t scales, zeros, planes;
  explicit LutPanel(const Operator& op)
      : scales(lut_blocks(op) * kLutPanelRows * 2),
        zeros(op.zeros == Zeros::of_blocks ? scales / 2 : 0),
        planes(op.columns / 8 * op.bits * kLutPanelRows) {}
  uint32_t bytes() const { return scales + zeros + planes; }
};
// A strip of tiles (panels.hpp): a vector of scales per tile, or per pair of tiles whose groups are tile groups; then nibbles.
uint32_t strip_scales(const Operator& op) { return op.tile_groups != 0 ? (op.columns / kTile + 1) / 2 : op.columns / kTile; }
uint32_t strip_bytes(const Operator& op) {
  const uint32_t vectors = strip_scales(op), tiles = op.tile_groups != 0 ? 2 * vectors : vectors;
  return vectors * kVectorBytes + tiles * (kTileElements / 2);
}

// Bytes of the inputs, and of the result. False for operators that do not exist, or have impossible shapes.
bool sizes(const Operator& op, uint64_t (&in)[3], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns, blocks = columns / kBlockColumns;
  if (rows == 0 || rows > 1u << 26) return false;
  if (is_product(op)) {
    if (columns == 0 || columns % kBlockColumns != 0 || blocks > kMostBlocks || op.batch == 0 || op.batch > 4096) return false;
    out = op.batch * rows * sizeof(float);
    if (op.kind == Kind::matmul_lut) {
      const bool group = op.group == 32 || op.group == 64 || op.group == 128;
      if (!group || (columns & (op.group - 1)) != 0 || op.bits < 1 || op.bits > 4 || op.zero > 15) return false;
      if (op.zeros > Zeros::signs || (op.zeros == Zeros::signs && op.bits != 1)) return false;
      in[0] = (rows + kLutPanelRows - 1) / kLutPanelRows * LutPanel(op).bytes();
      in[1] = op.batch * columns;
      in[2] = uint64_t{op.batch} * lut_blocks(op) * sizeof(ActivationScale);
      return true;
    }
    if (op.kind == Kind::matmul_hmx) {
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op);
      in[1] = (op.batch + kTile - 1) / kTile * uint64_t{kTile} * columns * 2;
      in[2] = kVectorBytes;
      return true;
    }
    const uint64_t scales = round_up(static_cast<uint32_t>(blocks * kPanelRows * 2), kVectorBytes);
    in[0] = (rows + kPanelRows - 1) / kPanelRows * (scales + blocks * kPanelRows * (op.kind == Kind::matmul_q8_0 ? 32 : 16));
    in[1] = op.batch * blocks * sizeof(Int8Block);
    return true;
  }
  if (op.kind == Kind::attention) {
    const uint64_t depth = columns / kTile, head = columns * 2;
    in[0] = op.batch * head;
    in[1] = (rows + op.pitch) * head;
    in[2] = 65536;
    out = op.batch * head;
    return columns % kTile == 0 && depth > 0 && depth <= kMostDepth && op.batch > 0 && op.batch <= kTile && op.bits > 0 &&
           op.bits <= kMostStep && rows <= op.pitch && op.pitch <= 1u << 20;
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
    case Kind::scatter:  // at most 32768 halfwords are in reach of their base
      in[0] = rows / 2;
      in[1] = rows * 2;
      in[2] = kVectorBytes;
      out = rows * 2;
      return whole && rows <= 32768;
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

void matmul(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool q8 = op.kind == Kind::matmul_q8_0;
  const uint32_t blocks = op.columns / kBlockColumns, scales_bytes = round_up(blocks * kPanelRows * 2, kVectorBytes);
  const uint32_t panel_bytes = scales_bytes + blocks * kPanelRows * (q8 ? 32 : 16);
  const auto* x = reinterpret_cast<const Int8Block*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kPanelRows) {
    const unsigned char* panel = r.inbound + op.in[0] + first / kPanelRows * panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(panel);
    const uint32_t rows = op.rows - first < kPanelRows ? op.rows - first : kPanelRows;
    for (uint32_t m = 0; m < op.batch; m += kBatchTogether) {
      const uint32_t batch = op.batch - m < kBatchTogether ? op.batch - m : kBatchTogether;
      (q8 ? hvx_dots_q8_0 : hvx_dots_q4_0)(panel + scales_bytes, x + m * blocks, blocks, batch, blocks, dots);
      for (uint32_t i = 0; i < batch; ++i) {
        float_accumulate(dots + i * blocks * kPanelRows, scales, &x[(m + i) * blocks].scale, sizeof(Int8Block) / sizeof(float), blocks,
                         kPanelRows, rows, y + (m + i) * op.rows + first);
      }
    }
    progress = progress + 1;
  }
}

void matmul_lut(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const LutPanel size(op);
  const uint32_t blocks = lut_blocks(op);
  const int32_t factor = (1 << op.bits) - 1 - (op.zeros == Zeros::same ? 2 * static_cast<int32_t>(op.zero) : 0);
  const auto* quants = reinterpret_cast<const int8_t*>(r.inbound + op.in[1]);
  const auto* x = reinterpret_cast<const ActivationScale*>(r.inbound + op.in[2]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t m = 0; m < op.batch; ++m, quants += op.columns, x += blocks) {
    hvx_lut_precompute(quants, op.columns / 4, tables);
    for (uint32_t first = 0; first < op.rows; first += kLutPanelRows) {
      const unsigned char* panel = r.inbound + op.in[0] + first / kLutPanelRows * size.bytes();
      const uint32_t rows = op.rows - first < kLutPanelRows ? op.rows - first : kLutPanelRows;
      hvx_lut_linear(panel + size.scales + size.zeros, tables, op.bits, op.group, blocks, weighted);
      hvx_lut_finalize(weighted, panel + size.scales, op.zeros, x, factor, blocks, dots);
      float_accumulate(dots, reinterpret_cast<const uint16_t*>(panel), &x->scale, sizeof(ActivationScale) / sizeof(float), blocks,
                       kLutPanelRows, rows, y + m * op.rows + first);
      progress = progress + 1;
    }
  }
}

// Tile groups, in pieces that scratch holds: the scales spread out are as many halves as the weights.
void dequantise_tiles(const unsigned char* nibbles, const uint16_t* scales, const uint16_t* table, uint32_t vectors, uint16_t* out) {
  for (uint32_t v = 0; v < vectors; v += 8, nibbles += 8 * kVectorBytes, scales += 64, out += 8 * kSuperGroup) {
    hvx_dequantise(nibbles, scales, table, 8, out, spread);
    float_scale(out, spread, 1, 32);
  }
}

// A strip of weights is made ready once and meets all rows of the batch, 32 at a time.
void matmul_hmx(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const uint32_t tiles = op.columns / kTile, vectors = strip_scales(op), nibbles = strip_bytes(op) / kVectorBytes - vectors;
  const auto* x = reinterpret_cast<const uint16_t*>(r.inbound + op.in[1]);
  const auto* values = reinterpret_cast<const uint16_t*>(r.inbound + op.in[2]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kTile) {
    const unsigned char* begin = r.inbound + op.in[0] + first / kTile * strip_bytes(op);
    const auto* scales = reinterpret_cast<const uint16_t*>(begin);
    const uint32_t columns = op.rows - first < kTile ? op.rows - first : kTile;
    if (op.tile_groups != 0) {
      dequantise_tiles(begin + vectors * kVectorBytes, scales, values, nibbles, strip);
    } else {
      hvx_values(begin + vectors * kVectorBytes, values, nibbles, strip);
      float_scale(strip, scales, kTilePairs, tiles * kTilePairs);
    }
    for (uint32_t m = 0; m < op.batch; m += kTile) {
      const uint32_t rows = op.batch - m < kTile ? op.batch - m : kTile;
      hmx.clear(rows);
      for (uint32_t t = 0; t < tiles; t += kMostTiles) {
        const uint32_t count = tiles - t < kMostTiles ? tiles - t : kMostTiles;
        hmx.multiply(x + (m / kTile * tiles + t) * kTileElements, strip + t * kTileElements, count);
        progress = progress + 1;
      }
      uint16_t out[kTileElements];
      hmx.store(out);
      for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t c = 0; c < columns; ++c) y[(m + i) * op.rows + first + c] = half_value(out[tile_place(i, c)]);
      }
    }
  }
}

}  // namespace

bool inside(const Operator& op, const Regions& regions) {
  uint64_t in[3] = {}, out = 0;
  if (!sizes(op, in, out) || op.out_bytes != out || op.out < kResultsStart) return false;
  bool fits = op.out % kVectorBytes == 0 && op.out + out <= regions.outbound_bytes;
  for (int i = 0; i < 3; ++i) {
    const bool used = in[i] > 0;
    fits = fits && (!used || (op.in[i] >= kArenaStart && op.in[i] % kVectorBytes == 0 && op.in[i] + in[i] <= regions.inbound_bytes));
  }
  return fits;
}

void run(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const unsigned char *a = r.inbound + op.in[0], *b = r.inbound + op.in[1], *c = r.inbound + op.in[2];
  unsigned char* out = r.outbound + op.out;
  const auto halves = [](const unsigned char* p) { return reinterpret_cast<const uint16_t*>(p); };
  auto* out_halves = reinterpret_cast<uint16_t*>(out);
  const uint32_t vectors = vectors_of(op.rows);
  uint64_t in_bytes[3] = {}, out_bytes = 0;
  sizes(op, in_bytes, out_bytes);
  // The weights of a product are written once, before the first request that names them.
  for (int i = is_product(op) ? 1 : 0; i < 3; ++i) invalidate_cache(r.inbound + op.in[i], static_cast<uint32_t>(in_bytes[i]));
  switch (op.kind) {
    case Kind::matmul_q8_0:
    case Kind::matmul_q4_0:
      return matmul(op, r, progress);
    case Kind::matmul_lut:
      return matmul_lut(op, r, progress);
    case Kind::matmul_hmx:
      return matmul_hmx(op, r, progress);
    case Kind::attention: {
      const AttentionShape shape{op.batch, op.rows, op.columns / kTile, op.bits};
      float_attention(&shape, halves(a), halves(b), halves(b) + op.pitch * op.columns, halves(c), out_halves);
      break;
    }
    case Kind::dequantise_tiles:
      dequantise_tiles(a, halves(b), halves(c), vectors, out_halves);
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
      hvx_scatter(a, halves(c), halves(b), vectors, out_halves);
      break;
    case Kind::copy:
      hvx_copy(a, vectors, out);
      break;
    case Kind::exp_table:
      hvx_exp(halves(a), halves(b), op.rows / 64, out_halves);
      break;
    case Kind::none:
      break;
  }
  progress = progress + 1;
}

}  // namespace vitro::hexagon
