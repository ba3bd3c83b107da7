#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"

#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/dma.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/stages.hpp"
#include "engine/kernels/hexagon/look_up_layout.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostBlocks = 1024;  // of a row, so that the integer results of a panel fit into scratch

constexpr uint32_t kQ8Bytes = 34, kQ4Bytes = 18;  // of a block in a file: its scale, then quants

// On a phone these are in TCM.
alignas(kVectorBytes) int32_t dots[kBatchTogether * kMostBlocks * kPanelRows];

constexpr uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

bool valid_tile(const Operator& op) {
  const uint32_t rows = op.tile.rows, columns = op.tile.columns;
  const bool shape = columns == 32 || columns == 64 || columns == 128 || columns == 256;
  return shape && columns >= op.group && rows > 0 && rows % kLutPanelRows == 0 && rows <= kMostTileRows;
}

// Rows of q8_0 or q4_0 from wherever they lie to TCM, and there to the panel that they make. Returns the panel; rows behind `rows` are
// whatever TCM held.
const unsigned char* gather_panel(const Operator& op, const Regions& r, uint32_t first, uint32_t rows, uint32_t scales_bytes) {
  const uint32_t bytes = placed_row_bytes(op), blocks = op.columns / kBlockColumns, room = round_up(kPanelRows * bytes, kVectorBytes);
  const auto* places = reinterpret_cast<const uint32_t*>(r.inbound + op.in[2]) + first;
  unsigned char *stored = idle_tcm(), *panel = stored + room;
  for (uint32_t i = 0; i < rows; ++i) {
    const Transfer row = run_of(r.inbound + op.in[0] + places[i] * kPlaceBytes, stored + i * bytes, bytes);
    dma_copy(&row);
  }
  const bool q8 = op.kind == Kind::matmul_q8_0_rows;
  hvx_gather_panel(stored, bytes, blocks, q8 ? kQ8Bytes : kQ4Bytes, room, panel, panel + scales_bytes);
  return panel;
}

void multiply_rows(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const bool q8 = op.kind == Kind::matmul_q8_0_rows;
  const uint32_t blocks = op.columns / kBlockColumns, scales_bytes = round_up(blocks * kPanelRows * 2, kVectorBytes);
  const auto* x = reinterpret_cast<const Int8Block*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t first = 0; first < op.rows; first += kPanelRows) {
    const uint32_t rows = op.rows - first < kPanelRows ? op.rows - first : kPanelRows;
    const unsigned char* panel = gather_panel(op, r, first, rows, scales_bytes);
    const auto* scales = reinterpret_cast<const uint16_t*>(panel);
    for (uint32_t m = 0; m < op.batch; m += kBatchTogether) {
      const uint32_t batch = op.batch - m < kBatchTogether ? op.batch - m : kBatchTogether;
      (q8 ? hvx_dots_q8_0 : hvx_dots_q4_0)(panel + scales_bytes, x + m * blocks, blocks, batch, blocks, dots);
      for (uint32_t i = 0; i < batch; ++i) {
        float_accumulate(dots + i * blocks * kPanelRows, scales, kPanelRows, &x[(m + i) * blocks].scale, sizeof(Int8Block) / sizeof(float),
                         blocks, kPanelRows, rows, false, y + (m + i) * op.rows + first);
      }
    }
    advance(progress);
  }
}

// A row passes all sums of the batch before the next one.
void add_rows(const Operator& op, const Regions& r, volatile uint32_t& progress) {
  const auto* places = reinterpret_cast<const uint32_t*>(r.inbound + op.in[2]);
  const auto* h = reinterpret_cast<const float*>(r.inbound + op.in[1]);
  auto* y = reinterpret_cast<float*>(r.outbound + op.out);
  for (uint32_t i = 0; i < op.batch * op.columns; ++i) y[i] = 0;
  for (uint32_t row = 0; row < op.rows; ++row) {
    const unsigned char* weights = r.inbound + op.in[0] + places[row] * kPlaceBytes;
    for (uint32_t b = 0; b < op.batch; ++b) {
      if (h[b * op.rows + row] != 0) float_add_row(weights, op.bits, op.columns, h[b * op.rows + row], y + b * op.columns);
    }
    advance(progress);
  }
}

}  // namespace

bool is_product(Kind kind) {
  return kind == Kind::matmul_q8_0_rows || kind == Kind::matmul_q4_0_rows || kind == Kind::add_rows || is_staged(kind);
}

