#include "sim/unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/machine/clock.hpp"
#include "engine/ops/operands.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro::sim {
namespace {

enum Kind : std::uint16_t { kBegin = 100, kSwitched, kAnswered, kRefused };

// Size of a graph's description: PowerInfer-2 4.1.3 names 10 KB for a graph of a few operators (pi2_npu_graph_size).
constexpr Bytes kGraphBytesPerCall = 2 * KiB;

std::size_t batch_of(const GraphSpec& spec) {
  return !spec.calls.empty() && spec.calls.front().batch ? spec.calls.front().batch->size() : 0;
}

// What a unit must be able to read: weights, or keys and values.
Format operand_format(const KernelCall& call) {
  if (call.in.empty()) return Format::f32;
  if (call.in[0].format == Format::q4_nibbles) return Format::q4_0;
  return reads_kv(call) ? call.in[1].format : call.in[0].format;
}

Bytes weight_bytes(const GraphSpec& spec) {
  std::set<std::pair<std::uint64_t, Bytes>> seen;
  Bytes sum = 0;
  for (const KernelCall& call : spec.calls) {
    if (!call.is<ops::Matmul, ops::Accumulate>()) continue;
    const View& weights = call.in[0];
    if (!weights.memory || seen.insert({weights.memory.id(), weights.offset}).second) {
      // As panels hold them.
      sum += weights.shape[0] * row_bytes(weights.format, weights.shape[1], std::max(weights.layout, Layout::tiled));
    }
  }
  return sum;
}

}  // namespace

SimUnit::SimUnit(UnitCaps caps, Core& core, std::uint16_t device, const Surroundings& surroundings)
    : caps_(std::move(caps)),
      core_(core),
      device_(device),
      s_(surroundings),
      work_(core.model(), caps_.core_class, s_.count,
            {.lays_out = caps_.static_graphs, .tiles_queries = caps_.kind == UnitKind::core}),
      track_(s_.trace.track("units", caps_.name)),
      pieces_(takes_pieces() ? dynamic_cast<hw::PieceModel*>(&core.model()) : nullptr),
      fallback_(s_.units) {}

void SimUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  VITRO_CHECK(!chain.empty(), "an empty chain was submitted");
  if (caps_.static_graphs) return reject(done, fmt::format("{} has static shapes: it runs loaded graphs only", caps_.name));
  ++runs_;
  Job job;
  job.chain = &chain;
  job.done = &done;
  enqueue(std::move(job));
}

void SimUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "launch of a graph that is not loaded");
  const GraphSpec& spec = loaded->second.spec;
  if (core_.model().dispatch().fixed_batch && bindings.batch && bindings.batch->size() != batch_of(spec)) {
    return reject(done, fmt::format("{} has static shapes: graph \"{}\" was built for a batch of {} rows and is launched with {}",
                                    caps_.name, spec.name, batch_of(spec), bindings.batch->size()));
  }
  if (bindings.keys > 0 && std::ranges::find(spec.keys, bindings.keys) == spec.keys.end()) {
    return reject(done, fmt::format("{}: graph \"{}\" is not enumerated for {} keys", caps_.name, spec.name, bindings.keys));
  }
  ++launches_;
  Job job;
  job.bound = std::make_unique<Chain>(bind(spec, bindings));
  job.chain = job.bound.get();
  job.graph = graph.id;
  job.on_cpu = loaded->second.on_cpu;
  job.done = &done;
  enqueue(std::move(job));
}

void SimUnit::reject(Completion<RunResult>& done, std::string why) {
  RunResult result;
  result.status = {Code::unsupported_shape, std::move(why)};
  done.complete(std::move(result));
}

void SimUnit::block(hw::Callback begin) {
  Job job;
  job.block = begin;
  enqueue(std::move(job));
}

void SimUnit::enqueue(Job job) {
  // The policy waits for its own charged work; the system does not.
  job.from = job.share ? s_.executor.device_now() : s_.executor.now();
  if (s_.check_operands && job.chain != nullptr) job.sums = sum_operands(*job.chain);
  // A thread that faults is awake; so is one whose page has just arrived.
  const bool wakes = (job.chain != nullptr || job.share) && !working_ && jobs_.empty() && job.from > awake_until_;
  if (wakes) job.from += core_.model().dispatch().wake_up;
  jobs_.push_back(std::move(job));
  if (!working_) start_next();
}

void SimUnit::start_next() {
  working_ = !jobs_.empty();
  if (!working_) return;
  const Picoseconds now = s_.executor.device_now();
  const Picoseconds begin = std::max({now, jobs_.front().from, core_.system_free()});
  if (begin == now) return begin_job();
  s_.executor.at(begin, {device_, kBegin}, [this] { start_next(); });
}

