#include "engine/kernels/hexagon/hvx_worker/stages.hpp"

#include "engine/kernels/hexagon/hvx_worker/attention_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/dma.hpp"
#include "engine/kernels/hexagon/hvx_worker/look_up_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

namespace vitro::hexagon {
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

// The pass at hand. Written by the control thread while no stage works, or before it posts the stage's next step.
struct {
  StagePass pass;
  StageTcm place;           // of a product on the matrix unit
  LookUpWork look_up;       // of one by look-up
  AttentionWork attention;  // of attention, which has one pass
  Response* response;
  volatile uint32_t* progress;
  uint8_t op;
  uint32_t before;               // steps of earlier passes
  uint32_t vector_step, matrix_step;
  Step vector, matrix;
  uint32_t vector_out;  // of look-ups: where the step's results are
  bool makes_tables;    // what HVX threads are posted for, in place of a step
} now;

uint32_t finished[kStages];  // steps of the pass
uint32_t arrived, made;      // activations of the pass; tables of them
uint32_t vectors_left;       // HVX threads that still work on their step
uint32_t events;             // raised whenever a stage has finished something: what the control thread sleeps on

// In one order of all threads: whoever takes a place before another one was there before it.
void log(StageMark mark, uint8_t stage, uint8_t thread, uint32_t step) {
  const uint32_t at = raise(now.response->logged);
  if (at < kMostLogged) now.response->log[at] = {static_cast<uint8_t>(mark), stage, thread, now.op, step + now.before};
}

void finish(uint32_t& what) {
  raise(what);
  advance(*now.progress);
  raise(events);
  wake(events);
}

unsigned char* at(uint64_t place) { return tcm + static_cast<uint32_t>(place); }
bool attends() { return now.pass.op->kind == Kind::attention; }
bool looks() { return looks_up(now.pass.op->kind); }
uint32_t buffer(uint32_t step) { return buffer_of(step, now.pass.op->stages.buffers); }

// Of a transfer: its stage, and its step. The activations of a pass have the step 0.
constexpr uint32_t tag_of(uint32_t stage, uint32_t step) { return step << 3 | stage; }
void transfer_begun(uint32_t tag) { log(StageMark::begin, tag & 7, static_cast<uint8_t>(Thread::engine), tag >> 3); }
void transfer_done(uint32_t tag) {
  log(StageMark::end, tag & 7, static_cast<uint8_t>(Thread::engine), tag >> 3);
  finish((tag & 7) < kStages ? finished[tag & 7] : arrived);
}

void multiply_group(uint32_t step) {
  const StagePlan& plan = now.pass.op->stages;
  float* y = plan.once != 0 ? reinterpret_cast<float*>(at(now.place.result)) + now.matrix.column
                            : reinterpret_cast<float*>(at(now.place.out[buffer(step)]));
  multiply_tiles(now.pass, now.matrix, at(now.place.activations), at(now.place.ready[buffer(step)]), y,
                 plan.once != 0 ? now.pass.op->rows : plan.columns, *now.progress);
}

// Takes the next step that is posted to a seat.
uint32_t wait_for_post(const Seat& seat, uint32_t last) {
  uint32_t posted;
  while ((posted = look(seat.posted)) == last) sleep_while(seat.posted, last);
  return posted;
}

}  // namespace

extern "C" void vector_thread(void* argument) {
  const auto& seat = *static_cast<const Seat*>(argument);
  for (uint32_t seen = 0;;) {
    seen = wait_for_post(seat, seen);
    const uint32_t step = now.vector_step, threads = now.pass.op->stages.threads;
    const uint32_t index = seat.thread - static_cast<uint32_t>(Thread::vector);
    const bool tables = now.makes_tables;
    const uint8_t stage = tables ? kActivations : kVector;
    log(StageMark::begin, stage, seat.thread, step);
    if (tables) {
      make_tables(now.look_up, index, threads);
    } else if (looks()) {
      look_up_tiles(now.look_up, now.vector, at(now.look_up.place.in[buffer(step)]), now.vector_out, index, threads, *now.progress);
    } else if (attends()) {
      attention_vectors(now.attention, step, index, threads);
    } else {
      const uint32_t pieces = pieces_of(now.pass, now.vector);
      const uint32_t from = first_piece(index, threads, pieces), to = first_piece(index + 1, threads, pieces);
      if (from < to) {
        make_tiles(now.pass, now.vector, at(now.place.in[buffer(step)]), from, to, at(now.place.ready[buffer(step)]));
      }
    }
    log(StageMark::end, stage, seat.thread, step);
    if (raise(vectors_left, static_cast<uint32_t>(-1)) == 1) finish(tables ? made : finished[kVector]);
  }
}

