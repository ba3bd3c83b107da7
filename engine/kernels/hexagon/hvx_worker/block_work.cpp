#include "engine/kernels/hexagon/hvx_worker/block_work.hpp"

#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/matrix_unit.hpp"

namespace vitro::hexagon {
namespace {

HmxModel hmx;

// Tiles of a strip: its bytes become tiles, and scales are kept until the sums are there.
void byte_tiles(const Operator& op, const unsigned char* scales, const unsigned char* values, uint32_t tiles, unsigned char* out,
                unsigned char* kept) {
  hvx_copy(scales, tiles, kept);
  if (of_bytes(op.kind)) {
    hvx_copy(values, tiles * (kTileElements / kVectorBytes), out);
  } else {
    hvx_nibble_tiles(values, tiles, out);
  }
}

// Pieces [from, to) of a step, strip by strip. made: the thread's room for a piece of rows in places.
void make_byte_tiles(const BlockWork& work, uint32_t buffer, uint32_t from, uint32_t to, unsigned char* made) {
  const Operator& op = *work.pass.op;
  const uint32_t depth = work.made.step.depth, blocks = blocks_of(depth), pieces = strip_pieces(op, depth);
  const unsigned char* strip = work.at(work.place.in[buffer]);
  unsigned char *tiles = work.at(work.place.ready[buffer]), *kept = work.at(work.place.kept[work.made.kept]);
  for (uint32_t first = 0; first < to; first += pieces) {
    const uint32_t begin = from > first ? from - first : 0, end = to - first < pieces ? to - first : pieces;
    for (uint32_t piece = begin; piece < end && of_block_rows(op.kind); ++piece) {
      const uint32_t tile = piece * piece_tiles(op), count = make_piece(op, depth, strip, piece, made);
      byte_tiles(op, made, made + piece_scales(op), count, tiles + tile * kTileElements, kept + tile * kVectorBytes);
    }
    if (begin < end && !of_block_rows(op.kind)) {
      byte_tiles(op, strip + begin * kVectorBytes, strip + blocks * kVectorBytes + begin * strip_values(op, kTile), end - begin,
                 tiles + begin * kTileElements, kept + begin * kVectorBytes);
    }
    strip += unit_weights(op, depth);
    tiles += blocks * kTileElements;
    kept += blocks * kVectorBytes;
  }
}

// Rows [from, to) of a step's strips, one strip after the other.
void scale_sums(const BlockWork& work, uint32_t buffer, uint32_t from, uint32_t to) {
  const Operator& op = *work.pass.op;
  const Step& step = work.summed.step;
  const uint32_t blocks = blocks_of(step.depth), x_pitch = blocks_of(op.columns), pitch = sum_rows(op) * kTile, y_pitch = result_pitch(op);
  const auto* sums = reinterpret_cast<const int32_t*>(work.at(work.place.sums[buffer]));
  const auto* scales = reinterpret_cast<const uint16_t*>(work.at(work.place.kept[work.summed.kept]));
  const auto* x_scales = reinterpret_cast<const float*>(work.at(work.place.scales)) + blocks_of(step.begin);
  float* y = work.results(step, work.summed.out);
  for (uint32_t first = 0, column = 0; first < to; first += work.pass.rows, column += kTile) {
    const uint32_t begin = from > first ? from - first : 0, end = to - first < work.pass.rows ? to - first : work.pass.rows;
    if (begin < end) {
      const uint32_t columns = step.columns - column < kTile ? step.columns - column : kTile;
      float_scale_sums(sums + begin * kTile, pitch, scales, x_scales + begin * x_pitch, x_pitch, end - begin, columns, blocks, !step.first,
                       y + begin * y_pitch + column, y_pitch);
    }
    sums += blocks * pitch;
    scales += blocks * 2 * kTile;
  }
}

}  // namespace

void load_bytes(const BlockWork& work, Chain& chain) {
  const StagePass& pass = work.pass;
  const Operator& op = *pass.op;
  const auto bytes = static_cast<uint32_t>(activation_bytes(op, pass.rows));
  chain.add(run_of(pass.operand(1) + pass.row * op.columns, work.at(work.place.activations), bytes));
  const unsigned char* scales = pass.operand(2) + static_cast<uint32_t>(block_scale_bytes(op, pass.row));
  chain.add(run_of(scales, work.at(work.place.scales), static_cast<uint32_t>(block_scale_bytes(op, pass.rows))));
}

void block_vectors(const BlockWork& work, uint32_t buffer, uint32_t thread, uint32_t threads) {
  const auto share = [thread, threads](uint32_t pieces, auto work_on) {
    const uint32_t from = first_piece(thread, threads, pieces), to = first_piece(thread + 1, threads, pieces);
    if (from < to) work_on(from, to);
  };
  const Operator& op = *work.pass.op;
  const Step &made = work.made.step, &summed = work.summed.step;
  share(units_of(op, summed.columns) * work.pass.rows, [&](uint32_t from, uint32_t to) { scale_sums(work, buffer, from, to); });
  unsigned char* piece = work.at(work.place.pieces + thread * piece_bytes(weight_bits(op)));
  share(units_of(op, made.columns) * strip_pieces(op, made.depth),
        [&](uint32_t from, uint32_t to) { make_byte_tiles(work, buffer, from, to, piece); });
}

void block_products(const BlockWork& work, const Step& step, uint32_t buffer, volatile uint32_t& progress) {
  const Operator& op = *work.pass.op;
  const uint32_t strips = units_of(op, step.columns), blocks = blocks_of(step.depth), of_block = sum_rows(op) * kTile;
  const auto* w = reinterpret_cast<const int8_t*>(work.at(work.place.ready[buffer]));
  auto* sums = reinterpret_cast<int32_t*>(work.at(work.place.sums[buffer]));
  for (uint32_t s = 0; s < strips; ++s) {
    const auto* x = reinterpret_cast<const int8_t*>(work.at(work.place.activations)) + blocks_of(step.begin) * kTileElements;
    for (uint32_t m = 0; m < work.pass.rows; m += kTile, x += op.columns * kTile) {
      const uint32_t rows = work.pass.rows - m < kTile ? work.pass.rows - m : kTile;
      for (uint32_t b = 0; b < blocks; ++b) {
        hmx.clear(rows);
        multiply_on(hmx, x + b * kTileElements, w + b * kTileElements, 1);
        hmx.store_sums(sums + b * of_block + m * kTile);
      }
      advance(progress);
    }
    w += blocks * kTileElements;
    sums += blocks * of_block;
  }
}

Transfer block_results(const BlockWork& work, const BlockTurn& turn, bool last) {
  const Operator& op = *work.pass.op;
  const Step& step = turn.step;
  const uint32_t pitch = op.rows * sizeof(float), placed = result_pitch(op) * sizeof(float);
  unsigned char* to = work.pass.regions->outbound + op.out + work.pass.row * pitch;
  if (op.stages.once != 0) return {work.at(work.place.result), to, pitch, last ? work.pass.rows : 0, placed, pitch};
  const unsigned char* from = work.at(work.place.out[turn.out]);
  const uint32_t bytes = step.columns * sizeof(float), rows = step.last ? work.pass.rows : 0;
  return {from, to + step.column * sizeof(float), bytes, rows, placed, pitch};
}

}  // namespace vitro::hexagon
