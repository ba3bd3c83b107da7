#include "engine/kernels/hexagon/hvx_worker/stage_threads.hpp"

namespace vitro::hexagon {

StageWork now;
StageEnds ends;

namespace {

alignas(4096) unsigned char tcm[kTcmBytes];
constexpr uint32_t kStackBytes = 65536;
alignas(128) unsigned char stacks[kThreads][kStackBytes];

// What a thread of its own does, and when: `posted` is raised for each step, and for nothing else.
struct Seat {
  uint32_t posted = 0;
  uint8_t thread = 0;
  bool started = false;
};
Seat matrix_seat, vector_seats[kMostVectorThreads];

void finish(uint32_t& what) {
  raise(what);
  advance(*now.progress);
  raise(ends.events);
  wake(ends.events);
}

void transfer_begun(uint32_t tag) { log(StageMark::begin, tag & 7, static_cast<uint8_t>(Thread::engine), tag >> 3); }
void transfer_done(uint32_t tag) {
  log(StageMark::end, tag & 7, static_cast<uint8_t>(Thread::engine), tag >> 3);
  finish((tag & 7) < kStages ? ends.finished[tag & 7] : ends.arrived);
}

void multiply_group(uint32_t step) {
  const StagePlan& plan = now.pass.op->stages;
  float* y = plan.once != 0 ? reinterpret_cast<float*>(tcm_at(now.place.result)) + now.matrix.column
                            : reinterpret_cast<float*>(tcm_at(now.place.out[now.buffer(step)]));
  multiply_tiles(now.pass, now.matrix, tcm_at(now.place.activations), tcm_at(now.place.ready[now.buffer(step)]), y,
                 plan.once != 0 ? now.pass.op->rows : plan.columns, *now.progress);
}

// Takes the next step that is posted to a seat.
uint32_t wait_for_post(const Seat& seat, uint32_t last) {
  uint32_t posted;
  while ((posted = look(seat.posted)) == last) sleep_while(seat.posted, last);
  return posted;
}

void post(Seat& seat) {
  raise(seat.posted);
  wake(seat.posted);
}

}  // namespace

unsigned char* tcm_at(uint64_t place) { return tcm + static_cast<uint32_t>(place); }

void log(StageMark mark, uint8_t stage, uint8_t thread, uint32_t step) {
  const uint32_t at = raise(now.response->logged);
  if (at < kMostLogged) now.response->log[at] = {static_cast<uint8_t>(mark), stage, thread, now.op, step + now.before};
}

extern "C" void vector_thread(void* argument) {
  const auto& seat = *static_cast<const Seat*>(argument);
  for (uint32_t seen = 0;;) {
    seen = wait_for_post(seat, seen);
    const uint32_t step = now.vector_step, threads = now.pass.op->stages.threads;
    const uint32_t index = seat.thread - static_cast<uint32_t>(Thread::vector), buffer = now.buffer(step);
    const bool tables = now.makes_tables;
    const uint8_t stage = tables ? kActivations : kVector;
    log(StageMark::begin, stage, seat.thread, step);
    if (tables) {
      make_tables(now.lut, index, threads);
    } else if (now.by_lut()) {
      lut_tiles(now.lut, now.vector, tcm_at(now.lut.place.in[buffer]), now.vector_out, index, threads, *now.progress);
    } else if (now.adds()) {
      add_step(now.add, now.vector, tcm_at(now.add.place.in[buffer]), index, threads);
    } else if (now.attends()) {
      attention_vectors(now.attention, step, index, threads);
    } else if (now.sums()) {
      block_vectors(now.blocks, buffer, index, threads);
    } else {
      const uint32_t pieces = pieces_of(now.pass, now.vector);
      const uint32_t from = first_piece(index, threads, pieces), to = first_piece(index + 1, threads, pieces);
      unsigned char* made = tcm_at(now.place.pieces + index * piece_bytes(weight_bits(*now.pass.op)));
      if (from < to) make_tiles(now.pass, now.vector, tcm_at(now.place.in[buffer]), from, to, made, tcm_at(now.place.ready[buffer]));
    }
    log(StageMark::end, stage, seat.thread, step);
    if (raise(ends.vectors_left, static_cast<uint32_t>(-1)) == 1) finish(tables ? ends.made : ends.finished[kVector]);
  }
}

extern "C" void matrix_thread(void* argument) {
  const auto& seat = *static_cast<const Seat*>(argument);
  for (uint32_t seen = 0;;) {
    seen = wait_for_post(seat, seen);
    const uint32_t step = now.matrix_step;
    log(StageMark::begin, kMatrix, seat.thread, step);
    if (now.attends()) {
      attention_products(now.attention, step, *now.progress);
    } else if (now.sums()) {
      block_products(now.blocks, now.matrix, now.buffer(step), *now.progress);
    } else {
      multiply_group(step);
    }
    log(StageMark::end, kMatrix, seat.thread, step);
    finish(ends.finished[kMatrix]);
  }
}

namespace {

void start_seat(Seat& seat, uint32_t thread, void (*run)(void*)) {
  if (seat.started) return;
  seat.thread = static_cast<uint8_t>(thread);
  seat.started = true;
  if (!start_thread(stacks[thread], kStackBytes, run == vector_thread, run, &seat)) leave(3);
}

}  // namespace

// Always in this order.
void start_threads(uint32_t vectors) {
  if (!matrix_seat.started && !dma_start({transfer_begun, transfer_done})) leave(3);
  start_seat(matrix_seat, static_cast<uint32_t>(Thread::matrix), matrix_thread);
  for (uint32_t i = 0; i < vectors; ++i) start_seat(vector_seats[i], static_cast<uint32_t>(Thread::vector) + i, vector_thread);
}

void post_matrix() { post(matrix_seat); }

void post_vectors(uint32_t threads) {
  ends.vectors_left = threads;
  for (uint32_t i = 0; i < threads; ++i) post(vector_seats[i]);
}

}  // namespace vitro::hexagon