extern "C" void matrix_thread(void* argument) {
  const auto& seat = *static_cast<const Seat*>(argument);
  for (uint32_t seen = 0;;) {
    seen = wait_for_post(seat, seen);
    const uint32_t step = now.matrix_step;
    log(StageMark::begin, kMatrix, seat.thread, step);
    if (attends()) {
      attention_products(now.attention, step, *now.progress);
    } else {
      multiply_group(step);
    }
    log(StageMark::end, kMatrix, seat.thread, step);
    finish(finished[kMatrix]);
  }
}

namespace {

void start_seat(Seat& seat, uint32_t thread, void (*run)(void*)) {
  if (seat.started) return;
  seat.thread = static_cast<uint8_t>(thread);
  seat.started = true;
  if (!start_thread(stacks[thread], kStackBytes, run == vector_thread, run, &seat)) leave(3);
}

// The DMA engine, the matrix unit's thread, and HVX threads as they are asked for, always in this order.
void start_threads(uint32_t vectors) {
  if (!matrix_seat.started && !dma_start({transfer_begun, transfer_done})) leave(3);
  start_seat(matrix_seat, static_cast<uint32_t>(Thread::matrix), matrix_thread);
  for (uint32_t i = 0; i < vectors; ++i) start_seat(vector_seats[i], static_cast<uint32_t>(Thread::vector) + i, vector_thread);
}

// Where a stage stands: its next step is part `part` of group `group`, whose results are in buffer `out` if they are look-ups'.
struct Place {
  uint32_t group = 0, part = 0, out = 0;
  Step take(const Operator& op) {
    const StagePlan& plan = op.stages;
    const uint32_t column = group * plan.columns, begin = part * plan.depth;
    const Step step{column,    op.rows - column < plan.columns ? op.rows - column : plan.columns,
                    begin,     op.columns - begin < plan.depth ? op.columns - begin : plan.depth,
                    part == 0, part + 1 == plan.depths};
    if (++part == plan.depths) {
      part = 0;
      ++group;
      out = out == groups_ahead(plan.buffers) ? 0 : out + 1;
    }
    return step;
  }
};

void queue_weights(const Step& step, uint32_t index) {
  log(StageMark::issue, kIn, static_cast<uint8_t>(Thread::control), index);
  Chain chain(tag_of(kIn, index));
  if (attends()) {
    load_block(now.attention, index, chain);
  } else if (looks()) {
    load_tiles(now.look_up, step, at(now.look_up.place.in[buffer(index)]), chain);
  } else {
    load_weights(now.pass, step, at(now.place.in[buffer(index)]), chain);
  }
  chain.close();
}

// Nothing moves where results wait for more of the depth, or for the last group.
void queue_results(const Step& step, uint32_t index, uint32_t out, bool last) {
  const Operator& op = *now.pass.op;
  log(StageMark::issue, kOut, static_cast<uint8_t>(Thread::control), index);
  Chain chain(tag_of(kOut, index));
  if (attends()) {
    const AttentionTcm& place = now.attention.place;
    chain.add(run_of(at(place.result), now.pass.regions->outbound + op.out, last ? op.out_bytes : 0));
    return chain.close();
  }
  if (looks()) {
    chain.add(results_of(now.look_up, step, out, last));
    return chain.close();
  }
  unsigned char* to = now.pass.regions->outbound + op.out + now.pass.row * op.rows * sizeof(float);
  const uint32_t pitch = op.rows * sizeof(float);
  if (op.stages.once != 0) {
    chain.add({at(now.place.result), to, pitch, last ? now.pass.rows : 0, pitch, pitch});
  } else {
    const uint32_t bytes = step.columns * sizeof(float), rows = step.last ? now.pass.rows : 0;
    const unsigned char* from = at(now.place.out[buffer(index)]);
    chain.add({from, to + step.column * sizeof(float), bytes, rows, op.stages.columns * static_cast<uint32_t>(sizeof(float)), pitch});
  }
  chain.close();
}

void post(Seat& seat) {
  raise(seat.posted);
  wake(seat.posted);
}

void post_vectors(uint32_t threads) {
  vectors_left = threads;
  for (uint32_t i = 0; i < threads; ++i) post(vector_seats[i]);
}

// has_tables: of look-ups: an operator before has made them.
void queue_activations(const Operator& op, bool has_tables) {
  log(StageMark::issue, kActivations, static_cast<uint8_t>(Thread::control), 0);
  Chain activations(tag_of(kActivations, 0));
  if (attends()) {
    load_queries(now.attention, activations);
  } else if (has_tables) {
    activations.add({});
  } else if (looks()) {
    load_quants(now.look_up, activations);
  } else {
    const uint32_t bytes = static_cast<uint32_t>(activation_bytes(op, now.pass.rows));
    activations.add(run_of(now.pass.operand(1) + now.pass.row * op.columns * element_bytes(op), at(now.place.activations), bytes));
  }
  activations.close();
}

void run_pass(const Operator& op, bool has_tables) {
  const StagePlan& plan = op.stages;
  const uint32_t steps = plan.steps();
  StageCounts counts;
  Place place[kStages];
  for (uint32_t& count : finished) count = 0;
  arrived = made = 0;
  now.makes_tables = false;
  queue_activations(op, has_tables);
  bool ready = !looks() || has_tables;  // for HVX to take steps
  while (true) {
    const uint32_t seen = look(events);
    for (int s = 0; s < kStages; ++s) counts.finished[s] = look(finished[s]);
    if (counts.finished[kOut] == steps) return;
    const bool makes = !ready && !now.makes_tables && look(arrived) != 0;
    if (now.makes_tables && look(made) != 0) {
      ready = true;
      now.makes_tables = false;
    }
    // All that may start: transfers are queued before anybody computes, so that they are on their way meanwhile.
    bool multiplies = false, converts = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = kStages - 1; s >= 0; --s) {  // what empties buffers goes first
        const auto stage = static_cast<Stage>(s);
        const uint32_t step = counts.started[stage];
        const bool busy = (stage == kMatrix || stage == kVector) && step > counts.finished[stage];
        if (busy || !may_start(stage, counts, steps, plan.buffers, plan.once != 0) || (stage == kVector && !ready)) continue;
        ++counts.started[stage];
        moved = true;
        const uint32_t out = place[stage].out;
        const Step taken = place[stage].take(op);
        if (stage == kIn) queue_weights(taken, step);
        if (stage == kOut) queue_results(taken, step, out, step + 1 == steps);
        if (stage == kVector) {
          now.vector = taken;
          now.vector_step = step;
          now.vector_out = out;
          converts = true;
          if (looks()) now.response->spilled[static_cast<uint32_t>(op.spill)] += waiting_sums(now.look_up, taken);
        }
        if (stage == kMatrix && looks()) {  // has nothing to do
          counts.finished[kMatrix] = raise(finished[kMatrix]) + 1;
        } else if (stage == kMatrix) {
          now.matrix = taken;
          now.matrix_step = step;
          multiplies = true;
        }
      }
    }
    if (multiplies) post(matrix_seat);
    if (makes) {
      now.makes_tables = true;
      now.vector_step = 0;
    }
    if (converts || makes) post_vectors(plan.threads);
    sleep_while(events, seen);
  }
}

}  // namespace

