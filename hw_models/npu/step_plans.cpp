// Plans whose steps are not whole columns of weights: products of blocks, and attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hw_models/npu/passes.hpp"

namespace vitro::hw {

// Parts of the depth of groups of columns, whose sums HVX scales. The model counts that with the step that leaves the sums, where the
// worker does it some steps later.
Pass TilePlanner::block_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, const hexagon::StagePlan& stages) const {
  Pass pass = product_pass(work, kernel, rows, work.columns);  // all of it is one group
  const TileGroup all = pass.last;
  // Of a strip of 32 columns, a part of the scales and a part of the quants; of rows in places a part of each.
  const double strips = std::ceil(static_cast<double>(stages.columns) / parts_.tile);
  const Pass parts = spread(all, stages.steps(), work.in_places ? stages.columns : stages.depths > 1 ? 2 * strips : 1);
  pass.groups = parts.groups;
  pass.full = parts.full;
  pass.last = parts.last;
  write_once(pass, parts_.group);
  return pass;
}

TilePlan TilePlanner::block_product(const Work& work, const Kernel& kernel) const {
  const std::uint32_t rows = std::max(1u, work.rows);
  if (work.weight_bits != 4 && work.weight_bits != 8) {
    throw RunError(fmt::format("npu: blocks of {} bits have no plan (expected 4 or 8)", work.weight_bits));
  }
  const hexagon::BlockShape shape{work.columns, work.depth, work.weight_bits, work.weight_bytes / work.columns,
                                  kernel.in_pieces(work) ? kernel.threads : 0};
  const auto room_of = [&](std::uint32_t part) {
    hexagon::StageRoom room = hexagon::block_room(shape, part, parts_.group, parts_.buffers);
    if (work.read_bytes == work.weight_bytes) room.activations = 0;  // they are in TCM
    return room;
  };
  const Bytes free = parts_.tcm - work.tcm_bytes;
  const hexagon::StageChoice chosen =
      hexagon::choose_stages({rows, work.columns, parts_.tile, parts_.tile, 0, 0},
                             {free, parts_.group, parts_.buffers, static_cast<std::uint32_t>(parts_.vector_bytes)}, room_of);
  if (!chosen.fits) {
    throw RunError(fmt::format("npu: {} rows of depth {} and a column of tiles need {} of TCM, of which {} are free",
                               std::min(rows, parts_.tile), work.depth, format_bytes(chosen.needed), format_bytes(free)));
  }
  TilePlan plan{kernel.path, kernel.threads, chosen.passes, {}, {}, {}, true, {}};
  plan.stages = {.rows = chosen.rows,
                 .passes = chosen.passes,
                 .columns = chosen.columns,
                 .groups = (work.columns + chosen.columns - 1) / chosen.columns,
                 .depth = shape.part(),
                 .depths = (work.depth + shape.part() - 1) / shape.part(),
                 .buffers = parts_.buffers,
                 .threads = kernel.threads,
                 .once = chosen.room.out == 0 ? 1u : 0u};
  plan.pass = block_pass(work, kernel, std::min(chosen.rows, rows), plan.stages);
  plan.last_pass = block_pass(work, kernel, rows - (plan.passes - 1) * chosen.rows, plan.stages);
  plan.buffers = {chosen.room.fixed() + chosen.room.per_column(ahead()) * chosen.columns};
  return plan;
}

// Passes of all sequences one after the other: the steps of the worker's plan, each with its share of the work.
TilePlan TilePlanner::attention(const Work& work, const Kernel& kernel, const Kernel& softmax, const Kernel& quotient) const {
  const std::uint32_t of_sequence = std::max(1u, work.sequence_rows), heads = std::max(1u, work.query_heads);
  const std::uint64_t queries = std::uint64_t{std::max(1u, work.rows)} * heads * work.kv_heads;
  const auto keys = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, work.macs / (2 * queries * work.head_columns)));  // the mean
  std::uint32_t rows = 0, passes = (of_sequence + hexagon::kAttentionRows - 1) / hexagon::kAttentionRows;
  hexagon::AttentionPass pass;
  Bytes needed = 0;
  for (;; passes *= 2) {
    rows = (of_sequence + passes - 1) / passes;
    pass = {rows * heads, work.kv_heads, keys, hexagon::attention_columns(work.head_columns), work.exponential};
    needed = hexagon::AttentionRoom(pass).all(parts_.buffers);
    if (needed <= parts_.tcm - work.tcm_bytes) break;
    if (rows == 1) throw RunError(fmt::format("npu: a row of attention needs {} of TCM", format_bytes(needed)));
  }
  TilePlan plan;
  plan.threads = kernel.threads;
  plan.streams = true;
  plan.buffers[0] = needed;
  plan.stages = hexagon::plan_attention(pass, parts_.buffers, kernel.threads);
  // Of the rows of a sequence, each sees a key more than the one before.
  const double mean = static_cast<double>(work.macs) / static_cast<double>(2 * queries * work.head_columns);
  double masked = 0;  // scores of a sequence
  for (std::uint32_t first = 0; first < of_sequence; first += rows) {
    const std::uint32_t end = std::min(first + rows, of_sequence);
    const auto seen = [&](std::uint32_t row) {
      return static_cast<std::uint32_t>(std::max(1.0, std::round(mean + row - (of_sequence - 1) / 2.0)));
    };
    hexagon::AttentionPass each = pass;
    each.queries = (end - first) * heads;
    each.keys = seen(end - 1);
    each.fewest = seen(first);
    masked += static_cast<double>(each.masked());
  }
  const double times = static_cast<double>(passes) * std::max(1u, work.rows / of_sequence);
  const auto of_all = [times](std::uint64_t of_pass) { return times * static_cast<double>(of_pass); };
  const Bytes kept = work.reused_bytes > 0 ? work.reused_bytes : work.read_bytes;  // keys and values, counted for each row
  TileGroup all{kept / rows + work.read_bytes - kept, work.written_bytes, 0, 0, 0};
  const double packets = of_all(pass.made()) * softmax.packets_per_weight + of_all(pass.scores()) * packets_of_element(softmax) +
                         masked * std::max(1u, work.rows / of_sequence) * softmax.packets_per_masked +
                         of_all(pass.sums()) * quotient.packets_per_sum + of_all(pass.results()) * packets_of_element(quotient) +
                         static_cast<double>(queries * work.head_columns) * parts_.packets_per_activation;
  all.vector = vector_seconds(packets, kernel);
  const double cycles = of_all(pass.tile_products()) * tile_cycles(kernel.bits) + of_all(pass.tile_results()) * parts_.tile_out_cycles;
  all.matrix = cycles / parts_.hmx_clock / parts_.hmx_units;
  const auto count = static_cast<std::uint32_t>(of_all(plan.stages.groups));
  plan.pass = spread(all, count, 2);  // a run of keys, one of values
  write_once(plan.pass, parts_.group);
  plan.last_pass = plan.pass;
  return plan;
}

}  // namespace vitro::hw
