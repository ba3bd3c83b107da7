#include "engine/host/host_unit.hpp"

namespace vitro {

HostUnit::HostUnit(UnitCaps caps, std::size_t index, Picoseconds spin, HostExecutor& executor, Function& function, TraceSink& trace,
                   Activity& activity, const Device* storage)
    : caps_(std::move(caps)),
      index_(index),
      executor_(executor),
      function_(function),
      trace_(trace),
      activity_(activity),
      track_(trace.track("units", caps_.name)),
      storage_(storage),
      worker_(executor, spin, [this](Job job) {
        while (run_call(job)) {
        }
        finish(std::move(job));
      }) {
  pinned_ = worker_.pin(caps_.os_cpu);
}

Task<Result<Graph>> HostUnit::load(GraphSpec spec) { co_return Result<Graph>(graphs_.add(std::move(spec))); }

void HostUnit::unload(Graph graph) { graphs_.remove(graph); }

void HostUnit::submit(const Chain& chain, Completion<RunResult>& done) {
  VITRO_CHECK(!chain.empty(), "an empty chain was submitted");
  submit({&chain, nullptr, &done, 0, {}});
}

void HostUnit::submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) {
  auto bound = graphs_.bound(graph, bindings);
  const Chain* chain = bound.get();
  submit({chain, std::move(bound), &done, 0, {}});
}

void HostUnit::submit(Job job) {
  if (storage_ == nullptr) return worker_.post(std::move(job));
  own_.push_back(std::move(job));
}

// One call, so that what has completed meanwhile is seen between two of them.
bool HostUnit::carry_out() {
  if (own_.empty()) return false;
  if (storage_->busy() || worker_.busy()) {
    for (; !own_.empty(); own_.pop_front()) worker_.post(std::move(own_.front()));
    return false;
  }
  if (run_call(own_.front())) return true;
  Job job = std::move(own_.front());
  own_.pop_front();
  finish(std::move(job));
  return true;
}

// False when the chain is over.
bool HostUnit::run_call(Job& job) {
  const Picoseconds begin = executor_.now();
  try {
    const KernelCall& call = (*job.chain)[job.call++];
    Outcome outcome = function_.execute(call);
    if (trace_.enabled()) trace_.kernel(track_, begin, executor_.now(), call);
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
