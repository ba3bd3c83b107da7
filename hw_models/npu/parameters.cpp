#include "hw_models/npu/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    // ---- scalar side
    {"clock", Dimension::frequency, "", ""},
    {"scalar_threads", Dimension::none, "6", "TTS-NPU 3.1.2: six to eight"},
    {"vliw_slots", Dimension::none, "4", "TTS-NPU 3.1.2"},
    {"call_cycles", Dimension::none, "2000", "arguments, plan and a thread barrier of one operator, order of magnitude"},
    {"hand_over_cycles", Dimension::none, "155", "a barrier among threads, order of magnitude"},
    // ---- HVX
    {"hvx_threads", Dimension::none, "", ""},
    {"hvx_bits", Dimension::none, "1024", "TTS-NPU 3.1.2"},
    {"lookups_per_packet", Dimension::none, "2", "T-MAN Table 1: half a cycle per instruction"},
    {"gather_packets", Dimension::none, "24", "TTS-NPU 5.2.1: the least that a vgather takes"},
    {"gather_conflict_packets", Dimension::none, "4", "one more access to a bank of TCM, order of magnitude"},
    {"tcm_banks", Dimension::none, "64", "one per halfword of a vector, order of magnitude"},
    // ---- HMX
    {"hmx_clock", Dimension::frequency, "", ""},
    {"hmx_units", Dimension::none, "1", "T-MAN 2.3"},
    {"hmx_tile", Dimension::none, "32", "TTS-NPU 3.1.2, Fig. 4"},
    {"tile_cycles_f16", Dimension::none, "", ""},
    {"tile_cycles_int8", Dimension::none, "", ""},
    {"tile_cycles_int4", Dimension::none, "", ""},
    {"tile_out_cycles", Dimension::none, "8", "scale, bias, conversion and a 2 KiB burst, order of magnitude"},
    // ---- memory
    {"dma_bandwidth", Dimension::bandwidth, "", ""},
    {"descriptor_cycles", Dimension::none, "30", "fetching and starting one descriptor, order of magnitude"},
    {"row_cycles", Dimension::none, "4", "one more row of a 2D block, order of magnitude"},
    {"memory_latency", Dimension::time, "205 ns", "a load through L2, the NPU's fabric port and loaded DRAM, order of magnitude"},
    {"loads_in_flight", Dimension::none, "8", "vector loads that a thread can have outstanding, order of magnitude"},
    {"fetches_in_flight", Dimension::none, "42", "lines of an l2fetch outstanding per thread, order of magnitude"},
    {"l2_bandwidth", Dimension::bandwidth, "", ""},
    {"l2", Dimension::bytes, "1 MiB", "TTS-NPU 3.1.2, T-MAN 2.3"},
    {"l2_latency", Dimension::time, "30 ns", "a vector load that L2 has, some 30 cycles, order of magnitude"},
    {"spill", Dimension::none, "tcm", "T-MAN 4.3: a buffer in TCM for sums that registers can not hold", "tcm|l2|dram"},
    {"tcm", Dimension::bytes, "", ""},
    {"group", Dimension::bytes, "256 KiB", "a few tile columns; small against TCM, large against a descriptor"},
    {"buffers", Dimension::none, "2",
     "T-MAN 4.2: two between stages; 1: a stage waits for the next; 0: a group leaves before the next comes"},
    {"chunk", Dimension::bytes, "64 KiB", "of operators without weights; several fit into L2"},
    {"session_limit", Dimension::bytes, "", ""},
    // ---- prices of what the kernel table does not name
    {"packets_per_mac_otherwise", Dimension::none, "", ""},
    {"packets_per_operation", Dimension::none, "", ""},
    {"packets_per_conversion", Dimension::none, "0.015625", "one packet per 64 half-precision lanes"},
    {"packets_per_activation", Dimension::none, "0.047", "three packets per 64 lanes: load, convert, permute into tiles"},
    // ---- queue (transport.hpp)
    {"transport", Dimension::none, "mailbox", "", "mailbox|batched|remote_call"},
    {"poll", Dimension::time, "1 us", "public code: the NPU sleeps about 1 us between looks at the shared word"},
    {"message", Dimension::time, "1 us", "writing or reading one packet and cleaning caches (TTS-NPU 6), order of magnitude"},
    {"batch", Dimension::none, "256", "operators per packet in the newest public code"},
    {"remote_call", Dimension::time, "100 us", "a FastRPC invocation, order of magnitude"},
    {"remote_return", Dimension::time, "40 us", "the answer of a FastRPC invocation, order of magnitude"},
    // ---- static graphs
    {"build", Dimension::time, "200 ms", "compiling one graph with a vendor's tools, order of magnitude"},
    {"load", Dimension::time, "500 us", "preparing one static graph, order of magnitude"},
    {"switch_graph", Dimension::time, "5 us", "fetching the description of another graph, order of magnitude"},
};

