#include "engine/host/host_unit.hpp"

#include "engine/host/thread_placement.hpp"

namespace vitro {

HostUnit::HostUnit(UnitCaps caps, std::size_t index, Picoseconds spin, HostExecutor& executor, Function& function, TraceSink& trace,
                   Activity& activity, const Device* storage)
    : caps_(std::move(caps)),
      index_(index),
      spin_(spin),
      executor_(executor),
      function_(function),
      trace_(trace),
      activity_(activity),
      track_(trace.track("units", caps_.name)),
      storage_(storage) {
  worker_ = std::thread([this] {
    become_worker();
    work();
  });
  pinned_ = pin_thread(worker_.native_handle(), caps_.os_cpu);
}

HostUnit::~HostUnit() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    queued_.fetch_add(1, std::memory_order_relaxed);  // ends the spinning
  }
  work_available_.notify_one();
  worker_.join();
}

Task<Result<Graph>> HostUnit::load(GraphSpec spec) {
  Graph graph{next_graph_++, spec.calls.size() * sizeof(KernelCall)};
  graphs_.emplace(graph.id, std::move(spec));
  co_return Result<Graph>(graph);
}

void HostUnit::unload(Graph graph) {
  const std::size_t erased = graphs_.erase(graph.id);
  VITRO_CHECK(erased == 1, "unload of a graph that is not loaded");
}

void HostUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  VITRO_CHECK(!chain.empty(), "an empty chain was submitted");
  submit({&chain, nullptr, &done, 0, {}});
}

void HostUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  const auto spec = graphs_.find(graph.id);
  VITRO_CHECK(spec != graphs_.end(), "launch of a graph that is not loaded");
  auto bound = std::make_unique<Chain>(bind(spec->second, bindings));
  const Chain* chain = bound.get();
  submit({chain, std::move(bound), &done, 0, {}});
}

void HostUnit::submit(Job job) {
  if (storage_ == nullptr) return enqueue(std::move(job));
  own_.push_back(std::move(job));
}

// One call, so that what has completed meanwhile is seen between two of them.
bool HostUnit::carry_out() {
  if (own_.empty()) return false;
  if (storage_->busy() || in_flight_.load(std::memory_order_acquire) > 0) {
    for (; !own_.empty(); own_.pop_front()) enqueue(std::move(own_.front()));
    return false;
  }
  if (run_call(own_.front())) return true;
  Job job = std::move(own_.front());
  own_.pop_front();
  finish(std::move(job));
  return true;
}

void HostUnit::enqueue(Job job) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(job));
    queued_.fetch_add(1, std::memory_order_relaxed);
  }
  work_available_.notify_one();
}

bool HostUnit::next(Job& job) {
  if (spin_.count() > 0) {
    const Picoseconds until = executor_.now() + spin_;
    while (queued_.load(std::memory_order_relaxed) == 0 && executor_.now() < until) pause_cpu();
  }
  std::unique_lock lock(mutex_);
  work_available_.wait(lock, [this] { return stop_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  job = std::move(queue_.front());
  queue_.pop_front();
  queued_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void HostUnit::work() {
  for (Job job; next(job);) {
    while (run_call(job)) {}
    finish(std::move(job));
    // After the post: an idle unit has nothing that the executor has not seen.
    in_flight_.fetch_sub(1, std::memory_order_release);
  }
}

// False when the chain is over.
bool HostUnit::run_call(Job& job) {
  const Picoseconds begin = executor_.now();
  try {
    const KernelCall& call = (*job.chain)[job.call++];
    Outcome outcome = function_.execute(call);
    if (trace_.enabled()) trace_.span(track_, begin, executor_.now(), to_string(call.op), describe(call));
    if (outcome.index() != 0) job.result.outcomes.push_back(std::move(outcome));
  } catch (...) {
    job.result.error = std::current_exception();
  }
  activity_.unit_busy(index_, begin, executor_.now());
  return !job.result.error && job.call < job.chain->size();
}

void HostUnit::finish(Job job) {
  job.bound.reset();  // its leases go before the waiter may look at the budget
  job.done->complete(std::move(job.result));
}

}  // namespace vitro
