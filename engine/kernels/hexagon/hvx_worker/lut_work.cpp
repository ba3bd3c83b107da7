#include "engine/kernels/hexagon/hvx_worker/lut_work.hpp"

#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/lut_tile.hpp"

namespace vitro::hexagon {
namespace {

alignas(kVectorBytes) float ordinary_sums[kOrdinarySums];

bool waits(const Operator& op) { return op.stages.depths > 1; }

// Where results of a row of the pass end before they go out: of all columns, or of a group.
float* result_row(const LutWork& work, const Step& step, uint32_t out, uint32_t m) {
  const Operator& op = *work.pass.op;
  if (op.stages.once != 0) return reinterpret_cast<float*>(work.at(work.place.result)) + m * op.rows + step.column;
  return reinterpret_cast<float*>(work.at(work.place.out[out])) + m * op.stages.columns;
}

// Where its sums wait between two parts of the depth (T-MAN 4.3's spill buffer). In DRAM they are the result itself, which leaves the cache
// each time.
float* waiting_row(const LutWork& work, const Step& step, uint32_t out, uint32_t m) {
  const Operator& op = *work.pass.op;
  if (!waits(op) || op.spill == Spill::tcm) return result_row(work, step, out, m);
  if (op.spill == Spill::l2) return ordinary_sums + m * op.stages.columns;
  return reinterpret_cast<float*>(work.pass.regions->outbound + op.out) + (work.pass.row + m) * op.rows + step.column;
}

// Panels `first` ... of a group, as far as they lie in one tile.
void load_run(const LutWork& work, const Step& step, const LutTile& tile, uint32_t panel, uint32_t count, uint32_t first,
              unsigned char* to, Chain& chain) {
  const Operator& op = *work.pass.op;
  const uint32_t all = panels_of(step.columns), bytes = tile.size.bytes(), scales = lut_row_scales(op);
  const unsigned char* weights = work.pass.operand(0);
  const ZeroPart zeros(op, step.begin, step.depth);
  const LutStep place(op, all, zeros.count, step.depth);
  if (zeros.count > 0) {  // behind no scales of rows, which such formats do not have
    const unsigned char* from = weights + tile.first + (zeros.first * tile.panels + panel) * kLutPanelRows;
    chain.add({from, to + place.zeros + first * kLutPanelRows, count * kLutPanelRows, zeros.count, tile.panels * kLutPanelRows,
               all * kLutPanelRows});
  }
  if (scales > 0) chain.add(run_of(weights + tile.first + panel * scales, to + place.scales + first * scales, count * scales));
  chain.add(run_of(weights + tile.begin + panel * bytes, to + place.panels + first * bytes, count * bytes));
}

}  // namespace

void load_quants(const LutWork& work, Chain& chain) {
  const Operator& op = *work.pass.op;
  const uint32_t row = work.pass.row, rows = work.pass.rows;
  const auto move = [&](int operand, uint64_t before, uint64_t bytes, uint64_t to) {
    chain.add(run_of(work.pass.operand(operand) + static_cast<uint32_t>(before), work.at(to), static_cast<uint32_t>(bytes)));
  };
  move(1, quant_bytes(op, row), quant_bytes(op, rows), work.place.quants);
  move(2, quant_scale_bytes(op, row), quant_scale_bytes(op, rows), work.place.scales);
}

void make_tables(const LutWork& work, uint32_t thread, uint32_t threads) {
  const Operator& op = *work.pass.op;
  const uint32_t blocks = lut_blocks(op.group, op.columns);
  const uint32_t begin = first_piece(thread, threads, blocks), end = first_piece(thread + 1, threads, blocks);
  const uint32_t column = begin * op.group, count = (end - begin) * op.group;
  for (uint32_t m = 0; m < work.pass.rows && count > 0; ++m) {
    const unsigned char* quants = work.at(work.place.quants);
    unsigned char* tables = work.at(work.place.tables) + (m * op.columns + column) * 8;
    const uint32_t at = m * op.columns + column;
    if (op.kind == Kind::matmul_lut_rounded) {
      const auto* scales = reinterpret_cast<const RoundedScale*>(work.at(work.place.scales)) + m * blocks + begin;
      hvx_lut_precompute_rounded(reinterpret_cast<const int8_t*>(quants) + at, scales, op.group, end - begin, tables);
    } else if (op.kind == Kind::matmul_lut_wide) {
      hvx_lut_precompute_wide(reinterpret_cast<const int16_t*>(quants) + at, count / 4, reinterpret_cast<uint16_t*>(tables));
    } else {
      hvx_lut_precompute(reinterpret_cast<const int8_t*>(quants) + at, count / 4, reinterpret_cast<uint16_t*>(tables));
    }
  }
}

void load_tiles(const LutWork& work, const Step& step, unsigned char* to, Chain& chain) {
  const Operator& op = *work.pass.op;
  const uint32_t all = panels_of(step.columns);
  for (uint32_t first = 0; first < all;) {
    const uint32_t column = step.column + first * kLutPanelRows, row = row_of_tile(op, column), panel = (column - row) / kLutPanelRows;
    const LutTile tile(op, row, step.begin);
    const uint32_t left = tile.panels - panel, count = all - first < left ? all - first : left;
    load_run(work, step, tile, panel, count, first, to, chain);
    first += count;
  }
}

void lut_tiles(const LutWork& work, const Step& step, const unsigned char* tiles, uint32_t out, uint32_t thread, uint32_t threads,
               volatile uint32_t& progress) {
  const Operator& op = *work.pass.op;
  const uint32_t all = panels_of(step.columns), begin = first_piece(thread, threads, all), end = first_piece(thread + 1, threads, all);
  if (begin == end) return;
  const bool rounded = op.kind == Kind::matmul_lut_rounded, wide = op.kind == Kind::matmul_lut_wide;
  const int32_t steps = op.zeros == Zeros::signs ? 2 : 1, zero = op.zeros == Zeros::signs ? 1 : static_cast<int32_t>(op.zero);
  const int32_t factor = steps * ((1 << op.bits) - 1) - (op.zeros == Zeros::of_blocks ? 0 : 2 * zero);
  const uint32_t of_row = lut_blocks(op.group, op.columns), before = lut_blocks(op.group, step.begin);
  const uint32_t blocks = lut_blocks(op.group, step.depth);
  const LutPanel size(op, step.depth);
  const ZeroPart part(op, step.begin, step.depth);
  const LutStep place(op, all, part.count, step.depth);
  const uint32_t bits = zero_field_bits(op.bits), first_field = before - part.first * (8u >> bits / 2);  // bits: 1, 2 or 4
  const unsigned char* planes = tiles + place.panels + begin * size.bytes() + size.scales;
  auto* weighted = reinterpret_cast<int32_t*>(work.at(work.place.weighted)) + begin * kLutPanelRows * blocks;
  alignas(kVectorBytes) int32_t dots[kMostTileColumns / kBlockColumns * kLutPanelRows];
  for (uint32_t m = 0; m < work.pass.rows; ++m) {
    const unsigned char* tables = work.at(work.place.tables) + (m * op.columns + step.begin) * 8;
    if (rounded) {
      hvx_lut_linear_rounded(planes, size.bytes(), end - begin, tables, step.depth / 16, op.bits, op.group, weighted);
    } else {
      (wide ? hvx_lut_linear_wide : hvx_lut_linear)(planes, size.bytes(), end - begin, reinterpret_cast<const uint16_t*>(tables),
                                                    step.depth / 16, op.bits, op.group, weighted);
    }
    float* const waiting = waiting_row(work, step, out, m);
    const uint32_t block = m * of_row + before, last_row = end * kLutPanelRows < step.columns ? end * kLutPanelRows : step.columns;
    const auto* x = reinterpret_cast<const ActivationScale*>(work.at(work.place.scales)) + block;
    const auto* units = reinterpret_cast<const RoundedScale*>(work.at(work.place.scales)) + block;
    for (uint32_t p = begin; p < end; ++p) {
      const ZeroFields zeros{tiles + place.zeros + p * kLutPanelRows, all, first_field, bits};
      const unsigned char* panel = tiles + place.panels + p * size.bytes();
      const auto* scales =
          reinterpret_cast<const uint16_t*>(op.scales == Scales::of_rows ? tiles + place.scales + p * lut_row_scales(op) : panel);
      const int32_t* sums = weighted + (p - begin) * blocks * kLutPanelRows;
      const uint32_t row = p * kLutPanelRows, rows = last_row - row < kLutPanelRows ? last_row - row : kLutPanelRows;
      if (rounded) {
        float_accumulate_rounded(sums, scales, scale_step(op), zeros, op.zeros, units, factor, blocks, rows, !step.first, waiting + row);
        continue;
      }
      (wide ? hvx_lut_finalize_wide : hvx_lut_finalize)(sums, zeros, op.zeros, x, factor, blocks, dots);
      float_accumulate(dots, scales, scale_step(op), x, blocks, rows, !step.first, waiting + row);
    }
    float* const mine = waiting + begin * kLutPanelRows;
    const uint32_t bytes = (last_row - begin * kLutPanelRows) * static_cast<uint32_t>(sizeof(float));
    if (waits(op) && op.spill == Spill::dram && !step.last) {
      clean_cache(mine, bytes);
      invalidate_cache(mine, bytes);
    }
    if (waits(op) && op.spill == Spill::l2 && step.last) memcpy(result_row(work, step, out, m) + begin * kLutPanelRows, mine, bytes);
    advance(progress);
  }
}

Transfer results_of(const LutWork& work, const Step& step, uint32_t out, bool last) {
  const Operator& op = *work.pass.op;
  const uint32_t pitch = op.rows * static_cast<uint32_t>(sizeof(float));
  unsigned char* to = work.pass.regions->outbound + op.out + work.pass.row * pitch;
  const bool stored = waits(op) && op.spill == Spill::dram;
  if (op.stages.once != 0) return {work.at(work.place.result), to, pitch, last && !stored ? work.pass.rows : 0, pitch, pitch};
  const uint32_t bytes = step.columns * static_cast<uint32_t>(sizeof(float)), rows = step.last && !stored ? work.pass.rows : 0;
  const uint32_t from_pitch = op.stages.columns * static_cast<uint32_t>(sizeof(float));
  return {work.at(work.place.out[out]), to + step.column * sizeof(float), bytes, rows, from_pitch, pitch};
}

uint32_t waiting_sums(const LutWork& work, const Step& step) { return step.last ? 0 : work.pass.rows * step.columns; }

}  // namespace vitro::hexagon
