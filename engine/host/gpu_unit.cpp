#include "engine/host/gpu_unit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/kernels/common/float_copies.hpp"
#include "engine/ops/variants.hpp"

namespace vitro {
namespace {

// Whether the call is one for the device, as far as the call alone can say.
bool is_product(const KernelCall& call) {
  if (!call.is<ops::Matmul>() || call.variant != variant::kA16 || call.rows != nullptr || call.row_offsets != nullptr) return false;
  const View& weights = call.in[0];
  return weights.data() != nullptr && weights.memory.block()->region == Region::fixed && opencl::panel_form(weights).has_value();
}

std::vector<std::uint16_t> halves_of(const View& x) {
  std::vector<std::uint16_t> halves(elements(x));
  if (x.format == Format::f16) {
    std::copy_n(x.as<std::uint16_t>(), halves.size(), halves.begin());
    return halves;
  }
  std::transform(x.as<float>(), x.as<float>() + halves.size(), halves.begin(), float_to_half);
  return halves;
}

void write(const KernelCall& call, std::vector<float>& result) {
  const std::uint32_t n = call.in[0].shape[0], batch = call.in[1].shape[0];
  const Range rows = sliced(call, n);
  const float* bias = bias_of(call) != nullptr ? bias_of(call)->as<float>() : nullptr;
  for (std::uint32_t m = 0; m < batch; ++m) {
    float* y = result.data() + std::size_t{m} * rows.count;
    for (std::uint32_t i = 0; bias != nullptr && i < rows.count; ++i) y[i] += bias[rows.first + i];
    store_f32(call.out[0], std::size_t{m} * n + rows.first, y, rows.count);
  }
}

}  // namespace

GpuUnit::GpuUnit(UnitId id, std::size_t index, const GpuOptions& options, HostExecutor& executor, Function& function, TraceSink& trace,
                 Activity& activity)
    : index_(index),
      device_(options.device()),
      executor_(executor),
      function_(function),
      trace_(trace),
      activity_(activity),
      track_(trace.track("units", options.name)),
      worker_(executor, Picoseconds(0), [this](Job job) { execute(std::move(job)); }) {
  caps_.id = id;
  caps_.kind = UnitKind::gpu;
  caps_.name = options.name;
  caps_.core_class = "gpu";
}

Task<Result<Graph>> GpuUnit::load(GraphSpec spec) { co_return Result<Graph>(graphs_.add(std::move(spec))); }

void GpuUnit::unload(Graph graph) { graphs_.remove(graph); }

std::vector<std::string> GpuUnit::notes() const {
  std::vector<std::string> notes = device_->notes();
  if (elsewhere_ > 0) notes.push_back(fmt::format("gpu: {} matmuls ran on the CPU instead, since {}", elsewhere_, first_refusal_));
  return notes;
}

void GpuUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  VITRO_CHECK(!chain.empty(), "an empty chain was submitted");
  worker_.post({&chain, nullptr, &done});
}

void GpuUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  auto bound = graphs_.bound(graph, bindings);
  const Chain* chain = bound.get();
  worker_.post({chain, std::move(bound), &done});
}

void GpuUnit::execute(Job job) {
  RunResult result;
  const Picoseconds begin = executor_.now();
  try {
    run(*job.chain, result.outcomes);
  } catch (...) {
    result.error = std::current_exception();
  }
  activity_.unit_busy(index_, begin, executor_.now());
  job.bound.reset();  // its leases go before the waiter may look at the budget
  job.done->complete(std::move(result));
}

void GpuUnit::run(const Chain& chain, std::vector<Outcome>& outcomes) {
  for (std::size_t next = 0; next < chain.size();) {
    const Picoseconds begin = executor_.now();
    const KernelCall& call = chain[next];
    const std::size_t done = run_request(chain, next);
    if (done == 0) {
      elsewhere_ += is_product(call) ? 1 : 0;
      Outcome outcome = function_.execute(call);
      if (outcome.index() != 0) outcomes.push_back(std::move(outcome));
    }
    if (trace_.enabled()) trace_.kernel(track_, begin, executor_.now(), call);
    next += std::max<std::size_t>(done, 1);
  }
}

// Computes the matmuls from `first` on that one request can hold, and says how many; 0 when the first call is none for the device.
std::size_t GpuUnit::run_request(const Chain& chain, std::size_t first) {
  std::map<std::pair<const std::byte*, Bytes>, std::vector<std::uint16_t>> inputs;
  std::vector<std::vector<float>> results;
  std::vector<GpuDevice::Product> products;
  for (std::size_t i = first; i < chain.size(); ++i) {
    const KernelCall& call = chain[i];
    const auto depends = [&](const KernelCall& earlier) { return overlap(earlier.out[0], call.in[1]); };
    const auto begin = chain.begin() + static_cast<std::ptrdiff_t>(first), end = chain.begin() + static_cast<std::ptrdiff_t>(i);
    if (!is_product(call) || std::any_of(begin, end, depends)) break;
    const std::optional<GpuDevice::Weights> weights = placed(call);
    if (!weights) break;
    const View& x = call.in[1];
    std::vector<std::uint16_t>& halves = inputs[{x.data(), view_bytes(x)}];
    if (halves.empty()) halves = halves_of(x);
    results.emplace_back(std::size_t{x.shape[0]} * sliced(call, call.in[0].shape[0]).count);
    products.push_back({*weights, halves, x.shape[0], results.back().data()});
  }
  if (products.empty()) return 0;
  const Status status = device_->multiply(products);
  if (!status.ok()) throw RunError(fmt::format("{}: the device was lost: {}", caps_.name, status.message));
  for (std::size_t i = 0; i < products.size(); ++i) write(chain[first + i], results[i]);
  products_ += products.size();
  ++requests_;
  return products.size();
}

// Requires: is_product(call).
std::optional<GpuDevice::Weights> GpuUnit::placed(const KernelCall& call) {
  const View& weights = call.in[0];
  const Range rows = sliced(call, weights.shape[0]);
  const bool image = call.method == Method::image || (call.method != Method::buffer && device_->has_images());
  const WeightKey key{weights.memory.id(), weights.offset, rows.first, rows.count, image};
  auto known = placed_.find(key);
  if (known == placed_.end()) {
    check_call(call);
    const Result<GpuDevice::Weights> weights_there = device_->place(opencl::pack_panels(weights, rows), image);
    if (!weights_there.ok() && weights_there.status().code == Code::unit_lost) {
      throw RunError(fmt::format("{}: the device was lost: {}", caps_.name, weights_there.status().message));
    }
    known = placed_.emplace(key, weights_there.ok() ? std::optional(weights_there.value()) : std::nullopt).first;
    if (!weights_there.ok() && first_refusal_.empty()) first_refusal_ = weights_there.status().message;
  }
  return known->second;
}

}  // namespace vitro
