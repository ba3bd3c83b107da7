#include "engine/host/host_unit.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "engine/host/host_machine.hpp"

namespace vitro {
namespace {

KernelCall call_of(Op op) {
  KernelCall call;
  call.op = op;
  return call;
}

HostOptions two_units() {
  HostOptions options;
  options.units = 2;
  options.share_cores = true;
  return options;
}

// Notes which threads execute; a call may take a while.
class ThreadNotes final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    {
      const std::scoped_lock lock(mutex_);
      threads_[call.layer].push_back(std::this_thread::get_id());
    }
    if (call.is<ops::Glu>()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return {};
  }
  std::vector<std::thread::id> of(std::int16_t layer) { return threads_[layer]; }

 private:
  std::mutex mutex_;
  std::map<std::int16_t, std::vector<std::thread::id>> threads_;  // by the layer of the call
};

Chain chain_of(std::int16_t layer, int calls) {
  Chain chain;
  for (int i = 0; i < calls; ++i) {
    chain.push_back(call_of(ops::Glu{}));
    chain.back().layer = layer;
  }
  return chain;
}

Task<void> run_on(ComputeUnit* unit, Chain chain) { co_await unit->run(std::move(chain)); }

Task<void> run_side_by_side(Machine* machine) {
  TaskScope scope(machine->executor);
  scope.spawn(run_on(machine->units[0], chain_of(0, 2)));
  scope.spawn(run_on(machine->units[1], chain_of(1, 2)));
  co_await scope.join();
}

TEST(HostUnit, the_policy_thread_runs_the_chains_of_its_own_core) {
  const std::thread::id here = std::this_thread::get_id();
  for (const bool computes : {true, false}) {
    ThreadNotes function;
    NullTrace trace;
    HostOptions options = two_units();
    options.policy_computes = computes;
    const auto host = make_host_machine(options, function, trace);
    host->run(run_side_by_side(&host->machine()));
    ASSERT_EQ(function.of(0).size(), 2u);
    EXPECT_EQ(function.of(0)[0] == here && function.of(0)[1] == here, computes);
    EXPECT_NE(function.of(1)[0], here);
  }
}

Task<void> answer_in_between(Machine* machine, std::vector<std::string>* order) {
  TaskScope scope(machine->executor);
  const auto note = [](Machine* m, std::size_t unit, int calls, std::vector<std::string>* said, std::string what) -> Task<void> {
    co_await m->units[unit]->run(chain_of(static_cast<std::int16_t>(unit), calls));
    said->push_back(what);
  };
  scope.spawn(note(machine, 0, 8, order, "own"));
  scope.spawn(note(machine, 1, 2, order, "other"));
  co_await scope.join();
}

// The other unit's answer is seen between two calls of the policy's own chain, not when that is over. A machine that is busy with something
// else may run the other unit's thread too late.
TEST(HostUnit, answers_are_seen_between_two_calls_of_the_policy_thread) {
  ThreadNotes function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  const std::vector<std::string> wanted{"other", "own"};
  std::vector<std::string> order;
  for (int tries = 0; tries < 50 && order != wanted; ++tries) {
    order.clear();
    host->run(answer_in_between(&host->machine(), &order));
  }
  EXPECT_EQ(order, wanted);
}

Task<void> compute_beside_a_read(Machine* machine, std::string path) {
  const FileId file = machine->storage.open(path).value_or_throw();
  const Lease memory = machine->memory.lease(kPageSize, Placement::dram, Region::staging).value_or_throw();
  TaskScope scope(machine->executor);
  scope.spawn([](Machine* m, FileId id, Lease to) -> Task<void> {
    ReadRequest request{{id, 0, kPageSize}, to, 0, m->units[0]->caps().id};
    const IoResult result = co_await m->storage.read(std::move(request));
    result.status.or_throw();
  }(machine, file, memory));
  scope.spawn(run_on(machine->units[0], chain_of(0, 1)));
  co_await scope.join();
}

// The policy thread has to take completions: while storage is busy the worker computes.
TEST(HostUnit, beside_reads_the_worker_computes) {
  ThreadNotes function;
  NullTrace trace;
  const auto host = make_host_machine(two_units(), function, trace);
  const std::string path = "policy_thread_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(kPageSize, 'x');
  host->run(compute_beside_a_read(&host->machine(), path));
  std::filesystem::remove(path);
  ASSERT_EQ(function.of(0).size(), 1u);
  EXPECT_NE(function.of(0)[0], std::this_thread::get_id());
}

}  // namespace
}  // namespace vitro
