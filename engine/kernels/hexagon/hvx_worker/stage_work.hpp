// What each stage of a product on the matrix unit does with one step: a group of columns, or a part of its depth. Strips and panels
// (panels.hpp) have their own. All pointers but the transfers' sources and the result's end are in TCM.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/dma.hpp"
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"
#include "engine/kernels/hexagon/stage_layout.hpp"

namespace vitro::hexagon {

struct Step {
  uint32_t column, columns;  // of the result: the first, and how many
  uint32_t begin, depth;     // of the depth
  bool first, last;          // part of the depth
};

// A pass of an operator.
struct StagePass {
  const Operator* op;
  const Regions* regions;
  uint32_t row, rows;  // of activations: the first, and how many

  const unsigned char* operand(int i) const { return regions->inbound + op->in[i]; }
};

// A chain of transfers that is being queued; the engine tells of its begin and its end.
class Chain {
 public:
  explicit Chain(uint32_t tag) : tag_(tag) {}
  void add(const Transfer& transfer) {
    if (held_) dma_queue(last_, tag_, queued_++ == 0, false);
    last_ = transfer;
    held_ = true;
  }
  void close() { dma_queue(last_, tag_, queued_ == 0, true); }  // Requires: there is a transfer

 private:
  uint32_t tag_, queued_ = 0;
  bool held_ = false;
  Transfer last_{};
};

// Rows of blocks of a step wherever they lie, one behind the other from `to` on. Those that are as far apart as two of them are a 2D block.
// Scales that lie apart stand behind a row's nibbles.
void gather_rows(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain);
// The weights of a step to `to`.
void load_weights(const StagePass& pass, const Step& step, unsigned char* to, Chain& chain);
// Piece `piece` of a strip from rows `depth` columns long, and how many of its tiles there are.
uint32_t make_piece(const Operator& op, uint32_t depth, const unsigned char* rows, uint32_t piece, unsigned char* made);
// Parts that HVX threads share: tiles of a strip, or several of them; tiles of a panel.
uint32_t pieces_of(const StagePass& pass, const Step& step);
// made: the thread's room for a piece of rows in places.
void make_tiles(const StagePass& pass, const Step& step, const unsigned char* weights, uint32_t piece, uint32_t end, unsigned char* made,
                unsigned char* tiles);
// y: fp32 of the step's first row and column, `pitch` floats from row to row; written with the last part of a depth.
void multiply_tiles(const StagePass& pass, const Step& step, const unsigned char* activations, const unsigned char* tiles, float* y,
                    uint32_t pitch, volatile uint32_t& progress);

}  // namespace vitro::hexagon
