#include "hw_models/npu/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hw_models/npu/passes.hpp"

namespace vitro::hw {
namespace {

constexpr Bytes kFloat = 4;
constexpr double kWordBursts = 2;  // of a tile of 32-bit sums, which is twice as large as one of fp16
constexpr double kSummedRows = 4;  // that share the conversion of a block's scales (scale_sums of float_stages.hpp)

// Whether the matrix unit's weights are made of bit-serial panels.
bool panels(const Kernel& kernel) { return kernel.matrix && kernel.tile_rows > 0 && kernel.tile_columns > 0; }

}  // namespace

Bytes TilePlan::read() const {
  const auto of = [](const Pass& p) { return p.activations + (p.groups - 1) * p.full.in + p.last.in; };
  return (passes - 1) * of(pass) + of(last_pass);
}

Bytes TilePlan::written() const {
  const auto of = [](const Pass& p) { return (p.groups - 1) * p.full.out + p.last.out; };
  return (passes - 1) * of(pass) + of(last_pass);
}

TilePlan TilePlan::without_memory() const {
  TilePlan rest = *this;
  for (Pass* each : {&rest.pass, &rest.last_pass}) {
    each->activations = each->full.in = each->full.out = each->last.in = each->last.out = 0;
  }
  return rest;
}

TilePlan TilePlanner::plan(const Work& work, const Kernel& kernel, const Kernel* softmax, const Kernel* quotient) const {
  if (work.tcm_bytes > parts_.tcm) {
    throw RunError(
        fmt::format("npu: a call needs {} of operands in TCM, which has {}", format_bytes(work.tcm_bytes), format_bytes(parts_.tcm)));
  }
  if (softmax && quotient && kernel.matrix && work.kv_heads > 0 && work.macs > 0) return attention(work, kernel, *softmax, *quotient);
  if (work.columns == 0 || work.depth == 0) return chunks(work, kernel, softmax);
  return kernel.by_blocks() && work.depth % hexagon::kSummedColumns == 0 ? block_product(work, kernel) : product(work, kernel);
}

double TilePlanner::tile_cycles(std::uint32_t bits) const {
  return bits == 16 ? parts_.tile_cycles_f16 : bits == 8 ? parts_.tile_cycles_int8 : parts_.tile_cycles_int4;
}

double TilePlanner::element_packets(const Work& work, const Kernel& kernel) const {
  return static_cast<double>(work.elements) * packets_of_element(kernel);
}

double TilePlanner::other_packets(const Work& work, const Kernel& kernel) const {
  const double own = element_packets(work, kernel);
  return (work.has_own_rate && own > 0 ? own : static_cast<double>(work.elementwise) * parts_.packets_per_operation) +
         static_cast<double>(work.lookups) * kernel.packets_per_lookup +
         (work.columns > 0 ? 0 : static_cast<double>(work.table_inputs) * kernel.packets_per_activation) +
         (kernel.matrix ? 0 : static_cast<double>(work.conversions) * parts_.packets_per_conversion);
}

double TilePlanner::control_time(const TilePlan& plan, double rows) const {
  const double cycles = plan.path == Path::dma ? parts_.descriptor_cycles + std::max(0.0, rows - 1) * parts_.row_cycles : 0;
  return ((plan.streams ? parts_.hand_over_cycles : 0) + cycles) / parts_.clock;
}

double TilePlanner::load_time(const TilePlan& plan, Bytes bytes, double rows) const {
  if (bytes == 0) return 0;
  return control_time(plan, rows) + least_time(plan, bytes);
}

double TilePlanner::least_time(const TilePlan& plan, Bytes bytes) const {
  return std::max(static_cast<double>(bytes) / parts_.path_bandwidth(plan.path, plan.threads), to_seconds(parts_.memory_latency));
}

double TilePlanner::time(const TilePlan& plan, const TileGroup& group, Stage stage) const {
  if (stage == kIn) return load_time(plan, group.in, group.rows);
  if (stage == kOut) return load_time(plan, group.out, 1);
  const double work = stage == kVector ? group.vector : group.matrix;
  return work == 0 ? 0 : work + (plan.streams ? parts_.hand_over_cycles / parts_.clock : 0);
}

Pass TilePlanner::product_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, std::uint32_t columns) const {
  Pass pass;
  const Bytes activations = work.read_bytes - std::min(work.read_bytes, work.weight_bytes);
  pass.activations = share(activations, rows, std::max(1u, work.rows));
  if (kernel.matrix) {
    double each = activations > 0 ? parts_.packets_per_activation : 0;  // whoever keeps activations in TCM keeps them in tiles
    if (activations > 0 || kernel.by_blocks()) each += kernel.packets_per_activation;  // but of floats
    pass.prepare = vector_seconds(static_cast<double>(rows) * work.depth * each, kernel);
  }
  pass.prepare +=
      vector_seconds(static_cast<double>(work.table_inputs) * rows / std::max(1u, work.rows) * kernel.packets_per_activation, kernel);
  pass.groups = (work.columns + columns - 1) / columns;
  const auto group = [&](std::uint32_t width) {
    TileGroup g;
    const double part = static_cast<double>(width) / work.columns, row_part = static_cast<double>(rows) / std::max(1u, work.rows);
    const double weights = static_cast<double>(width) * work.depth, macs = weights * rows;
    g.in = share(work.weight_bytes, width, work.columns);
    g.rows = work.in_places ? width : std::max(1.0, work.row_runs * part);
    if (panels(kernel)) {  // a 2D block each, of the layout's tiles
      g.rows = std::ceil(static_cast<double>(width) / static_cast<double>(parts_.vector_bytes)) *
               std::ceil(static_cast<double>(work.depth) / kernel.tile_columns);
    }
    g.out = share(work.written_bytes, std::uint64_t{width} * rows, std::uint64_t{work.columns} * std::max(1u, work.rows));
    // TCM works on gathers and scatters while the thread goes on with the next packets.
    double packets = weights * std::max(kernel.packets_of_weight(work), kernel.gathers_per_weight * parts_.gather_packets) +
                     other_packets(work, kernel) * part * row_part;
    if (kernel.matrix) {
      const auto tiles = [this](double n) { return std::ceil(n / parts_.tile); };
      double cycles = tiles(work.depth) * tile_cycles(kernel.bits) + parts_.tile_out_cycles;
      if (kernel.by_blocks()) cycles = tiles(work.depth) * (tile_cycles(kernel.bits) + kWordBursts * parts_.tile_out_cycles);
      g.matrix = tiles(rows) * tiles(width) * cycles / parts_.hmx_clock / parts_.hmx_units;
      if (g.out > 0 && !kernel.by_blocks()) packets += static_cast<double>(rows) * width * parts_.packets_per_conversion;
    } else {
      packets += macs * kernel.packets_per_mac;
    }
    const std::uint32_t block = kernel.by_blocks() ? hexagon::kSummedColumns : work.group;
    const double of_row = block > 0 ? static_cast<double>(width) * std::ceil(static_cast<double>(work.depth) / block) : 0;
    packets += of_row * (rows * kernel.packets_per_sum + std::ceil(rows / kSummedRows) * kernel.packets_per_block);
    g.vector = vector_seconds(packets, kernel);
    return g;
  };
  pass.full = group(std::min(columns, work.columns));
  pass.last = group(work.columns - (pass.groups - 1) * columns);
  write_once(pass, parts_.group);
  return pass;
}

