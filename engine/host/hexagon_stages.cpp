#include "engine/host/hexagon_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/kernels/hexagon/add_layout.hpp"
#include "engine/kernels/hexagon/block_layout.hpp"
#include "engine/kernels/hexagon/lut_layout.hpp"

namespace vitro::hexagon {
namespace {

constexpr std::uint32_t up(std::uint32_t n, std::uint32_t to) { return (n + to - 1) / to * to; }

// The groups that were chosen, for passes of `rows` rows and steps of `depth`.
StagePlan plan_of(const Operator& op, const StageChoice& chosen, std::uint32_t rows, std::uint32_t depth, std::uint32_t buffers,
                  std::uint32_t threads) {
  return {.rows = rows,
          .passes = (op.batch + rows - 1) / rows,
          .columns = chosen.columns,
          .groups = (op.rows + chosen.columns - 1) / chosen.columns,
          .depth = depth,
          .depths = (op.columns + depth - 1) / depth,
          .buffers = buffers,
          .threads = threads,
          .once = chosen.room.out == 0 ? 1u : 0u};
}

std::optional<StagePlan> plan_with(const Operator& op, Bytes stored, const StageOptions& options, std::uint32_t buffers,
                                   std::uint32_t depth) {
  const std::uint32_t unit = unit_columns(op);
  const bool cut = depth < op.columns, rows_in_places = of_block_rows(op.kind);
  const auto share = [unit](std::uint64_t bytes) { return (bytes + unit - 1) / unit; };
  const auto room_of = [&](std::uint32_t rows) {
    StageRoom room;
    room.activations = activation_bytes(op, rows);
    room.in = share(unit_weights(op, depth));
    room.ready = share(unit_tiles(op, depth));
    if (rows_in_places) room.sums = pieces_room(weight_bits(op), options.threads);
    room.streamed = std::max<std::uint64_t>(stored > 0 ? stored : room.in, room.ready / 4);
    const std::uint64_t result = std::uint64_t{rows} * op.rows * sizeof(float);
    if (result <= options.group) {
      room.result = result;
    } else {
      room.out = std::uint64_t{up(rows, kTile)} * sizeof(float);
    }
    return room;
  };
  const std::uint32_t most = cut ? kTile : op.batch;
  const StageChoice chosen = choose_stages({std::min(op.batch, most), op.rows, kTile, unit, cut ? unit : 0, 0},
                                           {options.tcm, options.group, buffers, kVectorBytes}, room_of);
  if (!chosen.fits) return {};
  return plan_of(op, chosen, cut ? kTile : chosen.rows, depth, buffers, options.threads);
}

// Look-ups of rows of activations that fit, by the tiles of the layout.
std::optional<StagePlan> plan_lut(const Operator& op, const StageOptions& options, std::uint32_t buffers) {
  const std::uint64_t even = even_tile(op.rows, op.tile.rows, options.threads, kLutPanelRows);
  const std::uint32_t depth = part_columns(op);
  const auto room_of = [&](std::uint32_t rows) {
    StageRoom room;
    room.activations = quant_bytes(op, rows) + quant_scale_bytes(op, rows);
    room.tables = table_bytes(op, rows);
    room.in = (step_bytes(op, 1) + kLutPanelRows - 1) / kLutPanelRows;
    room.spill = weighted_bytes(op, 1) / kLutPanelRows;
    const std::uint64_t result = std::uint64_t{rows} * op.rows * sizeof(float);
    if (result <= options.group) {
      room.result = result;
    } else {
      room.out = rows * sizeof(float);
      room.spill += rows * sizeof(float);  // one more
    }
    return room;
  };
  const auto most = static_cast<std::uint32_t>(kOrdinarySums / even);
  const std::uint32_t together = op.spill == Spill::l2 ? std::min(op.batch, most) : op.batch;
  const StageChoice chosen = choose_stages({together, op.rows, 1, kLutPanelRows, even, kLutPanelRows * options.threads},
                                           {options.tcm, options.group, buffers, kVectorBytes}, room_of);
  if (!chosen.fits) return {};
  return plan_of(op, chosen, chosen.rows, depth, buffers, options.threads);
}

// Of blocks: parts of the depth, whose sums HVX scales.
std::optional<StagePlan> plan_blocks(const Operator& op, Bytes stored, const StageOptions& options, std::uint32_t buffers) {
  const BlockShape shape{op.rows, op.columns, weight_bits(op), stored > 0 ? stored : unit_weights(op, op.columns) / kTile,
                         of_block_rows(op.kind) ? options.threads : 0};
  const auto room_of = [&](std::uint32_t rows) { return block_room(shape, rows, options.group, buffers); };
  const StageChoice chosen =
      choose_stages({op.batch, op.rows, kTile, kTile, 0, 0}, {options.tcm, options.group, buffers, kVectorBytes}, room_of);
  if (!chosen.fits) return {};
  return plan_of(op, chosen, chosen.rows, shape.part(), buffers, options.threads);
}

// Of sums of rows: as many rows at a time as a group has bytes for, and sums that stay in TCM for all of them.
std::optional<StagePlan> plan_add(const Operator& op, Bytes stored, const StageOptions& options, std::uint32_t buffers) {
  const auto room_of = [&](std::uint32_t rows) {
    StageRoom room;
    room.activations = std::uint64_t{rows} * op.rows * sizeof(float);
    room.result = std::uint64_t{rows} * op.columns * sizeof(float);
    room.sums = made_bytes(options.threads) + kVectorBytes;
    room.in = row_pitch(op, op.columns);
    room.streamed = stored > 0 ? stored : room.in;
    return room;
  };
  const StageChoice chosen =
      choose_stages({op.batch, op.rows, 1, kAddedTogether, 0, 0}, {options.tcm, options.group, buffers, kVectorBytes}, room_of);
  if (!chosen.fits) return {};
  return plan_of(op, chosen, chosen.rows, op.columns, buffers, options.threads);
}

// Those whose plans fit by fewer rows of activations alone.
std::optional<StagePlan> plan_of_kind(const Operator& op, Bytes stored, const StageOptions& options, std::uint32_t buffers) {
  return adds_rows(op.kind) ? plan_add(op, stored, options, buffers)
         : is_lut(op.kind)  ? plan_lut(op, options, buffers)
                            : plan_blocks(op, stored, options, buffers);
}

bool has_stages(const Operator& op) { return is_staged(op.kind) || op.kind == Kind::attention; }

std::uint64_t steps_of(const Operator& op) { return std::uint64_t{op.stages.passes} * pass_steps(op); }

// Per pass: issue, begin and end of its activations, and each HVX thread's begin and end where it makes tables of them. Per step: of two
// transfers; begin and end of each HVX thread, and of the matrix unit if there is one in it.
std::uint64_t events_of(const Operator& op, bool makes_tables) {
  const StagePlan& plan = op.stages;
  const std::uint64_t vectors = 2ull * plan.threads, matrix = without_matrix(op.kind) ? 0 : 2;
  return (3 + (makes_tables ? vectors : 0)) * plan.passes + steps_of(op) * (3 + 3 + matrix + vectors);
}

bool possible(const StageEvent& event, std::span<const Operator> operators) {
  if (event.mark > static_cast<std::uint8_t>(StageMark::end) || event.stage > kActivations || event.op >= operators.size()) return false;
  const Operator& op = operators[event.op];
  if (!has_stages(op) || event.step >= steps_of(op)) return false;
  const auto is = [&event](Thread thread) { return event.thread == static_cast<std::uint8_t>(thread); };
  const bool transfer = event.stage != kVector && event.stage != kMatrix;
  if (event.mark == static_cast<std::uint8_t>(StageMark::issue)) return is(Thread::control) && transfer;
  const auto first = static_cast<std::uint32_t>(Thread::vector);
  const bool vector = event.thread >= first && event.thread < first + op.stages.threads, by_lut = is_lut(op.kind);
  if (event.stage == kMatrix) return is(Thread::matrix) && !without_matrix(op.kind);
  if (event.stage == kActivations && by_lut && vector) return true;
  return transfer ? is(Thread::engine) : vector;
}

}  // namespace

StagePlan plan_stages(const Operator& op, Bytes stored, const StageOptions& options) {
  if (without_matrix(op.kind) || by_blocks(op.kind)) {
    const auto plan_for = [&](std::uint32_t buffers) { return plan_of_kind(op, stored, options, buffers); };
    const std::optional<StagePlan> plan = plan_for(options.buffers), less = plan ? plan : plan_for(std::min(options.buffers, 1u));
    VITRO_CHECK(less.has_value(), "a product of which nothing fits into TCM");
    return *less;
  }
  std::optional<StagePlan> best;
  for (const std::uint32_t buffers : {options.buffers, std::min(options.buffers, 1u)}) {
    const std::optional<StagePlan> plan = plan_with(op, stored, options, buffers, op.columns);
    if (plan && (!best || plan->passes < best->passes)) best = plan;
  }
  for (std::uint32_t parts = 2; !best; ++parts) {
    const std::uint32_t depth = up((op.columns + parts - 1) / parts, kDepthStep);
    best = plan_with(op, stored, options, options.buffers, depth);
    VITRO_CHECK(best || depth > kDepthStep, "a product of which nothing fits into TCM");
  }
  return *best;
}

Status check_log(std::span<const Operator> operators, std::uint32_t logged, std::span<const StageEvent> log) {
  const auto damaged = [](std::string what) { return Status{Code::unit_lost, "the worker's log of stages was damaged: " + what}; };
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const Operator& op = operators[i];
    if (has_stages(op)) expected += events_of(op, is_lut(op.kind) && (i == 0 || !shares_tables(operators[i - 1], op)));
  }
  if (logged != expected) return damaged(fmt::format("it has {} events (expected {})", logged, expected));
  for (std::size_t i = 0; i < log.size(); ++i) {
    const StageEvent& event = log[i];
    if (possible(event, operators)) continue;
    return damaged(fmt::format("event {}, mark {} of stage {}, thread {}, operator {}, step {}, can not be", i, event.mark, event.stage,
                               event.thread, event.op, event.step));
  }
  return {};
}

