// What each stage of a sum of rows in places does with one step (add_layout.hpp): a group of rows.
#pragma once
#include "engine/kernels/hexagon/add_layout.hpp"
#include "engine/kernels/hexagon/hvx_worker/stage_work.hpp"

namespace vitro::hexagon {

// A pass of an operator.
struct AddWork {
  StagePass pass;
  unsigned char* tcm;
  AddTcm place;

  unsigned char* at(uint64_t begin) const { return tcm + static_cast<uint32_t>(begin); }
};

// What rows are multiplied by, of the pass.
Transfer multipliers(const AddWork& work);
// A thread's share of the columns: the rows of a step, which stand at `rows`, are added to them.
void add_step(const AddWork& work, const Step& step, const unsigned char* rows, uint32_t thread, uint32_t threads);
// What goes out behind a step, the last of the pass or not.
Transfer added_results(const AddWork& work, bool last);

}  // namespace vitro::hexagon
