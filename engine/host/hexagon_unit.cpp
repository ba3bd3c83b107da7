#include "engine/host/hexagon_unit.hpp"

#include <fmt/format.h>

#include <cstring>

#include "engine/host/thread_placement.hpp"
#include "engine/kernels/kernel_set.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro {
namespace {

using hexagon::Int8Block;
using hexagon::Kind;

bool overlap(const View& a, const View& b) { return a.data() < b.data() + view_bytes(b) && b.data() < a.data() + view_bytes(a); }

std::string why_not(const KernelCall& call) {
  if (call.op != Op::matmul) return fmt::format("{} is not among its operators", to_string(call.op));
  if (call.variant != variant::kInt8) return "it computes with int8 activations only";
  if (call.in.size() > 2) return "it adds no bias";
  if (call.rows != nullptr || call.places != nullptr) return "it computes dense rows only";
  if (!hexagon::can_pack(call.in[0])) return fmt::format("it has no kernel for {} of this shape", to_string(call.in[0].format));
  return {};
}

}  // namespace

HexagonUnit::HexagonUnit(UnitId id, std::size_t index, const HexagonOptions& options, HostExecutor& executor, Function& function,
                         TraceSink& trace, Activity& activity)
    : index_(index),
      bit_serial_(options.bit_serial),
      executor_(executor),
      function_(function),
      trace_(trace),
      activity_(activity),
      track_(trace.track("units", "hexagon")),
      session_(options.transport(), options.limits) {
  caps_.id = id;
  caps_.name = "hexagon";
  caps_.core_class = "npu";
  caps_.static_graphs = true;
  caps_.session_limit = session_.transport().inbound().size();
  thread_ = std::thread([this] {
    become_worker();
    work();
  });
}

HexagonUnit::~HexagonUnit() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  work_available_.notify_one();
  thread_.join();
}

Result<HexagonUnit::Placed> HexagonUnit::place(const KernelCall& call) {
  const View& weights = call.in[0];
  const Range rows = sliced(call, weights.shape[0]);
  const WeightKey key{weights.memory.id(), weights.offset, rows.first, rows.count};
  if (const auto found = placed_.find(key); found != placed_.end()) return found->second;
  const bool planes = bit_serial_ && hexagon::can_pack_lut(weights);
  const std::uint32_t k = columns(weights);
  const Bytes size = planes ? hexagon::lut_panels_bytes(4, rows.count, k) : hexagon::panels_bytes(weights.format, rows.count, k);
  Result<std::uint32_t> at = session_.place(size);
  if (!at.ok()) return at.status();
  (planes ? static_cast<void (*)(const View&, Range, std::byte*)>(hexagon::pack_lut_panels) : hexagon::pack_panels)(
      weights, rows, session_.at(at.value()));
  session_.written(at.value(), size);
  return placed_[key] = {at.value(), planes};
}

Task<Result<Graph>> HexagonUnit::load(GraphSpec spec) {
  Loaded loaded;
  const std::scoped_lock lock(session_mutex_);
  for (const KernelCall& call : spec.calls) {
    std::string why = why_not(call);
    // What is bound at launch may be other bytes each time.
    if (why.empty() && (!call.in[0].memory || call.in[0].data() == nullptr)) why = "it packs weights when a graph is loaded, here are none";
    if (!why.empty()) {
      if (first_refusal_.empty()) first_refusal_ = why;
      co_return Status{Code::unsupported_shape, fmt::format("hexagon: {}", why)};
    }
    Result<Placed> weights = place(call);
    if (!weights.ok()) co_return weights.status();
    loaded.weights.push_back(weights.value());
  }
  Graph graph{next_graph_++, spec.calls.size() * sizeof(hexagon::Operator)};
  loaded.spec = std::move(spec);
  graphs_.emplace(graph.id, std::move(loaded));
  co_return Result<Graph>(graph);
}

void HexagonUnit::unload(Graph graph) {
  const std::size_t erased = graphs_.erase(graph.id);
  VITRO_CHECK(erased == 1, "unload of a graph that is not loaded");
}

std::vector<std::string> HexagonUnit::notes() {
  const std::scoped_lock lock(session_mutex_);
  std::vector<std::string> notes = session_.notes();
  notes.insert(notes.begin(), fmt::format("hexagon: {}, {} operators in {} requests", session_.transport().name(), operators_, requests_));
  if (!first_refusal_.empty()) notes.push_back(fmt::format("hexagon: graphs were refused, the first one since {}", first_refusal_));
  if (by_cpu_ > 0) notes.push_back(fmt::format("hexagon: {} operators ran on the CPU instead", by_cpu_));
  return notes;
}

void HexagonUnit::submit(const Chain&, Completion<RunResult>& done) {
  RunResult result;
  result.status = {Code::unsupported_shape, "hexagon has static shapes: it runs loaded graphs only"};
  done.complete(std::move(result));
}

void HexagonUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "launch of a graph that is not loaded");
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back({std::make_unique<Chain>(bind(loaded->second.spec, bindings)), &loaded->second, &done});
  }
  work_available_.notify_one();
}

