#include "engine/kernels/hexagon/hvx_worker/add_work.hpp"

#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {

Transfer multipliers(const AddWork& work) {
  const StagePass& pass = work.pass;
  const uint32_t of_row = pass.op->rows * sizeof(float);
  return run_of(pass.operand(1) + pass.row * of_row, work.at(work.place.h), pass.rows * of_row);
}

void add_step(const AddWork& work, const Step& step, const unsigned char* rows, uint32_t thread, uint32_t threads) {
  const Operator& op = *work.pass.op;
  const uint32_t blocks = op.columns / kBlockColumns;
  const uint32_t from = first_piece(thread, threads, blocks), to = first_piece(thread + 1, threads, blocks);
  auto* y = reinterpret_cast<float*>(work.at(work.place.result));
  for (uint32_t m = 0; m < work.pass.rows && step.column == 0; ++m) {
    for (uint32_t c = from * kBlockColumns; c < to * kBlockColumns; ++c) y[m * op.columns + c] = 0;
  }
  const AddedRows added{.rows = rows,
                        .pitch = row_pitch(op, op.columns),
                        .count = step.columns,
                        .bits = op.bits,
                        .scales = scales_apart(op) ? nibble_bytes(op.columns) : 0,
                        .h = reinterpret_cast<const float*>(work.at(work.place.h)) + step.column,
                        .h_pitch = op.rows,
                        .batch = work.pass.rows};
  auto* made = reinterpret_cast<float*>(work.at(work.place.made)) + thread * (kAddedTogether * kAddedSpan);
  hvx_add_rows(&added, from, to, made, y, op.columns);
}

Transfer added_results(const AddWork& work, bool last) {
  const StagePass& pass = work.pass;
  const uint32_t of_row = pass.op->columns * sizeof(float);
  return run_of(work.at(work.place.result), pass.regions->outbound + pass.op->out + pass.row * of_row, last ? pass.rows * of_row : 0);
}

}  // namespace vitro::hexagon