// `columns` (rows of the matrix) in the threads' tiles at a time, kernel.tile_columns of the depth. The slowest thread has a vector of rows
// more than others, whose lanes may be empty.
Pass TilePlanner::tile_pass(const Work& work, const Kernel& kernel, std::uint32_t rows, std::uint32_t columns) const {
  Pass pass = product_pass(work, kernel, rows, work.columns);  // all of it is one group
  const std::uint32_t lanes = parts_.vector_bytes * kernel.threads;
  const std::uint64_t steps = (work.columns + columns - 1) / columns, depths = (work.depth + kernel.tile_columns - 1) / kernel.tile_columns;
  pass.groups = static_cast<std::uint32_t>(steps * depths);
  TileGroup& all = pass.last;
  const double lanes_used = static_cast<double>(work.columns) / static_cast<double>(round_up(work.columns, lanes));
  const double vector = all.vector / lanes_used / pass.groups;
  pass.full = {all.in / pass.groups, all.out / pass.groups, std::max(1.0, all.rows / pass.groups), vector, 0};
  const std::uint64_t before = pass.groups - 1;
  pass.last = {all.in - before * pass.full.in, all.out - before * pass.full.out, pass.full.rows, pass.full.vector, 0};
  write_once(pass, parts_.group);
  spill(pass, kernel, Bytes{rows} * work.columns * kFloat * (depths - 1), Bytes{rows} * columns * kFloat);
  return pass;
}