void SimUnit::begin_job() {
  Job& job = jobs_.front();
  if (job.share) {
    call_began_ = s_.executor.device_now();
    return run_on_model(job.share->work, [this] { end_share(); });
  }
  if (job.chain == nullptr) return job.block();
  call_ = 0;
  result_ = RunResult{};
  const hw::DispatchCosts& dispatch = core_.model().dispatch();
  const bool changes = job.graph != 0 && !job.on_cpu && std::exchange(last_graph_, job.graph) != job.graph;
  if (!changes || dispatch.switch_graph.count() == 0) return begin_call();
  if (s_.power != nullptr) s_.power->set_activity(core_.processor(), dispatch.switch_activity);
  s_.executor.at(s_.executor.device_now() + dispatch.switch_graph, {device_, kSwitched}, [this] {
    if (s_.power != nullptr) {
      const double watts = s_.meter.draw(core_.processor()).idle - s_.power->leakage(core_.processor());
      s_.causes->drew(Cause::switches, s_.executor.device_now(), watts * to_seconds(core_.model().dispatch().switch_graph));
      s_.power->set_activity(core_.processor(), 0);
    }
    begin_call();
  });
}

void SimUnit::begin_call() {
  call_began_ = s_.executor.device_now();
  const KernelCall& call = (*jobs_.front().chain)[call_];
  if (jobs_.front().on_cpu) return fallback_.run(call, [this] { end_call(); });
  if (pieces_ != nullptr && jobs_.front().chain->size() > 1) return begin_piece();
  try {
    run_on_model(work_of(call), [this] { end_call(); });
  } catch (const RunError&) {  // the model can not carry such a call out; who submitted it may not wait yet
    result_.error = std::current_exception();
    s_.executor.at(call_began_, {device_, kRefused}, [this] { end_job(); });
  }
}

void SimUnit::run_on_model(const hw::Work& work, hw::Callback done) {
  begin_on_model({&work, 1});
  core_.model().submit(work, done);
}

void SimUnit::begin_on_model(std::span<const hw::Work> works) {
  s_.meter.kernel_begins(core_.processor(), call_began_);
  if (s_.power != nullptr) s_.power->before_call(core_.processor());
  written_ = weights_ = moved_ = 0;
  for (const hw::Work& work : works) {
    const Bytes weights = std::min(work.weight_bytes, work.read_bytes);
    written_ += work.written_bytes;
    weights_ += weights;
    moved_ += work.read_bytes - weights + work.written_bytes;
  }
}

void SimUnit::end_call() {
  Job& job = jobs_.front();
  const KernelCall& call = (*job.chain)[call_];
  const Picoseconds now = s_.executor.device_now();
  if (!job.on_cpu) note_call(cause_of(call));
  core_.end_trace();  // system work in the call, which comes before it in a file that is written as it goes
  execute(call, call_began_, now);
  const bool answered = give_answers();
  ++call_;
  if (result_.error || call_ == job.chain->size()) return end_job();
  if (!answered) return begin_call();
  s_.executor.at(std::max(now, core_.system_free()), {device_, kAnswered}, [this] { begin_call(); });
}

void SimUnit::end_job() {
  s_.meter.kernel_ends(core_.processor(), s_.executor.device_now());
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job.bound.reset();  // its leases go before the waiter may look at the budget
  Completion<RunResult>& done = *job.done;
  done.result.emplace(std::move(result_));
  const Picoseconds spin = core_.model().dispatch().spin;
  if (spin.count() > 0) awake_until_ = s_.executor.device_now() + spin;
  answer(done.waiter);
  start_next();
}

// Hands a result over, as soon as the policy sees it: its core may be at work.
void SimUnit::answer(std::coroutine_handle<> waiter) {
  const PolicyWakes& wakes = s_.wakes;
  Picoseconds seen = s_.executor.device_now() + core_.model().dispatch().hand_back;
  if (wakes.latency.count() + wakes.cost.count() + wakes.own_cost.count() == 0 && !wakes.between_calls) {
    return s_.executor.post_result(seen, waiter);
  }
  const auto beside = std::ranges::find_if(s_.units, [this](const auto& unit) { return &unit->core_ == &s_.policy_core; });
  if (beside == s_.units.end() || (*beside)->jobs_.empty() || (*beside)->jobs_.front().chain == nullptr) {
    return s_.executor.post_result(seen, waiter);
  }
  const bool own = beside->get() == this;
  if (wakes.between_calls && s_.meter.storage_outstanding() == 0) {
    if (!own) return (*beside)->unseen_.push_back(waiter);
  } else {
    s_.policy_core.system_work(Core::SystemWork::take_result, s_.executor.device_now(), own ? wakes.own_cost : wakes.cost);
    if (!own) seen += wakes.latency;
  }
  s_.executor.post_result(seen, waiter);
}

// What has come while a call kept the policy busy. False: nothing.
bool SimUnit::give_answers() {
  if (unseen_.empty()) return false;
  for (const std::coroutine_handle<> waiter : unseen_) {
    s_.policy_core.system_work(Core::SystemWork::take_result, s_.executor.device_now(), *s_.wakes.between_calls);
    s_.executor.post_result(s_.executor.device_now(), waiter);
  }
  unseen_.clear();
  return true;
}

void SimUnit::release() {
  VITRO_CHECK(working_ && jobs_.front().chain == nullptr, "release of a unit that is not blocked");
  awake_until_ = s_.executor.device_now() + core_.model().dispatch().wake_up;
  jobs_.pop_front();
  start_next();
}

