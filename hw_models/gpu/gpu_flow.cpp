#include "hw_models/gpu/gpu_flow.hpp"

#include <algorithm>
#include <cmath>

namespace vitro::hw {
namespace {

constexpr ParamSpec kParams[] = {
    {"bandwidth", Dimension::bandwidth, "", ""},  // its port at the DRAM
    {"launch", Dimension::time, "100 us", "a command submission through the driver, order of magnitude"},
    {"synchronise", Dimension::time, "50 us", "a fence seen by the thread that waits for it, order of magnitude"},
    {"kernel_overhead", Dimension::time, "10 us", "from one kernel of a command buffer to the next, order of magnitude"},
    {"macs_per_second_otherwise", Dimension::none, "", ""},  // kernels without a rate of their own
    {"attention_macs_per_second", Dimension::none, "", ""},  // of a fused attention kernel, softmax included
    {"elementwise_per_second", Dimension::none, "", ""},
    {"conversions_per_second", Dimension::none, "", ""},
    {"lookups_per_second", Dimension::none, "", ""},
    {"attention_rows", Dimension::none, "64", "query rows of a tile in public fused attention kernels"},
};

enum Kind : std::uint16_t { kStart };

}  // namespace

std::vector<ParamSpec> FlowGpu::params() { return {std::begin(kParams), std::end(kParams)}; }

FlowGpu::FlowGpu(const Site& site, const Params& params)
    : context_(site.context),
      dram_(*site.dram),
      port_(dram_.add_port({site.name, params.bandwidth("bandwidth"), site.port, 1})),
      device_(context_.device(site.name)),
      kernel_overhead_(params.time("kernel_overhead")),
      rates_(params.table("macs_per_second"), params.positive("macs_per_second_otherwise")),
      attention_macs_per_second_(params.positive("attention_macs_per_second")),
      elementwise_per_second_(params.positive("elementwise_per_second")),
      conversions_per_second_(params.positive("conversions_per_second")),
      lookups_per_second_(params.positive("lookups_per_second")),
      tile_rows_(static_cast<std::uint32_t>(params.positive("attention_rows"))),
      products_(params.table("products")) {
  if (!products_.values.empty()) {
    unpack_weight_ = of_products("unpack.weight");
    unpack_scale_ = of_products("unpack.scale");
    unpack_zero_point_ = of_products("unpack.zero_point");
    operations_per_second_ = of_products("operations_per_second");
  }
  dispatch_.wake_up = params.time("launch");
  dispatch_.hand_back = params.time("synchronise");
}

double FlowGpu::of_products(const std::string& key) const {
  const auto found = products_.values.find(key);
  if (found == products_.values.end() || found->second <= 0) products_.fail(key, "is missing, or not above 0");
  return found->second;
}

KernelCost FlowGpu::kernel(std::string_view variant, std::string_view format) {
  const KernelCost cost = rates_.find(variant, format);
  const std::string way(variant);
  if (!products_.values.contains(way + ".rows")) return cost;
  const auto stored = products_.values.find(way + ".stored");
  ways_[cost.id] = {of_products(way + ".rows"), of_products(way + ".fetch"), stored == products_.values.end() ? 0 : stored->second};
  return {cost.id, true};
}

FlowGpu::Cost FlowGpu::product(const Work& work, const Way& way) const {
  const double weights = static_cast<double>(work.columns) * work.depth, passes = std::ceil(work.rows / way.rows);
  const double of_group = unpack_scale_ + (work.zero_points ? unpack_zero_point_ : 0);
  const double unpack = unpack_weight_ + of_group / std::max(work.group, 1u), unpacked = way.stored > 0 ? weights : weights * passes;
  const double loaded = weights * passes * (way.stored > 0 ? way.stored : work.weight_bits / 8.0);
  const double arithmetic = (static_cast<double>(work.macs) + unpack * unpacked) / operations_per_second_;
  const auto copy = static_cast<Bytes>(weights * way.stored);
  return {std::max(arithmetic, loaded / way.fetch), copy, copy};
}

void FlowGpu::submit(const Work& work, Callback done) {
  VITRO_CHECK(!busy_, "the GPU runs one kernel at a time");
  busy_ = true;
  done_ = done;
  const bool attention = work.columns == 0 && work.macs > 0;
  const auto macs = static_cast<double>(work.macs);
  const auto way = work.columns > 0 ? ways_.find(work.kernel) : ways_.end();
  const Cost own = way != ways_.end() ? product(work, way->second)
                   : attention        ? Cost{macs / attention_macs_per_second_}
                                      : Cost{rates_.time(macs, work.kernel)};
  double seconds = own.seconds;
  // A product's rate contains the unpacking of its weights, that of fused attention its softmax.
  if (work.macs == 0) seconds += static_cast<double>(work.conversions) / conversions_per_second_;
  if (!attention) seconds += static_cast<double>(work.elementwise) / elementwise_per_second_;
  seconds += static_cast<double>(work.lookups) / lookups_per_second_;
  const Bytes read = attention ? work.read_bytes / std::clamp(work.sequence_rows, 1u, tile_rows_) : work.read_bytes;
  traffic_ = {};
  traffic_.port = port_;
  traffic_.written = work.written_bytes + own.written;
  traffic_.length = read + own.read + traffic_.written;
  traffic_.pace = from_seconds(seconds);
  context_.at(context_.now() + kernel_overhead_, {device_, kStart}, [this] {
    dram_.submit(traffic_, [this] {
      busy_ = false;
      done_();
    });
  });
}

void register_gpu(Registry& registry) {
  registry.add(Entry<ComputeModel>{"gpu.flow",
                                   "GPU: a launch per chain, then per kernel the longer of arithmetic and memory traffic",
                                   FlowGpu::params(),
                                   {"macs_per_second", "products"},
                                   [](const Site& site, const Params& params) { return std::make_unique<FlowGpu>(site, params); }});
}

}  // namespace vitro::hw
