// What each stage of a product by table look-up does with one step (lut_layout.hpp): transfers bring tiles, HVX threads look up, each
// for panels of its own, and finish sums; a transfer takes results away.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"
#include "engine/kernels/hexagon/lut_layout.hpp"

namespace vitro::hexagon {

// A pass of an operator.
struct LutWork {
  StagePass pass;
  unsigned char* tcm;
  LutTcm place;

  unsigned char* at(uint64_t begin) const { return tcm + static_cast<uint32_t>(begin); }
};

// Quants and scales of the pass, to make tables of.
void load_quants(const LutWork& work, Chain& chain);
// A thread's share of the tables (Precompute).
void make_tables(const LutWork& work, uint32_t thread, uint32_t threads);
// The tiles of a step, to the buffer that begins at `to`.
void load_tiles(const LutWork& work, const Step& step, unsigned char* to, Chain& chain);
// A thread's share of a step's panels (Linear, Finalize), against all rows of the pass. out: of the step's group, where there are several.
void lut_tiles(const LutWork& work, const Step& step, const unsigned char* tiles, uint32_t out, uint32_t thread, uint32_t threads,
               volatile uint32_t& progress);
// What goes out behind a step, the last of the pass or not.
Transfer results_of(const LutWork& work, const Step& step, uint32_t out, bool last);
// Sums of a step that wait for more of the depth.
uint32_t waiting_sums(const LutWork& work, const Step& step);

}  // namespace vitro::hexagon
