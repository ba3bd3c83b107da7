#include "sim/unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/machine/clock.hpp"

namespace vitro::sim {
namespace {

enum Kind : std::uint16_t { kBegin = 100, kSwitched, kAnswered, kRefused };

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
  begins_ = std::max({now, jobs_.front().from, core_.system_free()});
  if (begins_ == now) return begin_job();
  s_.executor.at(begins_, {device_, kBegin}, [this] { start_next(); });
}

void SimUnit::begin_job() {
  Job& job = jobs_.front();
  begun_ = true;
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
  if (pieces_ != nullptr && call_ + 1 < jobs_.front().chain->size()) return begin_piece();
  try {
    run_on_model(work_of(call), [this] { end_call(); });
  } catch (const RunError&) {  // the model can not carry such a call out; who submitted it may not wait yet
    result_.error = std::current_exception();
    s_.accounting.fails();
    s_.executor.at(call_began_, {device_, kRefused}, [this] { end_job(); });
  }
}

void SimUnit::run_on_model(const hw::Work& work, hw::Callback done) {
  begin_on_model();
  note_bytes(work);
  core_.model().submit(work, done);
}

void SimUnit::begin_on_model() {
  s_.accounting.kernel_begins(core_.processor());
  written_ = weights_ = moved_ = 0;
}

void SimUnit::note_bytes(const hw::Work& work) {
  const Bytes weights = std::min(work.weight_bytes, work.read_bytes);
  written_ += work.written_bytes;
  weights_ += weights;
  moved_ += work.read_bytes - weights + work.written_bytes;
}

void SimUnit::end_call() {
  Job& job = jobs_.front();
  const KernelCall& call = (*job.chain)[call_];
  const Picoseconds now = s_.executor.device_now();
  if (!job.on_cpu) note_call(cause_of(call));
  core_.end_trace();  // system work in the call, which comes before it in a file that is written as it goes
  execute(call, call_began_, now);
  ++call_;
  continue_chain();
}

void SimUnit::continue_chain() {
  const bool answered = give_answers();
  if (result_.error || call_ == jobs_.front().chain->size()) return end_job();
  if (!answered) return begin_call();
  s_.executor.at(std::max(s_.executor.device_now(), core_.system_free()), {device_, kAnswered}, [this] { begin_call(); });
}

void SimUnit::end_job() {
  answer(finish_job().waiter);
  start_next();
}

Completion<RunResult>& SimUnit::finish_job() {
  s_.accounting.chain_ends(static_cast<std::uint32_t>(caps_.id), core_.processor());
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  begun_ = false;
  job.bound.reset();  // its leases go before the waiter may look at the budget
  job.done->result.emplace(std::exchange(result_, {}));
  const Picoseconds spin = core_.model().dispatch().spin;
  if (spin.count() > 0) awake_until_ = s_.executor.device_now() + spin;
  return *job.done;
}

bool SimUnit::about_to_begin(std::coroutine_handle<> waiter) const {
  return caps_.kind == UnitKind::core && jobs_.size() == 1 && !begun_ && jobs_.front().chain != nullptr &&
         jobs_.front().done->waiter == waiter && unseen_.empty();
}

void SimUnit::replay_call(std::size_t call) {
  const Picoseconds now = s_.executor.device_now();
  call_ = call;
  execute((*jobs_.front().chain)[call], now, now);
}

void SimUnit::replay_end() {
  finish_job();
  working_ = false;
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
    s_.policy_core.system_work(SystemWork::take_result, s_.executor.device_now(), own ? wakes.own_cost : wakes.cost);
    if (!own) seen += wakes.latency;
  }
  s_.executor.post_result(seen, waiter);
}

// What has come while a call kept the policy busy. False: nothing.
bool SimUnit::give_answers() {
  if (unseen_.empty()) return false;
  for (const std::coroutine_handle<> waiter : unseen_) {
    s_.policy_core.system_work(SystemWork::take_result, s_.executor.device_now(), *s_.wakes.between_calls);
    s_.executor.post_result(s_.executor.device_now(), waiter);
  }
  unseen_.clear();
  return true;
}

void SimUnit::release() {
  VITRO_CHECK(working_ && jobs_.front().chain == nullptr, "release of a unit that is not blocked");
  awake_until_ = s_.executor.device_now() + core_.model().dispatch().wake_up;
  jobs_.pop_front();
  begun_ = false;
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
  begun_ = false;
  done();
  start_next();
}

std::vector<std::string> SimUnit::notes() const {
  if (fallbacks_ == 0) return {};
  return {fmt::format("{}: {} graphs ran on the CPU, the first because {}", caps_.name, fallbacks_, first_fallback_)};
}

}  // namespace vitro::sim