// Sums that wait outside TCM between one part of the depth and the next: they are stored and loaded again, by loads that threads wait for.
// In DRAM they take the bus, too. `waiting`: at a time.
void TilePlanner::spill(Pass& pass, const Kernel& kernel, Bytes stored, Bytes waiting) const {
  const std::optional<double> bandwidth = parts_.spill_bandwidth(kernel.threads, waiting);
  if (!bandwidth) return;
  const Bytes each = stored / pass.groups;
  for (TileGroup* group : {&pass.full, &pass.last}) {
    group->vector += 2 * static_cast<double>(each) / *bandwidth;
    if (!parts_.spills_to_dram(waiting)) continue;
    group->in += each;
    group->out += each;
  }
}

TilePlan TilePlanner::product(const Work& work, const Kernel& kernel) const {
  const bool tiled = !kernel.matrix && kernel.tile_rows > 0 && kernel.tile_columns > 0;  // look-ups
  const std::uint32_t lanes = parts_.vector_bytes * kernel.threads;
  const double part_of_depth = tiled ? std::min(1.0, static_cast<double>(kernel.tile_columns) / work.depth) : 1;
  // The tile is what a transfer brings for a thread.
  const auto vector = static_cast<std::uint32_t>(parts_.vector_bytes);
  const Bytes even_tile = hexagon::even_tile(work.columns, kernel.tile_rows, kernel.threads, vector);
  const std::uint32_t rows = std::max(1u, work.rows), tile = parts_.tile;
  const bool from_dram = work.read_bytes > work.weight_bytes;
  const auto room_of = [&](std::uint32_t part) {
    const Bytes padded = kernel.matrix ? round_up(part, tile) : part;
    StageRoom room;
    room.activations = from_dram ? padded * work.depth * (kernel.matrix ? std::max<Bytes>(1, kernel.bits / 8) : kFloat) : 0;
    room.tables = share(work.table_bytes, part, rows);
    if (work.table_bytes > 0) room.spill = part * kFloat;
    if (tiled) {  // of one activation row at a time: blocks before their scales
      room.spill = kFloat * (kernel.tile_columns / std::max(1u, std::min(work.group, kernel.tile_columns)));
      if (parts_.spill == Spill::tcm) {
        room.sums = part * kFloat * std::min(Bytes{kernel.tile_rows} * kernel.threads, round_up(work.columns, lanes));
      }
    }
    room.in = static_cast<Bytes>(std::ceil(static_cast<double>(work.weight_bytes) * part_of_depth / work.columns));
    if (kernel.matrix && kernel.packets_of_weight(work) > 0) room.ready = Bytes{work.depth} * kernel.bits / 8;
    if (kernel.in_pieces(work)) room.sums = hexagon::pieces_room(work.weight_bits, kernel.threads);
    // Weights that nothing has to be done to before HMX takes them are one group.
    room.streamed = std::max(room.in, room.ready / 4);
    if (kernel.in_pieces(work)) room.in = hexagon::placed_pitch(room.in);
    const Bytes result = share(work.written_bytes, part, rows);
    if (result <= parts_.group) {
      room.result = result;
    } else {
      room.out = padded * kFloat;
    }
    return room;
  };
  // What comes through L2 must not push the group before out of it.
  const Bytes group = kernel.path == Path::dma ? parts_.group : std::min(parts_.group, parts_.l2 / 2);
  const Bytes free = parts_.tcm - work.tcm_bytes;
  const auto aligned = static_cast<std::uint32_t>(parts_.vector_bytes);
  const auto choose = [&](std::uint32_t unit) {
    return hexagon::choose_stages({rows, work.columns, tiled ? 1 : tile, unit, tiled ? even_tile : 0, tiled ? lanes : 0},
                                  {free, group, parts_.buffers, aligned}, room_of);
  };
  hexagon::StageChoice chosen = choose(tiled ? vector : tile);
  if (panels(kernel)) {  // of a vector of the matrix's rows, whole if that costs no pass over the weights
    const hexagon::StageChoice whole = choose(vector);
    if (whole.fits && whole.passes <= chosen.passes) chosen = whole;
  }
  if (!chosen.fits) {
    throw RunError(fmt::format("npu: {} rows of depth {} and a column of tiles need {} of TCM, of which {} are free", std::min(rows, tile),
                               work.depth, format_bytes(chosen.needed), format_bytes(free)));
  }
  const StageRoom& room = chosen.room;
  const std::uint32_t width = chosen.columns;
  TilePlan plan{kernel.path, kernel.threads, chosen.passes, {}, {}, {}, true, {}};
  const auto pass = [&](std::uint32_t count) {
    return tiled ? tile_pass(work, kernel, count, width) : product_pass(work, kernel, count, width);
  };
  plan.pass = pass(std::min(chosen.rows, rows));
  plan.last_pass = pass(rows - (plan.passes - 1) * chosen.rows);
  const Bytes second = ahead() - 1;  // of two buffers
  plan.buffers = {room.activations,
                  room.result,
                  room.in * width,
                  room.ready * width,
                  room.out * width,
                  room.spill * width + room.sums,
                  room.tables,
                  second * room.in * width,
                  second * room.ready * width,
                  second * room.out * width};
  if (kernel.matrix || tiled) {
    const std::uint32_t depth = tiled ? std::min(kernel.tile_columns, work.depth) : work.depth;
    plan.stages = {.rows = chosen.rows,
                   .passes = chosen.passes,
                   .columns = width,
                   .groups = (work.columns + width - 1) / width,
                   .depth = depth,
                   .depths = (work.depth + depth - 1) / depth,
                   .buffers = parts_.buffers,
                   .threads = kernel.threads,
                   .once = room.out == 0 ? 1u : 0u};
  }
  return plan;
}

