// Stages of a product on the worker's matrix unit or by look-up, as the host sees them: the plan that an operator carries, and what the
// worker's log of it says.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/base/units.hpp"
#include "engine/host/hexagon_transport.hpp"
#include "engine/kernels/hexagon/protocol.hpp"

namespace vitro::hexagon {

struct StageOptions {
  std::uint32_t buffers = 2;  // between two stages: 0, 1 or 2
  std::uint32_t threads = 4;  // of HVX: 1, 2 or 4
  Bytes group = 256 * KiB;    // weights of a group, at most
  Bytes tcm = kTcmBytes;      // that stages may use, at most all of it
};

// The plan of an operator whose shape and layout are set: that of the simulated NPU (choose_stages()), in whole panels where columns lie in
// panels. `stored`: bytes of a column of the result in the model's file, which size the groups; 0: those of the layout.
// Look-ups: a tile of the layout for each thread at a time.
// With the fewest passes over the weights; for these, two buffers may become one. A depth of which one tile of rows does not fit is cut.
// Requires: is_staged(op.kind), at most kMostColumns columns.
StagePlan plan_stages(const Operator& op, Bytes stored, const StageOptions& options);

// What is wrong with a log that a worker answered to these operators, if anything: an event that can not be, or too many or few of them.
// logged: as the worker says; log: the events that there was room for.
Status check_log(std::span<const Operator> operators, std::uint32_t logged, std::span<const StageEvent> log);

// Executed packets of a stage on one thread of the worker. Stages: `transfer`, of the thread that stands in for the DMA engine; `vector`,
// of HVX threads; `matrix`, of the matrix unit's model; `control`, of the thread that starts the others; `other`, of its operators without
// stages (functions with HVX instructions, or called hvx_ or float_). Those with no packets are left out.
struct StagePackets {
  std::string_view stage, thread;
  std::uint64_t packets = 0;
};
std::vector<StagePackets> packets_by_stage(std::span<const PacketCount> counts);

// Of one operator's log.
struct StageOverlap {
  std::uint64_t steps = 0;              // whose vector stage the log has
  std::uint64_t transfers_ahead = 0;    // of weights, issued before the vector stage of the step before had ended
  std::uint64_t vectors_with_matrix = 0;  // vector stages that began before the matrix unit had ended the step before
  StageOverlap& operator+=(const StageOverlap& other) {
    steps += other.steps;
    transfers_ahead += other.transfers_ahead;
    vectors_with_matrix += other.vectors_with_matrix;
    return *this;
  }
};
// Requires: check_log().
StageOverlap overlap_of(const Operator& op, std::uint32_t index, std::span<const StageEvent> log);

}  // namespace vitro::hexagon
