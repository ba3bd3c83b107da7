// Products on the matrix unit and by look-up, and attention, in stages that work at the same time (T-MAN 4.2): the control thread starts
// each stage when the plan's rule lets it (stage_plan.hpp), the DMA engine, a pool of HVX threads and the matrix unit's thread do the work,
// and a log says in which order.
#pragma once
#include "engine/kernels/hexagon/hvx_worker/operators.hpp"

namespace vitro::hexagon {

// Before the operators of a request: its log is empty, nothing has been spilled.
void begin_log(Response& response);
// Behind them: the log is whole, and the CPU can see it.
void end_log(Response& response);

// Requires: valid_stages(op), valid_lut(op) or valid_attention(op), inside(op, regions). op: operator `index` of its request.
void run_staged(const Operator& op, uint32_t index, const Regions& regions, volatile uint32_t& progress);

}  // namespace vitro::hexagon