void HexagonUnit::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    work_available_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    execute(std::move(job));
  }
}

void HexagonUnit::execute(Job job) {
  RunResult result;
  const Picoseconds begin = executor_.now();
  try {
    const std::scoped_lock lock(session_mutex_);
    run(*job.chain, *job.graph);
  } catch (...) {
    result.error = std::current_exception();
  }
  const Picoseconds end = executor_.now();
  if (trace_.enabled()) trace_.span(track_, begin, end, job.graph->spec.name, describe(job.chain->front()));
  activity_.unit_busy(index_, begin, end);
  job.chain.reset();  // its leases go before the waiter may look at the budget
  job.done->complete(std::move(result));
  in_flight_.fetch_sub(1, std::memory_order_release);
}

void HexagonUnit::run(const Chain& chain, const Loaded& graph) {
  for (std::size_t next = 0; next < chain.size();) {
    const std::size_t done = session_.usable() ? run_request(chain, graph, next) : 0;
    next += done;
    if (done > 0) continue;
    function_.execute(chain[next++]);
    ++by_cpu_;
  }
}

// Runs as many calls as one request holds, from `first` on, and says how many; 0 when the worker has none of them done.
std::size_t HexagonUnit::run_request(const Chain& chain, const Loaded& graph, std::size_t first) {
  session_.clear_scratch();
  std::vector<hexagon::Operator> operators;
  std::map<std::tuple<const std::byte*, std::uint32_t, std::uint32_t>, std::uint32_t> activations;  // by place and shape
  Bytes results = 0;
  for (std::size_t i = first; i < chain.size() && operators.size() < hexagon::kMostOperators; ++i) {
    const KernelCall& call = chain[i];
    const View &weights = call.in[0], &x = call.in[1];
    const auto depends = [&](const KernelCall& earlier) { return overlap(earlier.out[0], x); };
    if (std::any_of(chain.begin() + static_cast<std::ptrdiff_t>(first), chain.begin() + static_cast<std::ptrdiff_t>(i), depends)) break;
    hexagon::Operator op{};
    op.kind = graph.weights[i].bit_serial ? Kind::matmul_lut : weights.format == Format::q8_0 ? Kind::matmul_q8_0 : Kind::matmul_q4_0;
    op.rows = sliced(call, weights.shape[0]).count;
    op.columns = columns(weights);
    op.batch = x.shape[0];
    const Bytes out_bytes = Bytes{op.batch} * op.rows * sizeof(float);
    results += round_up(out_bytes, hexagon::kVectorBytes);
    if (results > session_.most_results()) break;
    op.out_bytes = static_cast<std::uint32_t>(out_bytes);
    op.bits = 4;
    op.zero = 8;
    op.in[0] = graph.weights[i].at;
    const std::tuple key{x.data(), op.batch, op.columns};
    if (!activations.contains(key)) {
      Result<std::uint32_t> at = place_activations(x);
      if (!at.ok()) break;
      activations[key] = at.value();
    }
    op.in[1] = activations[key];
    operators.push_back(op);
  }
  if (operators.empty()) return 0;
  ++requests_;
  const Result<std::vector<std::vector<std::uint32_t>>> answers = session_.run(operators);
  if (!answers.ok()) return 0;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const KernelCall& call = chain[first + i];
    const Range rows = sliced(call, call.in[0].shape[0]);
    for (std::uint32_t m = 0; m < operators[i].batch; ++m) {
      float* y = call.out[0].as<float>() + std::size_t{m} * call.in[0].shape[0] + rows.first;
      std::memcpy(y, answers.value()[i].data() + std::size_t{m} * rows.count, rows.count * sizeof(float));
    }
  }
  operators_ += operators.size();
  return operators.size();
}

// Quantised here, by the same code as on a core: once for all products of a request that have the same input.
Result<std::uint32_t> HexagonUnit::place_activations(const View& x) {
  const std::uint32_t batch = x.shape[0], blocks = columns(x) / kBlock;
  const Bytes size = Bytes{batch} * blocks * sizeof(Int8Block);
  const Result<std::uint32_t> at = session_.scratch(size);
  if (!at.ok()) return at;
  std::vector<std::int8_t> quants(std::size_t{blocks} * kBlock);
  std::vector<float> scales(blocks);
  std::vector<std::int32_t> corrections(blocks);
  auto* out = reinterpret_cast<Int8Block*>(session_.at(at.value()));
  for (std::uint32_t m = 0; m < batch; ++m) {
    kernel_set("auto").quantise(x.as<float>() + std::size_t{m} * columns(x), blocks, 1, quants.data(), scales.data(), corrections.data());
    for (std::uint32_t b = 0; b < blocks; ++b, ++out) {
      std::memcpy(out->quants, quants.data() + b * kBlock, kBlock);
      out->scale = scales[b];
      out->sum = corrections[b] / -8;
    }
  }
  session_.written(at.value(), size);
  return at;
}

}  // namespace vitro
