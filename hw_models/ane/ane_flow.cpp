#include "hw_models/ane/ane_flow.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"cores", Dimension::none, "", ""},
    {"tflops", Dimension::none, "", ""},                 // of all cores, float16, two per multiply-add
    {"bandwidth", Dimension::bandwidth, "", ""},         // its port at the DRAM
    {"stream_bandwidth", Dimension::bandwidth, "", ""},  // of weights into the cores
    {"switch_activity", Dimension::none, "0", "making another graph current draws nothing"},
    {"graph_limit", Dimension::bytes, "", ""},  // weights of one graph; above it the CPU runs it
    {"graph_count", Dimension::none, "128", "as many as a Core ML model may enumerate shapes"},
    {"dequantise_per_second", Dimension::none, "0", "weights in int8 are converted before a model is built"},
    {"axis_limit", Dimension::none, "16384", "longest axis of a tensor that Core ML developers see on the ANE"},
    {"shape_multiple", Dimension::none, "16", "sizes that suit the ANE (NPUMoE 3.2)"},
    {"attention_rows", Dimension::none, "128", "query rows that share one pass over keys and values; their scores fit on chip"},
    {"elementwise_per_second", Dimension::none, "50e9", "order of magnitude of softmax in a profile of attention"},
    {"dispatch", Dimension::time, "100 us", "a call through the system service and the driver, order of magnitude"},
    {"synchronise", Dimension::time, "50 us", "its interrupt and the way back to the caller, order of magnitude"},
    {"switch_graph", Dimension::time, "1 ms", "making another program and its weights current, order of magnitude"},
    {"build", Dimension::time, "2 s", "compiling one graph, order of magnitude; far above its execution (NPUMoE A.4)"},
    {"load", Dimension::time, "50 ms", "mapping a compiled graph, order of magnitude"},
    {"call_overhead", Dimension::time, "5 us", "one operator inside a graph: descriptors and a barrier, order of magnitude"},
};

enum Kind : std::uint16_t { kStart };

constexpr std::uint16_t kInt8 = 1;  // KernelCost::id of a product with weights in int8

// One byte per weight, and scales.
bool is_int8(std::string_view format) { return format == "q8_0" || format.starts_with("w8"); }

// Operators of the engine that need what the ANE lacks (NPUMoE Fig. 4): indexing, scatter and gather, top-k, comparison,
// layer norm. What is left are products, softmax, and element-wise operators.
struct Lacking {
  std::string_view op, what;
};
constexpr Lacking kLacking[] = {
    {"embed", "indexing"}, {"rms_norm", "layer norm"}, {"layer_norm", "layer norm"}, {"gather", "gather"},
    {"route", "top-k"},    {"expert_sum", "scatter"},  {"sample", "comparison and top-k"},
};

std::uint64_t padded(std::uint64_t n, std::uint64_t multiple) { return round_up(std::max<std::uint64_t>(n, 1), multiple); }

}  // namespace

std::vector<ParamSpec> FlowAne::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowAne::FlowAne(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(dram_.add_port({site.name, params.bandwidth("bandwidth"), site.port, 1})),
      device_(context_.device(site.name)),
      call_overhead_(params.time("call_overhead")),
      cores_(static_cast<std::uint32_t>(params.positive("cores"))),
      multiple_(static_cast<std::uint32_t>(params.positive("shape_multiple"))),
      tile_rows_(static_cast<std::uint32_t>(params.positive("attention_rows"))),
      macs_per_second_(params.positive("tflops") / 2 * 1e12),
      elementwise_per_second_(params.positive("elementwise_per_second")),
      stream_bandwidth_(params.bandwidth("stream_bandwidth").value),
      dequantised_per_second_(params.number("dequantise_per_second")) {
  dispatch_.wake_up = params.time("dispatch");
  dispatch_.hand_back = params.time("synchronise");
  dispatch_.switch_graph = params.time("switch_graph");
  dispatch_.switch_activity = params.number("switch_activity");
  dispatch_.build = params.time("build");
  dispatch_.load = params.time("load");
  dispatch_.static_graphs = dispatch_.fixed_batch = true;
  dispatch_.graph_weights = params.bytes("graph_limit");
  dispatch_.graph_count = static_cast<std::uint32_t>(params.number("graph_count"));
  dispatch_.shape_multiple = multiple_;
  dispatch_.graph_axis = static_cast<std::uint32_t>(params.number("axis_limit"));
}

KernelCost FlowAne::kernel(std::string_view, std::string_view format) {
  return {static_cast<std::uint16_t>(is_int8(format) ? kInt8 : 0), true};
}

std::string FlowAne::objection(std::string_view op, std::string_view format) const {
  for (const Lacking& lacking : kLacking) {
    if (op == lacking.op) return fmt::format("the ANE has no {} (operator {}): it belongs on the CPU", lacking.what, op);
  }
  const bool weights = op == "matmul" || op == "attention";  // activations are converted on their way in
  if (op == "matmul" && is_int8(format) && dequantised_per_second_ > 0) return {};
  if (weights && format != "f16")
    return fmt::format("the ANE computes in f16 and {} came with {} weights or keys (expected f16)", op, format);
  return {};
}

double FlowAne::arithmetic_seconds(const Work& work) const {
  const double vector = static_cast<double>(work.elementwise) / elementwise_per_second_;
  if (work.columns == 0) return static_cast<double>(work.macs) / macs_per_second_ + vector;
  const std::uint64_t blocks = padded(work.columns, multiple_) / multiple_, rounds = (blocks + cores_ - 1) / cores_;
  const double macs = static_cast<double>(padded(work.rows, multiple_)) * static_cast<double>(padded(work.depth, multiple_)) *
                      static_cast<double>(rounds * cores_ * multiple_);
  return macs / macs_per_second_ + vector;
}

double FlowAne::stream_seconds(const Work& work) const {
  const double seconds = static_cast<double>(work.weight_bytes) / stream_bandwidth_;
  if (work.kernel != kInt8 || work.columns == 0) return seconds;
  return std::max(seconds, static_cast<double>(work.columns) * work.depth / dequantised_per_second_);
}

void FlowAne::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "the ANE runs one call at a time");
  busy_ = true;
  done_ = done;
  Bytes read = work.read_bytes - std::min(work.weight_bytes, work.read_bytes);
  const bool attention = work.columns == 0 && work.macs > 0;
  // Keys and values are float16 already; activations are float32 in the engine's accounts and float16 here.
  read /= attention ? std::clamp(work.sequence_rows, 1u, tile_rows_) : 2;
  weights_ = {};
  weights_.port = port_;
  weights_.length = work.weight_bytes;
  weights_.pace = from_seconds(stream_seconds(work));
  activations_ = {};
  activations_.port = port_;
  activations_.written = work.written_bytes / 2;
  activations_.length = read + activations_.written;
  activations_.pace = from_seconds(arithmetic_seconds(work));
  context_.at(context_.now() + call_overhead_, {device_, kStart}, [this] { compute(); });
}

void FlowAne::compute() {
  dram_.submit(weights_, [this] {
    dram_.submit(activations_, [this] {
      busy_ = false;
      done_();
    });
  });
}

void register_ane(Registry& registry) {
  registry.add(Entry<ComputeModel>{"ane.flow",
                                   "neural engine: static graphs in float16; per call the weight stream, then the cores",
                                   FlowAne::params(),
                                   {},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowAne>(site, params); }});
}

}  // namespace vitro::hw
