#include "engine/host/probes/probe_interrupt.hpp"

#include "engine/host/probes/probe_calls.hpp"
#include "engine/machine/task_scope.hpp"

namespace vitro {
namespace {

struct Bench {
  Machine& machine;
  Chain work, small;
  bool stop = false;
  std::size_t next = 0;  // of the calls that are handed over one by one
  Picoseconds end{0};    // of the last chain
  InterruptTimes times;
};

Task<void> run_work(Bench* bench) {
  Chain chain = bench->work;
  const RunResult result = co_await bench->machine.units.front()->run(std::move(chain));
  bench->end = bench->machine.clock.now();
  bench->stop = true;
  result.status.or_throw();
}

Task<void> keep_asking(Bench* bench) {
  while (!bench->stop) {
    Chain chain = bench->small;
    const Picoseconds begin = bench->machine.clock.now();
    const RunResult result = co_await bench->machine.units.back()->run(std::move(chain));
    result.status.or_throw();
    if (!bench->stop) bench->times.trips.push_back(to_seconds(bench->machine.clock.now() - begin));
  }
}

Task<void> hand_over(Bench* bench) {
  while (bench->next < bench->work.size()) {
    Chain chain{bench->work[bench->next++]};
    const RunResult result = co_await bench->machine.units.front()->run(std::move(chain));
    result.status.or_throw();
  }
}

Task<double> timed_chain(Bench* bench, bool disturb) {
  bench->stop = false;
  const Picoseconds begin = bench->machine.clock.now();
  TaskScope scope(bench->machine.executor);
  scope.spawn(run_work(bench));
  if (disturb) scope.spawn(keep_asking(bench));
  co_await scope.join();
  co_return to_seconds(bench->end - begin);
}

Task<double> timed_calls(Bench* bench) {
  bench->next = 0;
  const Picoseconds begin = bench->machine.clock.now();
  TaskScope scope(bench->machine.executor);
  for (int lane = 0; lane < 2; ++lane) scope.spawn(hand_over(bench));
  co_await scope.join();
  co_return to_seconds(bench->machine.clock.now() - begin) / static_cast<double>(bench->work.size());
}

Task<void> measure(Bench* bench, std::uint32_t repetitions) {
  InterruptTimes& times = bench->times;
  const bool others = bench->machine.units.size() > 1;
  for (std::uint32_t i = 0; i <= repetitions; ++i) {
    const double alone = co_await timed_chain(bench, false), queued = co_await timed_calls(bench);
    const std::size_t before = times.trips.size();
    const double disturbed = others ? co_await timed_chain(bench, true) : 0;
    if (i == 0) {  // touched every page, filled caches and scratch memory
      times.trips.clear();
      continue;
    }
    times.alone.push_back(alone);
    times.queued.push_back(queued);
    if (!others) continue;
    times.disturbed.push_back(disturbed);
    times.answers.push_back(static_cast<double>(times.trips.size() - before));
  }
}

}  // namespace

InterruptTimes probe_interrupts(MachineHost& host, const InterruptProbe& probe) {
  if (probe.calls == 0) throw ConfigError("probe: calls: 0 (expected 1 or more)");
  Machine& machine = host.machine();
  CallShape small;
  small.op = ops::Add{};
  small.columns = 16;
  Bench bench{machine, {}, make_chains(machine.memory, small, 1, 1).front()};
  const KernelCall call = make_chains(machine.memory, probe.work, 1, 1).front().front();
  bench.work.assign(probe.calls, call);
  host.run(measure(&bench, probe.repetitions));
  return std::move(bench.times);
}

}  // namespace vitro