TilePlan TilePlanner::chunks(const Work& work, const Kernel& kernel, const Kernel* softmax) const {
  // Attention on tiles: the rows of a tile meet the keys and values of their sequence together.
  const std::uint32_t together = kernel.matrix && work.macs > 0 ? std::clamp(work.sequence_rows, 1u, parts_.tile) : 1;
  const Bytes read = work.read_bytes / together, bytes = read + work.written_bytes;
  // Two chunks have to fit into L2 when they come that way.
  const Bytes chunk = std::min(parts_.chunk, std::max(parts_.l2 / 2, parts_.vector_bytes));
  TilePlan plan;
  plan.threads = kernel.threads;
  // DMA is for large blocks; small ones come through L2 (T-MAN 5).
  plan.path = bytes > chunk ? Path::dma : Path::l2fetch;
  TileGroup all{read, work.written_bytes, std::max(1.0, static_cast<double>(work.row_runs) / together), 0, 0};
  double packets = other_packets(work, kernel) + (softmax ? element_packets(work, *softmax) : 0);
  if (kernel.matrix && work.macs > 0) {  // attention: rows of a sequence and heads of its KV group fill tiles as far as there are
    const std::uint64_t rows = std::uint64_t{std::max(1u, work.sequence_rows)} * std::max(1u, work.query_heads);
    const double padded = static_cast<double>(work.macs) / static_cast<double>(rows) * static_cast<double>(round_up(rows, parts_.tile));
    all.matrix = padded / std::pow(parts_.tile, 3) * tile_cycles(kernel.bits) / parts_.hmx_clock / parts_.hmx_units;
  } else {
    packets += static_cast<double>(work.macs) * kernel.packets_per_mac;
  }
  all.vector = vector_seconds(packets, kernel);
  const auto count = static_cast<std::uint32_t>(std::max<Bytes>(1, (bytes + chunk - 1) / chunk));
  plan.pass = spread(all, count, all.rows / count);
  write_once(plan.pass, parts_.group);
  plan.last_pass = plan.pass;
  return plan;
}

}  // namespace vitro::hw