void SimUnit::lend(const hw::Work& work, Cause cause, hw::Callback done) {
  Job job;
  job.share = std::make_unique<Share>(work, cause, done);
  enqueue(std::move(job));
}

void SimUnit::end_share() {
  const Picoseconds now = s_.executor.device_now();
  note_call(jobs_.front().share->cause);
  s_.meter.kernel_ends(core_.processor(), now);
  if (s_.trace.enabled()) s_.trace.span(track_, call_began_, now, "share", "of a graph that an accelerator gave back");
  hw::Callback done = jobs_.front().share->done;
  jobs_.pop_front();
  done();
  start_next();
}

std::vector<std::string> SimUnit::notes() const {
  if (fallbacks_ == 0) return {};
  return {fmt::format("{}: {} graphs ran on the CPU, the first because {}", caps_.name, fallbacks_, first_fallback_)};
}

Bytes SimUnit::mapped_by(const GraphSpec& spec) const {
  std::set<std::uint64_t> seen;
  Bytes sum = 0;
  const auto add = [&](const View& view) {
    if (view.slot == 0 && view.memory && seen.insert(view.memory.id()).second) sum += view.memory.size();
  };
  for (const KernelCall& call : spec.calls) {
    for (const View& view : call.in) add(view);
    for (const View& view : call.out) add(view);
  }
  return sum;
}

Status SimUnit::refusal(const GraphSpec& spec) const {
  const bool fixed = core_.model().dispatch().fixed_batch;
  if (fixed && batch_of(spec) == 0) {
    return {Code::unsupported_shape, fmt::format("{} has static shapes: graph \"{}\" names no batch", caps_.name, spec.name)};
  }
  for (const KernelCall& call : spec.calls) {
    std::string why = core_.model().objection(to_string(call.op), to_string(operand_format(call)));
    if (why.empty() && fixed && call.rows) why = "static shapes: it takes no rows that are chosen at run time";
    if (!why.empty()) return {Code::unsupported_shape, fmt::format("{}: graph \"{}\": {}", caps_.name, spec.name, why)};
  }
  return {};
}

std::string SimUnit::beyond_limits(const GraphSpec& spec) const {
  const hw::DispatchCosts& limits = core_.model().dispatch();
  if (const Bytes weights = weight_bytes(spec); limits.graph_weights > 0 && weights > limits.graph_weights) {
    return fmt::format("graph \"{}\" has weights of {} and one graph holds {}", spec.name, format_bytes(weights),
                       format_bytes(limits.graph_weights));
  }
  if (limits.graph_count > 0 && graphs_.size() >= limits.graph_count) {
    return fmt::format("graph \"{}\" came when {} were loaded, as many as there may be", spec.name, limits.graph_count);
  }
  for (const KernelCall& call : spec.calls) {
    if (!call.is<ops::Matmul>() || limits.graph_axis == 0) continue;
    const std::uint32_t longest = std::max(call.in[0].shape[0], call.in[0].shape[1]);
    if (longest > limits.graph_axis) {
      return fmt::format("graph \"{}\" has an axis of {} elements and the longest is {}", spec.name, longest, limits.graph_axis);
    }
  }
  return {};
}

Task<Result<Graph>> SimUnit::load(GraphSpec spec) {
  const Bytes size = spec.calls.size() * kGraphBytesPerCall;
  Status refused = refusal(spec);
  if (refused.code != Code::ok) co_return Result<Graph>(std::move(refused));
  Loaded loaded{std::move(spec), 0, false};
  if (std::string why = beyond_limits(loaded.spec); !why.empty() && fallback_.possible()) {
    loaded.on_cpu = true;
    if (fallbacks_++ == 0) first_fallback_ = why;
  } else if (!why.empty()) {
    co_return Result<Graph>(Status{Code::over_budget, fmt::format("{}: {}, and there is no CPU core to run it", caps_.name, why)});
  }
  loaded.mapped = mapped_by(loaded.spec) + size;
  if (caps_.session_limit > 0 && mapped_ + loaded.mapped > caps_.session_limit) {
    co_return Result<Graph>(Status{
        Code::over_budget, fmt::format("{}: graph \"{}\" would map {} beside {}, and a session holds {}", caps_.name, loaded.spec.name,
                                       format_bytes(loaded.mapped), format_bytes(mapped_), format_bytes(caps_.session_limit))});
  }
  mapped_ += loaded.mapped;
  const hw::DispatchCosts& dispatch = core_.model().dispatch();
  const Picoseconds ready = s_.executor.now() + dispatch.load + (loaded.spec.built ? Picoseconds(0) : dispatch.build);
  co_await sleep_until(s_.executor, ready);
  const Graph graph{next_graph_++, size};
  graphs_.emplace(graph.id, std::move(loaded));
  co_return Result<Graph>(graph);
}

void SimUnit::unload(Graph graph) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "unload of a graph that is not loaded");
  mapped_ -= loaded->second.mapped;
  graphs_.erase(loaded);
}

}  // namespace vitro::sim
