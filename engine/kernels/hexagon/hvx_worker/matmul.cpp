#include "engine/kernels/hexagon/hvx_worker/matmul.hpp"

#include "engine/kernels/hexagon/add_layout.hpp"
#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/kernels/hexagon/lut_layout.hpp"

namespace vitro::hexagon {
namespace {

constexpr uint32_t kMostColumns = 32768, kMostBatch = 4096;

bool valid_tile(const Operator& op) {
  const uint32_t rows = op.tile.rows, columns = op.tile.columns;
  const bool shape = columns == 32 || columns == 64 || columns == 128 || columns == 256;
  return shape && columns >= op.group && rows > 0 && rows % kLutPanelRows == 0 && rows <= kMostTileRows;
}

// Of rows in places: their scales stand in front of their blocks, or, of nibbles, apart. The DMA engine takes whole words.
bool valid_rows(const Operator& op) {
  if (scales_apart(op) ? weight_bits(op) != 4 : op.scales != Scales::of_blocks) return false;
  return row_bytes_to(op, op.columns) % 4 == 0;
}

}  // namespace

uint32_t placed_row_bytes(const Operator& op) {
  if (op.kind == Kind::matmul_hmx_f16_rows) return op.columns * 2;
  if (!adds_rows(op.kind) && !of_block_rows(op.kind)) return 0;
  return scales_apart(op) ? nibble_bytes(op.columns) : row_bytes_to(op, op.columns);
}

bool product_sizes(const Operator& op, uint64_t (&in)[4], uint64_t& out) {
  const uint64_t rows = op.rows, columns = op.columns;
  if (columns == 0 || columns % kBlockColumns != 0 || columns > kMostColumns || op.batch == 0 || op.batch > kMostBatch) return false;
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
      const bool planes = is_lut(op.kind), bytes = op.kind == Kind::matmul_hmx_int8;
      const uint64_t scale = op.kind == Kind::matmul_lut_rounded ? sizeof(RoundedScale) : sizeof(ActivationScale);
      in[0] = (rows + kLutPanelRows - 1) / kLutPanelRows * lut_bytes_to(op, op.columns);
      in[1] = planes ? op.batch * columns * (op.kind == Kind::matmul_lut_wide ? 2 : 1) : bytes ? tiles / 2 : tiles;
      in[2] = planes ? op.batch * lut_blocks(op.group, op.columns) * scale : 2 * kVectorBytes + (bytes ? op.batch * sizeof(float) : 0);
      return planes ? valid_lut(op) : valid_stages(op);
    }
    case Kind::add_rows:
      in[1] = op.batch * rows * sizeof(float);
      in[3] = places_bytes(op);
      out = op.batch * columns * sizeof(float);
      return (op.bits == 16 || op.bits == 8 || op.bits == 4) && valid_rows(op) && valid_add(op);
    case Kind::matmul_hmx_f16_rows:
      in[1] = tiles;
      in[3] = rows * sizeof(uint32_t);
      return (columns & (2 * kTile - 1)) == 0 && valid_stages(op);
    case Kind::matmul_hmx_rows:
    case Kind::matmul_hmx_q8_rows:
      in[1] = tiles;
      in[2] = op.kind == Kind::matmul_hmx_rows ? kVectorBytes : 0;
      in[3] = places_bytes(op);
      return valid_rows(op) && valid_stages(op);
    case Kind::matmul_hmx:
    case Kind::matmul_hmx_q8:
    case Kind::matmul_hmx_f16:
      if (op.scales == Scales::of_rows || op.scales > Scales::of_outlier_rows) return false;
      if ((tile_groups(op) && (columns & (2 * kTile - 1)) != 0) || (has_outliers(op) && op.kind != Kind::matmul_hmx)) return false;
      in[0] = (rows + kTile - 1) / kTile * strip_bytes(op, op.columns);
      in[1] = tiles;
      in[2] = op.kind == Kind::matmul_hmx ? kVectorBytes : 0;
      return valid_stages(op);
    default:  // by_blocks()
      if (of_block_rows(op.kind) ? !valid_rows(op) : op.scales != Scales::of_blocks) return false;
      if (of_block_rows(op.kind)) {
        in[3] = places_bytes(op);
      } else {
        in[0] = (rows + kTile - 1) / kTile * strip_bytes(op, op.columns);
      }
      in[1] = tiles / 2;
      in[2] = block_scale_bytes(op, op.batch);
      return valid_blocks(op);
  }
}

}  // namespace vitro::hexagon