std::uint32_t count(const Params& params, std::string_view key) {
  const double value = params.positive(key);
  if (value < 1 || value > 1e6) params.fail(key, fmt::format("\"{:g}\" is not a count (expected 1 to 1000000)", value));
  return static_cast<std::uint32_t>(value);
}

Spill chosen_spill(const Params& params) {
  const auto found = std::ranges::find(kSpillNames, params.word("spill"));
  return static_cast<Spill>(found - std::begin(kSpillNames));  // Params has refused others
}

// Of these only whole vectors can be used.
Bytes vectors(const Params& params, std::string_view key, Bytes vector) {
  const Bytes bytes = round_down(params.bytes(key), vector);
  if (bytes == 0) params.fail(key, fmt::format("\"{}\" is smaller than a vector of {} B", format_bytes(params.bytes(key)), vector));
  return bytes;
}

}  // namespace

std::vector<ParamSpec> HexagonParameters::specs() { return {std::begin(kParams), std::end(kParams)}; }

HexagonParameters::HexagonParameters(const Params& params)
    : clock(params.frequency("clock").value),
      scalar_threads(count(params, "scalar_threads")),
      vliw_slots(count(params, "vliw_slots")),
      call_cycles(params.number("call_cycles")),
      hand_over_cycles(params.number("hand_over_cycles")),
      hvx_threads(count(params, "hvx_threads")),
      vector_bytes(count(params, "hvx_bits") / 8),
      lookups_per_packet(params.positive("lookups_per_packet")),
      gather_packets(params.number("gather_packets")),
      gather_conflict_packets(params.number("gather_conflict_packets")),
      tcm_banks(count(params, "tcm_banks")),
      hmx_clock(params.frequency("hmx_clock").value),
      hmx_units(count(params, "hmx_units")),
      tile(count(params, "hmx_tile")),
      tile_cycles_f16(params.positive("tile_cycles_f16")),
      tile_cycles_int8(params.positive("tile_cycles_int8")),
      tile_cycles_int4(params.positive("tile_cycles_int4")),
      tile_out_cycles(params.number("tile_out_cycles")),
      dma_bandwidth(params.bandwidth("dma_bandwidth")),
      descriptor_cycles(params.number("descriptor_cycles")),
      row_cycles(params.number("row_cycles")),
      memory_latency(params.time("memory_latency")),
      loads_in_flight(params.positive("loads_in_flight")),
      fetches_in_flight(params.positive("fetches_in_flight")),
      l2_bandwidth(params.bandwidth("l2_bandwidth")),
      l2_latency(params.time("l2_latency")),
      spill(chosen_spill(params)),
      l2(vectors(params, "l2", vector_bytes)),
      tcm(vectors(params, "tcm", vector_bytes)),
      group(vectors(params, "group", vector_bytes)),
      buffers(static_cast<std::uint32_t>(params.number("buffers"))),
      chunk(vectors(params, "chunk", vector_bytes)),
      packets_per_mac(params.positive("packets_per_mac_otherwise")),
      packets_per_operation(params.number("packets_per_operation")),
      packets_per_conversion(params.number("packets_per_conversion")),
      packets_per_activation(params.number("packets_per_activation")) {
  if (params.number("buffers") != buffers || buffers > 2) {
    params.fail("buffers", fmt::format("\"{:g}\" (expected 0, 1 or 2)", params.number("buffers")));
  }
  if (memory_latency.count() == 0) params.fail("memory_latency", "is 0 (expected more)");
  if (l2_latency.count() == 0) params.fail("l2_latency", "is 0 (expected more)");
}

double HexagonParameters::path_bandwidth(Path path, std::uint32_t threads) const {
  if (path == Path::dma) return dma_bandwidth.value;
  const double lines = path == Path::l2fetch ? fetches_in_flight : loads_in_flight;
  const double thread = lines * static_cast<double>(vector_bytes) / to_seconds(memory_latency);  // Little's law
  return std::min(threads * thread, l2_bandwidth.value);
}

std::optional<double> HexagonParameters::spill_bandwidth(std::uint32_t threads, Bytes bytes) const {
  if (spill == Spill::tcm) return std::nullopt;
  if (spills_to_dram(bytes)) return path_bandwidth(Path::vector_load, threads);
  return threads * loads_in_flight * static_cast<double>(vector_bytes) / to_seconds(l2_latency);  // Little's law, as for DRAM
}

}  // namespace vitro::hw
