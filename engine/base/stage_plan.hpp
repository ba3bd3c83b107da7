// How a matmul x [rows, depth] times w [depth, columns] goes through the stages of the NPU (T-MAN 4.2): tiles, buffers, threads, and the
// rule by which a stage takes its next group. The simulated NPU prices this plan (hw_models/npu/plan.hpp), the worker runs it
// (hvx_worker/stages.cpp). One header serves all three compilers, so plain words and no library.
//
// Activations of a pass lie in TCM, and weights stream through it by groups of columns: a transfer brings them, HVX threads make tiles of
// them, the matrix unit multiplies, a transfer takes the results away. Look-ups (T-MAN 4.3) have no matrix unit, and steps of a part of the
// depth, for which tables stay in registers. Stages work on different groups at the same time, with `buffers`
// buffers between two of them. All sizes are bytes of TCM.
#pragma once
#include <stdint.h>

namespace vitro::hexagon {

enum Stage : uint8_t { kIn, kVector, kMatrix, kOut };
inline constexpr int kStages = 4;

// What a pass of `rows` activation rows keeps in TCM.
struct StageRoom {
  uint64_t activations = 0, result = 0, tables = 0, sums = 0;  // whatever a group's width; result: all of it, if it is written once
  uint64_t in = 0, ready = 0, out = 0;                         // per column and buffer
  uint64_t spill = 0;                                          // per column: sums that do not fit into registers (T-MAN 4.3)
  uint64_t streamed = 0;                                       // per column: what a group's bytes are counted in
  constexpr uint64_t fixed() const { return activations + result + tables + sums; }
  constexpr uint64_t per_column(uint32_t buffers) const { return buffers * (in + ready + out) + spill; }
};

struct StageLimits {
  uint64_t free = 0;      // of TCM
  uint64_t group = 0;     // streamed bytes of a group, at most, but for one unit of columns
  uint32_t buffers = 2;   // between two stages; 0: one, and a group leaves before the next one enters
  uint32_t aligned = 128;  // of buffers
  static constexpr uint32_t kMostBuffers = 10;
};

struct StageShape {
  uint32_t rows = 1, columns = 1;
  uint32_t tile = 32;   // rows of a pass are a multiple of it, unless there is one pass
  uint32_t unit = 32;   // columns of a group are: what the layout of weights keeps together
  uint64_t most = 0;    // columns of a group at most; 0: all
  uint32_t lanes = 0;   // columns that all threads take at once: groups are a multiple of it if they can be
};

// Columns of a group of look-ups, at most: a tile of the layout, or less, for each thread, so that threads have as many whole vectors of
// rows of the matrix as others. vector: such rows of one.
constexpr uint64_t even_tile(uint32_t columns, uint32_t tile_rows, uint32_t threads, uint32_t vector) {
  const uint64_t lanes = uint64_t{vector} * threads, vectors = (columns + lanes - 1) / lanes;
  const uint64_t most = tile_rows > vector ? tile_rows / vector : 1, tiles = (vectors + most - 1) / most;
  return (vectors + tiles - 1) / tiles * lanes;
}

// The rows of a pass and the columns of a group that fit.
struct StageChoice {
  bool fits = false;
  uint32_t rows = 0, passes = 0, columns = 0;
  StageRoom room;       // of a whole pass
  uint64_t needed = 0;  // where nothing fits: what the smallest tiles take
};

// One buffer at least lies between two stages.
constexpr uint32_t groups_ahead(uint32_t buffers) { return buffers > 1 ? buffers : 1; }

// Groups as wide as TCM and `group` allow; if nothing fits, fewer rows at a time, for which weights stream once more.
// room_of(rows of a pass) gives a StageRoom.
template <class RoomOf>
constexpr StageChoice choose_stages(const StageShape& shape, const StageLimits& limits, RoomOf room_of) {
  const auto up = [](uint64_t n, uint64_t to) { return (n + to - 1) / to * to; };
  const auto down = [](uint64_t n, uint64_t to) { return n / to * to; };
  const auto least = [](uint64_t a, uint64_t b) { return a < b ? a : b; };
  for (uint32_t passes = 1;; ++passes) {
    const auto part = static_cast<uint32_t>(up((shape.rows + passes - 1) / passes, shape.tile));
    const StageRoom room = room_of(part < shape.rows ? part : shape.rows);
    const uint64_t per_column = room.per_column(groups_ahead(limits.buffers));
    // Buffers are aligned: a little less than all of TCM can be used.
    const uint64_t taken = room.fixed() + (per_column > 0 ? StageLimits::kMostBuffers * limits.aligned : 0);
    uint64_t columns = shape.most > 0 ? shape.most : up(shape.columns, shape.unit);
    if (per_column > 0) columns = least(columns, down((limits.free - least(limits.free, taken)) / per_column, shape.unit));
    if (shape.lanes > 0) {
      if (columns >= shape.lanes) columns = down(columns, shape.lanes);
    } else if (room.streamed > 0) {
      const uint64_t of_group = down(limits.group / room.streamed, shape.unit);
      columns = least(columns, of_group > shape.unit ? of_group : shape.unit);
    }
    if (columns >= shape.unit && taken <= limits.free) {
      const auto width = static_cast<uint32_t>(least(columns, shape.columns));
      return {true, part, (shape.rows + part - 1) / part, width, room, 0};
    }
    if (part <= shape.tile) return {false, part, passes, 0, room, taken + per_column * shape.unit};
  }
}

// The plan as an operator of the worker carries it.
struct StagePlan {
  uint32_t rows, passes;     // of activations in a pass; passes
  uint32_t columns, groups;  // of the result in a group; groups of a pass
  uint32_t depth, depths;    // of a group; parts that the depth is cut into. More than one: sums stay in the unit, of one tile of rows
  uint32_t buffers, threads;  // between two stages; of HVX
  uint32_t once;              // 1: results stay in TCM and leave behind the last group
  constexpr uint32_t steps() const { return groups * depths; }  // of a pass: what goes through the stages
  constexpr bool operator==(const StagePlan&) const = default;
};

// Which of the buffers behind a stage a step uses.
constexpr uint32_t buffer_of(uint32_t step, uint32_t buffers) { return buffers == 2 ? step & 1 : 0; }

// How many of `count` numbers, from the first on, are as far apart as the first two, ascending: rows in such places are one 2D block.
constexpr uint32_t series(const uint32_t* numbers, uint32_t count) {
  if (count < 2 || numbers[1] <= numbers[0]) return 1;
  uint32_t rows = 2;
  while (rows < count && numbers[rows] - numbers[rows - 1] == numbers[1] - numbers[0]) ++rows;
  return rows;
}

// Shares of a group's `pieces` (tiles, or parts of a panel) for each HVX thread, in order, as even as whole pieces are.
// Requires: threads is 1, 2 or 4.
constexpr uint32_t first_piece(uint32_t thread, uint32_t threads, uint32_t pieces) {
  return pieces * thread >> (threads == 4 ? 2 : threads == 2 ? 1 : 0);
}

// Where sums wait that look-ups have no registers for, between one part of the depth and the next (T-MAN 4.3): in a buffer in TCM, in
// ordinary memory that L2 holds, which compilers spill to, or in DRAM.
enum class Spill : uint32_t { tcm, l2, dram };
inline constexpr const char* kSpillNames[] = {"tcm", "l2", "dram"};

struct StageCounts {
  uint32_t started[kStages] = {}, finished[kStages] = {};  // steps of a pass
};

// Results of a step go out behind the weights of so many steps later: the chain of transfers has a fixed order, as software writes it.
// Whoever came first would make the pipeline stumble: long transfers in, short ones out.
constexpr uint32_t out_behind(uint32_t buffers) { return buffers == 0 ? 0 : buffers + 1; }

// Whether that order lets `stage` take step `next` of `steps`. once: there are no results to take away in between.
constexpr bool in_turn(Stage stage, uint32_t next, uint32_t steps, const uint32_t* started, uint32_t behind, bool once) {
  if (once || behind == 0) return true;
  if (stage == kOut) return next + behind >= steps || started[kIn] > next + behind;
  return stage != kIn || next <= behind || started[kOut] >= next - behind;
}

// Whether `stage` may take its next step: the stage before has it ready, a buffer behind is empty, and it is its turn. Whoever asks knows
// whether the stage's unit is free: a DMA engine has a queue, HVX threads and the matrix unit take one step at a time.
constexpr bool may_start(Stage stage, const StageCounts& counts, uint32_t steps, uint32_t buffers, bool once) {
  const uint32_t next = counts.started[stage];
  if (next == steps) return false;
  if (stage != kIn && next >= counts.finished[stage - 1]) return false;
  if (stage != kOut && next >= counts.finished[stage + 1] + groups_ahead(buffers)) return false;
  if (!in_turn(stage, next, steps, counts.started, out_behind(buffers), once)) return false;
  return buffers != 0 || stage != kIn || counts.finished[kOut] >= next;
}

}  // namespace vitro::hexagon