uint32_t placed_row_bytes(const Operator& op) {
  const bool adds = op.kind == Kind::add_rows;
  if (op.kind == Kind::matmul_hmx_f16_rows || (adds && op.bits == 16)) return op.columns * 2;
  if (op.kind == Kind::matmul_q8_0_rows || (adds && op.bits == 8)) return op.columns / kBlockColumns * kQ8Bytes;
  if (op.kind == Kind::matmul_q4_0_rows || (adds && op.bits == 4)) return op.columns / kBlockColumns * kQ4Bytes;
  return 0;
}

bool product_sizes(const Operator& op, uint64_t (&in)[3], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns, blocks = columns / kBlockColumns;
  if (columns == 0 || columns % kBlockColumns != 0 || blocks > kMostBlocks || op.batch == 0 || op.batch > 4096) return false;
  out = op.batch * rows * sizeof(float);
  const uint64_t tiles = (op.batch + kTile - 1) / kTile * uint64_t{kTile} * columns * 2;  // of activations
  switch (op.kind) {
    case Kind::matmul_lut:
    case Kind::matmul_lut_rounded:
    case Kind::matmul_lut_wide:
    case Kind::matmul_hmx_lut:
    case Kind::matmul_hmx_scaled:
    case Kind::matmul_hmx_int8: {
      const bool group = op.group == 32 || op.group == 64 || op.group == 128;
      if (!group || (columns & (op.group - 1)) != 0 || op.bits < 1 || op.bits > 4 || op.zero > 15) return false;
      if (op.scales != Scales::of_blocks && (op.scales != Scales::of_rows || op.zeros == Zeros::of_blocks)) return false;
      if (op.zeros > Zeros::signs || (op.zeros == Zeros::signs && op.bits != 1) || !valid_tile(op)) return false;
      if (op.spill > Spill::dram) return false;
      const bool planes = looks_up(op.kind), bytes = op.kind == Kind::matmul_hmx_int8;
      const uint64_t scale = op.kind == Kind::matmul_lut_rounded ? sizeof(RoundedScale) : sizeof(ActivationScale);
      in[0] = (rows + kLutPanelRows - 1) / kLutPanelRows * lut_bytes_to(op, op.columns);
      in[1] = planes ? op.batch * columns * (op.kind == Kind::matmul_lut_wide ? 2 : 1) : bytes ? tiles / 2 : tiles;
      in[2] = planes ? op.batch * lut_blocks(op.group, op.columns) * scale : 2 * kVectorBytes + (bytes ? op.batch * sizeof(float) : 0);
      return planes ? valid_look_up(op) : valid_stages(op);
    }
    case Kind::add_rows:
      in[1] = op.batch * rows * sizeof(float);
      in[2] = rows * sizeof(uint32_t);
      out = op.batch * columns * sizeof(float);
      return op.bits == 16 || op.bits == 8 || op.bits == 4;
    case Kind::matmul_q8_0_rows:
    case Kind::matmul_q4_0_rows:
      in[1] = op.batch * blocks * sizeof(Int8Block);
      in[2] = rows * sizeof(uint32_t);
      return placed_row_bytes(op) % 4 == 0;
    case Kind::matmul_hmx_f16_rows:
      in[1] = tiles;
      in[2] = rows * sizeof(uint32_t);
      return (columns & (2 * kTile - 1)) == 0 && valid_stages(op);
    case Kind::matmul_hmx:
    case Kind::matmul_hmx_q8:
    case Kind::matmul_hmx_f16:
      if (op.scales > Scales::of_tile_groups || (tile_groups(op) && (columns & (2 * kTile - 1)) != 0)) return false;
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op, op.columns);
      in[1] = tiles;
      in[2] = op.kind == Kind::matmul_hmx ? kVectorBytes : 0;
      return valid_stages(op);
    default:  // by_blocks()
      if (op.scales != Scales::of_blocks) return false;
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op, op.columns);
      in[1] = tiles / 2;
      in[2] = block_scale_bytes(op, op.batch);
      return valid_blocks(op);
  }
}

void run_product(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress) {
  if (is_staged(op.kind)) return run_staged(op, index, regions, progress);
  if (op.kind == Kind::add_rows) return add_rows(op, regions, progress);
  multiply_rows(op, regions, progress);
}

}  // namespace vitro::hexagon
