#include "hw_models/npu/hexagon_flow.hpp"

#include <algorithm>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"dma_bandwidth", Dimension::bandwidth, "", ""},     // its port at the DRAM
    {"stream_bandwidth", Dimension::bandwidth, "", ""},  // of weights through a kernel, alone on the DRAM
    {"session_limit", Dimension::bytes, "", ""},
    {"launch", Dimension::time, "100 us", "a round trip through the shared-buffer queue of the DSP, order of magnitude"},
    {"hand_back", Dimension::time, "10 us", "the CPU's side of that queue, order of magnitude"},
    {"load", Dimension::time, "500 us", "preparing one static graph, order of magnitude"},
    {"call_overhead", Dimension::time, "2 us", "one operator inside a graph: descriptors and thread barrier"},
    {"macs_per_second_otherwise", Dimension::none, "16e9", "one HVX thread on float16, for kernels without a measured rate"},
    {"elementwise_per_second", Dimension::none, "64e9", "four HVX threads of 16e9 half-precision operations"},
    {"conversions_per_second", Dimension::none, "256e9", "four HVX threads, 64 lanes, one conversion per cycle at 1 GHz"},
    {"lookups_per_second", Dimension::none, "256e9", "vlut16 on four HVX threads at 0.5 instructions per cycle"},
    {"tile_rows", Dimension::none, "32", "HMX fp16 tile: 32 activation rows, used or not"},
};

enum Kind : std::uint16_t { kStart, kEnd };

}  // namespace

std::vector<ParamSpec> FlowHexagon::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowHexagon::FlowHexagon(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(dram_.add_port({site.name, params.bandwidth("dma_bandwidth"), site.port, 1})),
      device_(context_.device(site.name)),
      call_overhead_(params.time("call_overhead")),
      rates_(params.table("macs_per_second"), params.positive("macs_per_second_otherwise")),
      elementwise_per_second_(params.positive("elementwise_per_second")),
      conversions_per_second_(params.positive("conversions_per_second")),
      lookups_per_second_(params.positive("lookups_per_second")),
      stream_bandwidth_(params.bandwidth("stream_bandwidth").value),
      tile_rows_(static_cast<std::uint32_t>(params.positive("tile_rows"))) {
  hand_off_.wake_up = params.time("launch");
  hand_off_.hand_back = params.time("hand_back");
  hand_off_.load = params.time("load");
  hand_off_.session_limit = params.bytes("session_limit");
  hand_off_.static_graphs = true;
}

void FlowHexagon::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "the NPU runs one call at a time");
  busy_ = true;
  done_ = done;
  const std::uint32_t rows = std::max(1u, work.rows);
  const double padded = static_cast<double>(work.macs) / rows * static_cast<double>(round_up(rows, tile_rows_));
  const double matrix = rates_.time(padded, work.kernel);
  const double vector = static_cast<double>(work.elementwise) / elementwise_per_second_ +
                        static_cast<double>(work.conversions) / conversions_per_second_ +
                        static_cast<double>(work.lookups) / lookups_per_second_;
  const Bytes bytes = work.read_bytes + work.written_bytes;
  const double stream = static_cast<double>(bytes) / stream_bandwidth_;
  // DMA, vector and matrix units work on different tiles at the same time: the slowest sets the pace.
  traffic_ = {port_, bytes, work.written_bytes, from_seconds(std::max({matrix, vector, stream}))};
  context_.at(context_.now() + call_overhead_, {device_, kStart}, [this] {
    dram_.submit(traffic_, [this] {
      busy_ = false;
      done_();
    });
  });
}

void register_npu(Registry& registry) {
  registry.add(Entry<ComputeModel>{"hexagon.flow",
                                   "NPU: graph launches; per call the slowest of matrix, vector and DMA",
                                   FlowHexagon::params(),
                                   {"macs_per_second"},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowHexagon>(site, params); }});
}

}  // namespace vitro::hw
