#include "sim/unit.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "engine/machine/clock.hpp"

namespace vitro::sim {
namespace {

enum Kind : std::uint16_t { kBegin = 100, kSwitched };

// Size of a graph's description: PowerInfer-2 4.1.3 names 10 KB for a graph of a few operators (pi2_npu_graph_size).
constexpr Bytes kGraphBytesPerCall = 2 * KiB;

}  // namespace

SimUnit::SimUnit(UnitCaps caps, Core& core, std::uint16_t device, const Surroundings& surroundings)
    : caps_(std::move(caps)),
      core_(core),
      device_(device),
      s_(surroundings),
      work_(core.model(), caps_.core_class, s_.count),
      track_(s_.trace.track("units", caps_.name)) {}

void SimUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  VITRO_CHECK(!chain.empty(), "an empty chain was submitted");
  if (caps_.static_graphs) return reject(done, fmt::format("{} runs loaded graphs only", caps_.name));
  ++runs_;
  Job job;
  job.chain = &chain;
  job.done = &done;
  enqueue(std::move(job));
}

void SimUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto loaded = graphs_.find(graph.id);
  VITRO_CHECK(loaded != graphs_.end(), "launch of a graph that is not loaded");
  ++launches_;
  Job job;
  job.bound = std::make_unique<Chain>(bind(loaded->second.spec, bindings));
  job.chain = job.bound.get();
  job.graph = graph.id;
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
  job.from = s_.executor.now();
  if (s_.check_operands && job.chain != nullptr) job.sums = sum_operands(*job.chain);
  // A thread that faults is awake; so is one whose page has just arrived.
  const bool wakes = job.chain != nullptr && !working_ && jobs_.empty() && job.from > awake_until_;
  if (wakes) job.from += core_.model().hand_off().wake_up;
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
  if (job.chain == nullptr) return job.block();
  call_ = 0;
  result_ = RunResult{};
  const Picoseconds change = core_.model().hand_off().switch_graph;
  const bool changes = job.graph != 0 && std::exchange(last_graph_, job.graph) != job.graph;
  if (!changes || change.count() == 0) return begin_call();
  s_.executor.at(s_.executor.device_now() + change, {device_, kSwitched}, [this] { begin_call(); });
}

void SimUnit::begin_call() {
  call_began_ = s_.executor.device_now();
  s_.meter.kernel_begins(core_.processor(), call_began_);
  if (s_.power != nullptr) s_.power->before_call(core_.processor());
  const hw::Work work = work_.build((*jobs_.front().chain)[call_]);
  written_ = work.written_bytes;
  core_.model().submit(work, [this] { end_call(); });
}

void SimUnit::end_call() {
  Job& job = jobs_.front();
  const KernelCall& call = (*job.chain)[call_];
  const Picoseconds now = s_.executor.device_now();
  if (s_.power != nullptr) s_.power->dram_written(written_);
  if (s_.trace.enabled()) s_.trace.span(track_, call_began_, now, to_string(call.op), describe(call));
  try {
    if (s_.check_operands) check_operands(call, job.sums[call_], caps_.name);
    Outcome outcome = s_.function.execute(call);
    if (outcome.index() != 0) result_.outcomes.push_back(std::move(outcome));
  } catch (...) {
    result_.error = std::current_exception();
  }
  ++call_;
  if (result_.error || call_ == job.chain->size()) return end_job();
  begin_call();
}

void SimUnit::end_job() {
  s_.meter.kernel_ends(core_.processor(), s_.executor.device_now());
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job.bound.reset();  // its leases go before the waiter may look at the budget
  Completion<RunResult>& done = *job.done;
  done.result.emplace(std::move(result_));
  s_.executor.post_at(s_.executor.device_now() + core_.model().hand_off().hand_back, done.waiter);
  start_next();
}

void SimUnit::release() {
  VITRO_CHECK(working_ && jobs_.front().chain == nullptr, "release of a unit that is not blocked");
  awake_until_ = s_.executor.device_now() + core_.model().hand_off().wake_up;
  jobs_.pop_front();
  start_next();
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

Task<Result<Graph>> SimUnit::load(GraphSpec spec) {
  const Bytes size = spec.calls.size() * kGraphBytesPerCall;
  for (const KernelCall& call : spec.calls) {
    const std::string why = core_.model().objection(to_string(call.op), to_string(call.in.empty() ? Format::f32 : call.in[0].format));
    if (!why.empty()) co_return Result<Graph>(Status{Code::unsupported_shape, fmt::format("{}: {}", caps_.name, why)});
  }
  Loaded loaded{std::move(spec), 0};
  loaded.mapped = mapped_by(loaded.spec) + size;
  if (caps_.session_limit > 0 && mapped_ + loaded.mapped > caps_.session_limit) {
    co_return Result<Graph>(Status{
        Code::over_budget, fmt::format("{}: graph \"{}\" would map {} beside {}, and a session holds {}", caps_.name, loaded.spec.name,
                                       format_bytes(loaded.mapped), format_bytes(mapped_), format_bytes(caps_.session_limit))});
  }
  mapped_ += loaded.mapped;
  const hw::HandOff& hand_off = core_.model().hand_off();
  const Picoseconds ready = s_.executor.now() + hand_off.load + (loaded.spec.built ? Picoseconds(0) : hand_off.build);
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
