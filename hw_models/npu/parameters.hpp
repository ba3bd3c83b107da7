// What a Hexagon NPU is made of, as its block of a device file states it (docs/design/npu.md). Both fidelities read this one table.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/stage_plan.hpp"
#include "hw_models/compute.hpp"
#include "hw_models/params.hpp"

namespace vitro::hw {

// The ways from DRAM into the NPU (T-MAN Table 2): the DMA engine into TCM, prefetches into L2, and loads that wait.
enum class Path : std::uint8_t { dma, l2fetch, vector_load };
inline constexpr std::string_view kPathNames[] = {"dma", "l2fetch", "vector_load"};

using hexagon::kSpillNames, hexagon::Spill;

struct HexagonParameters {
  explicit HexagonParameters(const Params& params);
  static std::vector<ParamSpec> specs();

  // Scalar cores issue everything; control work is counted in their cycles. An HVX thread issues one packet per cycle.
  double clock = 0;  // hertz
  std::uint32_t scalar_threads = 0, vliw_slots = 0;
  double call_cycles = 0;       // one operator: its arguments, its plan, a barrier
  double hand_over_cycles = 0;  // of a tile group from one stage of the pipeline to the next

  std::uint32_t hvx_threads = 0;
  Bytes vector_bytes = 0;
  double lookups_per_packet = 0;  // vlut instructions that one packet holds
  double gather_packets = 0, gather_conflict_packets = 0;
  std::uint32_t tcm_banks = 0;

  double hmx_clock = 0;  // hertz
  std::uint32_t hmx_units = 0, tile = 0;
  double tile_cycles_f16 = 0, tile_cycles_int8 = 0, tile_cycles_int4 = 0;  // tile times tile
  double tile_out_cycles = 0;                                              // accumulators to TCM: scale, convert, store

  BytesPerSecond dma_bandwidth;
  double descriptor_cycles = 0, row_cycles = 0;       // of the scalar clock, while no data moves
  Picoseconds memory_latency{0};                      // of a vector load that misses all caches
  double loads_in_flight = 0, fetches_in_flight = 0;  // lines of a vector, per thread
  BytesPerSecond l2_bandwidth;                        // of all threads together
  Picoseconds l2_latency{0};                          // of a vector load that L2 has
  Spill spill = Spill::tcm;
  Bytes l2 = 0, tcm = 0;
  Bytes group = 0;  // weights of one tile group, at most
  // Between two stages of the pipeline. 0: a group goes through all stages before the next one comes.
  std::uint32_t buffers = 0;
  Bytes chunk = 0;  // of operators without weights

  // What the kernel table does not name, in packets of one thread.
  double packets_per_mac = 0, packets_per_operation = 0, packets_per_conversion = 0, packets_per_activation = 0;

  // Derived: bytes per second that `threads` threads can take in by a path, alone on the DRAM.
  double path_bandwidth(Path path, std::uint32_t threads) const;
  // The same of spilled sums, which `bytes` are of; none: they are in TCM, whose loads and stores the packets have.
  std::optional<double> spill_bandwidth(std::uint32_t threads, Bytes bytes) const;
  bool spills_to_dram(Bytes bytes) const { return spill == Spill::dram || (spill == Spill::l2 && bytes > l2); }
};

}  // namespace vitro::hw
