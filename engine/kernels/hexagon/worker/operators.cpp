#include "engine/kernels/hexagon/worker/operators.hpp"

#include "engine/kernels/hexagon/worker/kernels.hpp"
#include "engine/kernels/hexagon/worker/system.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostBlocks = 1024;  // of a row, so that the integer results of a panel fit into scratch
constexpr uint32_t kSuperGroup = 256;   // nibbles of a vector

// On a phone these are in TCM.
alignas(kVectorBytes) int32_t dots[kMostBlocks * kLutPanelRows];
alignas(kVectorBytes) uint16_t tables[kMostBlocks * kBlockColumns / 4 * 16];
alignas(kVectorBytes) int8_t quants[kMostBlocks * kBlockColumns];
int32_t sums[kMostBlocks];

constexpr uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }
constexpr uint32_t vectors_of(uint32_t nibbles) { return nibbles / kSuperGroup; }

bool is_product(const Operator& op) { return op.kind == Kind::matmul_q8_0 || op.kind == Kind::matmul_q4_0 || op.kind == Kind::matmul_lut; }

// Bytes of the inputs, and of the result. False for operators that do not exist, or have impossible shapes.
bool sizes(const Operator& op, uint64_t (&in)[3], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns, blocks = columns / kBlockColumns;
  if (rows == 0 || rows > 1u << 26) return false;
  if (is_product(op)) {
    if (columns == 0 || columns % kBlockColumns != 0 || blocks > kMostBlocks || op.batch == 0 || op.batch > 4096) return false;
    const uint32_t panel = op.kind == Kind::matmul_lut ? kLutPanelRows : kPanelRows;
    const uint32_t bits = op.kind == Kind::matmul_q8_0 ? 8 : op.kind == Kind::matmul_q4_0 ? 4 : op.bits;
    if (bits == 0 || (op.kind == Kind::matmul_lut && (bits > 4 || op.zero > 15))) return false;
    const uint64_t scales = round_up(static_cast<uint32_t>(blocks * panel * 2), kVectorBytes);
    in[0] = (rows + panel - 1) / panel * (scales + blocks * panel * kBlockColumns * bits / 8);
    in[1] = op.batch * blocks * sizeof(Int8Block);
    out = op.batch * rows * sizeof(float);
    return true;
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
        float_accumulate(dots + i * blocks * kPanelRows, scales, x + (m + i) * blocks, blocks, kPanelRows, rows,
                         y + (m + i) * op.rows + first);
      }
    }
    progress = progress + 1;
  }
}

void matmul_lut(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const uint32_t blocks = op.columns / kBlockColumns, scales_bytes = blocks * kLutPanelRows * 2;
  const uint32_t panel_bytes = scales_bytes + blocks * kLutPanelRows * 4 * op.bits;
  const auto* all = reinterpret_cast<const Int8Block*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t m = 0; m < op.batch; ++m) {
    const Int8Block* x = all + m * blocks;
    for (uint32_t b = 0; b < blocks; ++b) {
      memcpy(quants + b * kBlockColumns, x[b].quants, kBlockColumns);
      sums[b] = x[b].sum;
    }
    hvx_lut_precompute(quants, op.columns / 4, tables);
    for (uint32_t first = 0; first < op.rows; first += kLutPanelRows) {
      const unsigned char* panel = r.inbound + op.in[0] + first / kLutPanelRows * panel_bytes;
      const uint32_t rows = op.rows - first < kLutPanelRows ? op.rows - first : kLutPanelRows;
      hvx_lut_linear(panel + scales_bytes, tables, sums, op.bits, op.zero, blocks, dots);
      float_accumulate(dots, reinterpret_cast<const uint16_t*>(panel), x, blocks, kLutPanelRows, rows, y + m * op.rows + first);
      progress = progress + 1;
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
