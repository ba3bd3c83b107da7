// What the control thread of the stages and the threads that work in them share: the pass at hand, and what has finished of it.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/add_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/attention_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/block_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/lut_work.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

namespace vitro::hexagon {

// Written by the control thread while no stage works, or before it posts the stage's next step.
struct StageWork {
  StagePass pass;
  StageTcm place;           // of a product on the matrix unit in fp16, or with one sum for a row
  BlockWork blocks;         // of one of blocks, in int8
  LutWork lut;              // of one by look-up
  AddWork add;              // of a sum of rows
  AttentionWork attention;  // of attention, which has one pass
  Response* response;
  volatile uint32_t* progress;
  uint8_t op;
  uint32_t before;  // steps of earlier passes
  uint32_t vector_step, matrix_step;
  Step vector, matrix;
  uint32_t vector_out;  // of look-ups: where the step's results are
  bool makes_tables;    // what HVX threads are posted for, in place of a step

  bool attends() const { return pass.op->kind == Kind::attention; }
  bool by_lut() const { return is_lut(pass.op->kind); }
  bool sums() const { return by_blocks(pass.op->kind); }
  bool adds() const { return adds_rows(pass.op->kind); }
  uint32_t buffer(uint32_t step) const { return buffer_of(step, pass.op->stages.buffers); }
};
extern StageWork now;

// Raised by the threads that work.
struct StageEnds {
  uint32_t finished[kStages];  // steps of the pass
  uint32_t arrived, made;      // activations of the pass; tables of them
  uint32_t vectors_left;       // HVX threads that still work on their step
  uint32_t events;             // raised whenever a stage has finished something: what the control thread sleeps on
};
extern StageEnds ends;

unsigned char* tcm_at(uint64_t place);

// In one order of all threads: whoever takes a place before another one was there before it.
void log(StageMark mark, uint8_t stage, uint8_t thread, uint32_t step);
// Of a transfer: its stage, and its step. The activations of a pass have the step 0.
constexpr uint32_t tag_of(uint32_t stage, uint32_t step) { return step << 3 | stage; }
// The DMA engine, the matrix unit's thread, and HVX threads as they are asked for.
void start_threads(uint32_t vectors);
void post_matrix();
void post_vectors(uint32_t threads);

}  // namespace vitro::hexagon
