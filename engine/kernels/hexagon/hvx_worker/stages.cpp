#include "engine/kernels/hexagon/hvx_worker/stages.hpp"

#include "engine/kernels/hexagon/hvx_worker/dma.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_threads.hpp"

namespace vitro::hexagon {
namespace {

// Where a stage stands: its next step is part `part` of group `group`, whose results are in buffer `out` if HVX writes them.
struct Place {
  uint32_t group = 0, part = 0, out = 0;
  Step take(const Operator& op) {
    const StagePlan& plan = op.stages;
    if (group == plan.groups) return {};  // what goes through the stages behind the last group
    const uint32_t column = group * plan.columns, begin = part * plan.depth;
    const Step step{column,    op.rows - column < plan.columns ? op.rows - column : plan.columns,
                    begin,     op.columns - begin < plan.depth ? op.columns - begin : plan.depth,
                    part == 0, part + 1 == plan.depths};
    if (++part == plan.depths) {
      part = 0;
      ++group;
      const uint32_t last = by_blocks(op.kind) ? 2 * groups_ahead(plan.buffers) - 1 : groups_ahead(plan.buffers);
      out = out == last ? 0 : out + 1;
    }
    return step;
  }
};

// Products of blocks: what a stage does with a step `lag` steps later. Takes one, and gives the one whose turn it is.
struct Late {
  BlockTurn turns[2];
  BlockTurn exchange(uint32_t step, const BlockTurn& turn) {
    BlockTurn& place = turns[now.buffer(step)];
    const BlockTurn before = place;
    place = turn;
    return before;
  }
};

void queue_weights(const Step& step, uint32_t index) {
  log(StageMark::issue, kIn, static_cast<uint8_t>(Thread::control), index);
  Chain chain(tag_of(kIn, index));
  if (now.attends()) {
    load_block(now.attention, index, chain);
  } else if (now.adds()) {
    gather_rows(now.pass, step, tcm_at(now.add.place.in[now.buffer(index)]), chain);
  } else if (now.by_lut()) {
    load_tiles(now.lut, step, tcm_at(now.lut.place.in[now.buffer(index)]), chain);
  } else if (step.columns == 0) {
    chain.add({});
  } else {
    load_weights(now.pass, step, tcm_at((now.sums() ? now.blocks.place.in : now.place.in)[now.buffer(index)]), chain);
  }
  chain.close();
}

// Nothing moves where results wait for more of the depth, or for the last group.
void queue_results(const BlockTurn& turn, uint32_t index, bool last) {
  const Step& step = turn.step;
  const Operator& op = *now.pass.op;
  log(StageMark::issue, kOut, static_cast<uint8_t>(Thread::control), index);
  Chain chain(tag_of(kOut, index));
  if (now.attends()) {
    const AttentionTcm& place = now.attention.place;
    chain.add(run_of(tcm_at(place.result), now.pass.regions->outbound + op.out, last ? op.out_bytes : 0));
    return chain.close();
  }
  if (now.by_lut() || now.adds()) {
    chain.add(now.adds() ? added_results(now.add, last) : results_of(now.lut, step, turn.out, last));
    return chain.close();
  }
  if (now.sums()) {
    chain.add(block_results(now.blocks, turn, last));
    return chain.close();
  }
  unsigned char* to = now.pass.regions->outbound + op.out + now.pass.row * op.rows * sizeof(float);
  const uint32_t pitch = op.rows * sizeof(float);
  if (op.stages.once != 0) {
    chain.add({tcm_at(now.place.result), to, pitch, last ? now.pass.rows : 0, pitch, pitch});
  } else {
    const uint32_t bytes = step.columns * sizeof(float), rows = step.last ? now.pass.rows : 0;
    const unsigned char* from = tcm_at(now.place.out[now.buffer(index)]);
    chain.add({from, to + step.column * sizeof(float), bytes, rows, op.stages.columns * static_cast<uint32_t>(sizeof(float)), pitch});
  }
  chain.close();
}

// has_tables: of look-ups: an operator before has made them.
void queue_activations(const Operator& op, bool has_tables) {
  log(StageMark::issue, kActivations, static_cast<uint8_t>(Thread::control), 0);
  Chain activations(tag_of(kActivations, 0));
  if (now.attends()) {
    load_queries(now.attention, activations);
  } else if (has_tables) {
    activations.add({});
  } else if (now.adds()) {
    activations.add(multipliers(now.add));
  } else if (now.by_lut()) {
    load_quants(now.lut, activations);
  } else if (now.sums()) {
    load_bytes(now.blocks, activations);
  } else {
    const uint32_t bytes = static_cast<uint32_t>(activation_bytes(op, now.pass.rows));
    activations.add(run_of(now.pass.operand(1) + now.pass.row * op.columns * element_bytes(op), tcm_at(now.place.activations), bytes));
  }
  activations.close();
}

// A step of the vector stage before it is posted.
void prepare_vectors(const BlockTurn& turn, Late& late, uint32_t step) {
  now.vector = turn.step;
  now.vector_step = step;
  now.vector_out = turn.out;
  now.blocks.made = turn;
  if (now.sums()) now.blocks.summed = late.exchange(step, turn);
  if (now.by_lut()) now.response->spilled[static_cast<uint32_t>(now.pass.op->spill)] += waiting_sums(now.lut, turn.step);
}
// The same of the matrix unit. True where it has something to do.
bool prepare_matrix(const Step& step, uint32_t index, StageCounts& counts) {
  if (without_matrix(now.pass.op->kind)) {
    counts.finished[kMatrix] = raise(ends.finished[kMatrix]) + 1;
    return false;
  }
  now.matrix = step;
  now.matrix_step = index;
  return true;
}

void run_pass(const Operator& op, bool has_tables) {
  const StagePlan& plan = op.stages;
  const uint32_t steps = pass_steps(op);
  StageCounts counts;
  Place place[kStages];
  Late vectors, results;
  uint32_t kept = 0;  // where the scales of a step are
  for (uint32_t& count : ends.finished) count = 0;
  ends.arrived = ends.made = 0;
  now.makes_tables = false;
  queue_activations(op, has_tables);
  bool ready = !now.by_lut() || has_tables;  // for HVX to take steps
  while (true) {
    const uint32_t seen = look(ends.events);
    for (int s = 0; s < kStages; ++s) counts.finished[s] = look(ends.finished[s]);
    if (counts.finished[kOut] == steps) return;
    const bool makes = !ready && !now.makes_tables && look(ends.arrived) != 0;
    if (now.makes_tables && look(ends.made) != 0) {
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
        BlockTurn turn{{}, kept, place[stage].out};
        turn.step = place[stage].take(op);
        if (stage == kIn) queue_weights(turn.step, step);
        if (stage == kOut) queue_results(now.sums() ? results.exchange(step, turn) : turn, step, step + 1 == steps);
        if (stage == kVector) {
          prepare_vectors(turn, vectors, step);
          converts = true;
          kept = kept == groups_ahead(plan.buffers) ? 0 : kept + 1;
        }
        if (stage == kMatrix) multiplies = prepare_matrix(turn.step, step, counts) || multiplies;
      }
    }
    if (multiplies) post_matrix();
    if (makes) {
      now.makes_tables = true;
      now.vector_step = 0;
    }
    if (converts || makes) post_vectors(plan.threads);
    sleep_while(ends.events, seen);
  }
}

}  // namespace

void begin_log(Response& response) {
  response.logged = 0;
  for (uint32_t& sums : response.spilled) sums = 0;
}

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
    now.attention = {&op, &regions, tcm_at(0), place_attention(op)};
  } else if (adds_rows(op.kind)) {
    now.add = {{}, tcm_at(0), place_add(op)};
  } else if (by_blocks(op.kind)) {
    now.blocks = {{}, tcm_at(0), place_blocks(op), {}, {}};
  } else if (is_lut(op.kind)) {
    now.lut = {{}, tcm_at(0), place_lut(op)};
    has_tables = index > 0 && shares_tables((&op)[-1], op);  // operators of a request stand side by side
  } else {
    now.place = place_stages(op);
  }
  now.before = 0;
  for (uint32_t row = 0; row < op.batch; row += plan.rows) {
    now.pass = {&op, &regions, row, op.batch - row < plan.rows ? op.batch - row : plan.rows};
    now.lut.pass = now.blocks.pass = now.add.pass = now.pass;
    run_pass(op, has_tables);
    now.before += pass_steps(op);
  }
}

}  // namespace vitro::hexagon