void begin_log(Response& response) {
  response.logged = 0;
  for (uint32_t& sums : response.spilled) sums = 0;
}

unsigned char* idle_tcm() { return tcm; }

void end_log(Response& response) {
  const uint32_t kept = response.logged < kMostLogged ? response.logged : kMostLogged;
  clean_cache(response.log, kept * sizeof(StageEvent));
}

void run_staged(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress) {
  const StagePlan& plan = op.stages;
  start_threads(plan.threads);
  now.response = &regions.response();
  now.progress = &progress;
  now.op = static_cast<uint8_t>(index);
  bool has_tables = false;
  if (op.kind == Kind::attention) {
    now.attention = {&op, &regions, tcm, place_attention(op)};
  } else if (looks_up(op.kind)) {
    now.look_up = {{}, tcm, place_look_up(op)};
    has_tables = index > 0 && shares_tables((&op)[-1], op);  // operators of a request stand side by side
  } else {
    now.place = place_stages(op);
  }
  now.before = 0;
  for (uint32_t row = 0; row < op.batch; row += plan.rows) {
    now.pass = {&op, &regions, row, op.batch - row < plan.rows ? op.batch - row : plan.rows};
    now.look_up.pass = now.pass;
    run_pass(op, has_tables);
    now.before += plan.steps();
  }
}

}  // namespace vitro::hexagon