std::vector<StagePackets> packets_by_stage(std::span<const PacketCount> counts) {
  std::array<std::uint64_t, kThreads + 1> packets{};  // by thread; at the end, of the control thread's own operators
  for (const PacketCount& count : counts) {
    const bool kernel = count.vector_packets > 0 || count.function.starts_with("hvx_") || count.function.starts_with("float_");
    for (std::size_t thread = 0; thread < kThreads; ++thread) packets[thread == 0 && kernel ? kThreads : thread] += count.of_thread[thread];
  }
  std::vector<StagePackets> stages;
  for (std::size_t i = 0; i <= kThreads; ++i) {
    if (packets[i] == 0) continue;
    constexpr std::string_view kStagesOf[] = {"control", "transfer", "matrix"};
    stages.push_back({i == kThreads ? "other" : i < 3 ? kStagesOf[i] : "vector", kThreadNames[i % kThreads], packets[i]});
  }
  return stages;
}

StageOverlap overlap_of(const Operator& op, std::uint32_t index, std::span<const StageEvent> log) {
  StageOverlap overlap;
  std::vector<std::uint32_t> vectors(steps_of(op)), matrices(vectors.size()), begun(vectors.size());
  const std::uint32_t steps = pass_steps(op);
  for (const StageEvent& event : log) {
    if (event.op != index) continue;
    const auto mark = static_cast<StageMark>(event.mark);
    const bool first = event.step % steps == 0;  // of a pass: nothing is before it
    if (event.stage == kVector && mark == StageMark::end) overlap.steps += ++vectors[event.step] == op.stages.threads;
    if (event.stage == kMatrix && mark == StageMark::end) ++matrices[event.step];
    if (event.stage == kIn && mark == StageMark::issue && !first) {
      overlap.transfers_ahead += vectors[event.step - 1] == 0;
    }
    if (event.stage == kVector && mark == StageMark::begin && begun[event.step]++ == 0 && !first) {
      overlap.vectors_with_matrix += !without_matrix(op.kind) && matrices[event.step - 1] == 0;
    }
  }
  return overlap;
}

}  // namespace vitro::hexagon
