#include "engine/virtual/virtual_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/file.hpp"

namespace vitro {
namespace {

class EchoFunction final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    order.push_back(call.slice.first);
    if (call.is<ops::Sample>()) return TokenChoice{{static_cast<std::int32_t>(call.slice.first)}};
    return {};
  }
  std::vector<std::uint32_t> order;
};

// Keeps spans as they come.
class SpanList final : public TraceSink {
 public:
  struct Span {
    std::string track;
    std::int64_t begin, end;
    friend bool operator==(const Span&, const Span&) = default;
  };
  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view name) override {
    names.emplace_back(name);
    return TrackId(names.size() - 1);
  }
  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view, std::string_view) override {
    spans.push_back({names[static_cast<std::size_t>(track)], begin.count(), end.count()});
  }
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view, std::string_view, std::string_view) override {}
  std::vector<std::string> names;
  std::vector<Span> spans;
};

KernelCall call_of(Op op, std::uint32_t id) {
  KernelCall call;
  call.op = op;
  call.slice = {id, 1};
  return call;
}

VirtualMachineSpec spec_of(int units) {
  VirtualMachineSpec spec;
  for (int i = 0; i < units; ++i) {
    UnitCaps caps;
    caps.id = UnitId(i);
    caps.name = "cpu" + std::to_string(i);
    spec.units.push_back(caps);
  }
  return spec;
}

Task<void> note(std::vector<int>* order, int id) {
  order->push_back(id);
  co_return;
}

Task<void> spawn_ten(VirtualExecutor* executor, std::vector<int>* order) {
  TaskScope scope(*executor);
  for (int i = 0; i < 10; ++i) scope.spawn(note(order, i));
  co_await scope.join();
}

std::vector<int> order_of_ten(std::optional<std::uint64_t> shuffle) {
  VirtualExecutor executor(shuffle);
  std::vector<int> order;
  Task<void> task = spawn_ten(&executor, &order);
  executor.run(task);
  return order;
}

TEST(VirtualExecutor, events_of_one_time_leave_in_the_order_they_came) {
  EXPECT_EQ(order_of_ten(std::nullopt), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(VirtualExecutor, a_shuffle_changes_the_order_and_its_seed_repeats_it) {
  const std::vector<int> first = order_of_ten(1);
  EXPECT_EQ(first, order_of_ten(1));
  EXPECT_NE(first, order_of_ten(2));
  EXPECT_NE(first, order_of_ten(std::nullopt));
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), order_of_ten(std::nullopt).begin()));
}

struct Last {
  Executor& executor;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) const { executor.post_last(handle); }
  void await_resume() const {}
};

Task<void> note_last(Executor* executor, std::vector<int>* order, int id) {
  co_await Last{*executor};
  order->push_back(id);
}

Task<void> spawn_last_first(VirtualExecutor* executor, std::vector<int>* order) {
  TaskScope scope(*executor);
  scope.spawn(note_last(executor, order, 99));
  for (int i = 0; i < 10; ++i) scope.spawn(note(order, i));
  co_await scope.join();
}

TEST(VirtualExecutor, whoever_asks_to_be_last_comes_behind_all_others_of_the_time) {
  for (const std::optional<std::uint64_t> shuffle : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(3)}) {
    VirtualExecutor executor(shuffle);
    std::vector<int> order;
    Task<void> task = spawn_last_first(&executor, &order);
    executor.run(task);
    ASSERT_EQ(order.size(), 11u);
    EXPECT_EQ(order.back(), 99);
  }
}

Task<void> run_call(Machine* machine, std::size_t unit, std::uint32_t id, std::vector<std::pair<std::uint32_t, std::int64_t>>* ends) {
  co_await machine->units[unit]->run(call_of(ops::Add{}, id));
  ends->emplace_back(id, machine->clock.now().count());
}

Task<void> queue_three_on_one(Machine* machine, std::vector<std::pair<std::uint32_t, std::int64_t>>* ends) {
  TaskScope scope(machine->executor);
  scope.spawn(run_call(machine, 0, 10, ends));
  scope.spawn(run_call(machine, 0, 20, ends));
  scope.spawn(run_call(machine, 1, 5, ends));
  co_await scope.join();
}

TEST(VirtualMachine, a_unit_is_one_queue_and_units_run_side_by_side) {
  VirtualMachineSpec spec = spec_of(2);
  spec.price = [](const UnitCaps&, const KernelCall& call) { return Picoseconds(call.slice.first); };
  EchoFunction function;
  SpanList trace;
  VirtualMachine host(spec, function, trace);
  std::vector<std::pair<std::uint32_t, std::int64_t>> ends;
  host.run(queue_three_on_one(&host.machine(), &ends));
  EXPECT_EQ(ends, (std::vector<std::pair<std::uint32_t, std::int64_t>>{{5, 5}, {10, 10}, {20, 30}}));
  EXPECT_EQ(trace.spans, (std::vector<SpanList::Span>{{"cpu0", 0, 10}, {"cpu0", 10, 30}, {"cpu1", 0, 5}}));
}

Task<void> chain_of_three(Machine* machine, std::vector<std::int32_t>* tokens) {
  Chain chain{call_of(ops::Sample{}, 4), call_of(ops::Add{}, 5), call_of(ops::Sample{}, 6)};
  const RunResult result = co_await machine->units[0]->run(std::move(chain));
  for (const Outcome& outcome : result.outcomes) tokens->push_back(std::get<TokenChoice>(outcome).tokens[0]);
}

TEST(VirtualMachine, a_chain_runs_in_order_and_only_calls_with_an_outcome_have_one) {
  EchoFunction function;
  NullTrace trace;
  VirtualMachine host(spec_of(1), function, trace);
  std::vector<std::int32_t> tokens;
  host.run(chain_of_three(&host.machine(), &tokens));
  EXPECT_EQ(function.order, (std::vector<std::uint32_t>{4, 5, 6}));
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{4, 6}));
  EXPECT_EQ(host.machine().clock.now(), Picoseconds(3000));
}

class FailingFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { throw RunError("no weights"); }
};

Task<void> run_and_catch(Machine* machine, std::string* message) {
  try {
    co_await machine->units[0]->run(call_of(ops::Add{}, 1));
  } catch (const RunError& error) {
    *message = error.what();
  }
}

TEST(VirtualMachine, a_kernel_that_throws_is_rethrown_where_it_is_awaited) {
  FailingFunction function;
  NullTrace trace;
  VirtualMachine host(spec_of(1), function, trace);
  std::string message;
  host.run(run_and_catch(&host.machine(), &message));
  EXPECT_EQ(message, "no weights");
}

Task<void> read_into(Machine* machine, FileId file, Lease into, IoResult* result) {
  ReadRequest request{{file, 100, 50}, into, 7};
  *result = co_await machine->storage.read(std::move(request));
}

TEST(VirtualMachine, a_read_brings_the_bytes_at_its_price) {
  const std::string path = "vitro-virtual-" + std::to_string(::getpid());
  {
    OutputFile file(path);
    std::string text(200, 'a');
    text[100] = 'X';
    file.write(text);
    file.commit();
  }
  VirtualMachineSpec spec = spec_of(1);
  spec.read_price = [](const ReadRequest& request) { return Picoseconds(static_cast<std::int64_t>(request.from.length) * 10); };
  EchoFunction function;
  NullTrace trace;
  VirtualMachine host(spec, function, trace);
  const Lease into = host.machine().memory.lease(100, Placement::dram, Region::staging).value_or_throw();
  const FileId file = host.machine().storage.open(path).value_or_throw();
  std::filesystem::remove(path);
  IoResult result;
  host.run(read_into(&host.machine(), file, into, &result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.done, 50u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(into.data()) + 7, 2), "Xa");
  EXPECT_EQ(host.machine().clock.now(), Picoseconds(500));
}

// An operand's bytes stay while a call on them is in flight, whatever the policy drops meanwhile.
class ReadsItsOperand final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    seen = call.in[0].data()[0];
    return {};
  }
  std::byte seen{};
};

Task<void> run_on(Machine* machine, View operand) {
  KernelCall call = call_of(ops::Add{}, 0);
  call.in.push_back(std::move(operand));
  co_await machine->units[0]->run(std::move(call));
}

Task<void> drop_in_flight(Machine* machine, Bytes* used_in_flight) {
  TaskScope scope(machine->executor);
  {
    View view;
    view.memory = machine->memory.lease(kPageSize, Placement::dram, Region::activation).value_or_throw();
    view.data()[0] = std::byte{42};
    scope.spawn(run_on(machine, std::move(view)));
  }
  co_await sleep_until(machine->executor, Picoseconds(500));  // the call takes 1000
  *used_in_flight = machine->memory.budget(Placement::dram).used;
  co_await scope.join();
}

TEST(VirtualMachine, an_operation_in_flight_holds_its_operands) {
  ReadsItsOperand function;
  NullTrace trace;
  VirtualMachine host(spec_of(1), function, trace);
  Bytes used_in_flight = 0;
  host.run(drop_in_flight(&host.machine(), &used_in_flight));
  EXPECT_EQ(function.seen, std::byte{42});
  EXPECT_EQ(used_in_flight, kPageSize);
  EXPECT_EQ(host.machine().memory.budget(Placement::dram).used, 0u);
}

Task<void> launch_with(Machine* machine, Batch batch, std::size_t views, const GraphSpec* spec) {
  GraphSpec copy = *spec;
  const Graph graph = (co_await machine->units[0]->load(std::move(copy))).value_or_throw();
  Bindings bindings;
  bindings.views.resize(views);
  bindings.batch = std::move(batch);
  co_await machine->units[0]->launch(graph, std::move(bindings));
}

TEST(Graphs, binding_fills_slots_and_batch_and_leaves_fixed_views_alone) {
  GraphSpec spec;
  KernelCall call = call_of(ops::Add{}, 1);
  View fixed, slot;
  fixed.offset = 11;
  slot.slot = 2;
  call.in = {fixed, slot};
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, 1});
  spec.calls = {call};
  Bindings bindings;
  bindings.views.resize(2);
  bindings.views[1].offset = 22;
  Chain bound = bind(spec, bindings);
  EXPECT_EQ(bound[0].in[0].offset, 11u);
  EXPECT_EQ(bound[0].in[1].offset, 22u);
  EXPECT_EQ(bound[0].batch, call.batch);
  bindings.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{5, 6});
  EXPECT_EQ(bind(spec, bindings)[0].batch, bindings.batch);
}

TEST(GraphsDeathTest, a_missing_binding_is_our_bug) {
  GraphSpec spec;
  spec.calls = {call_of(ops::Add{}, 1)};
  View slot;
  slot.slot = 3;
  spec.calls[0].in.push_back(slot);
  EchoFunction function;
  NullTrace trace;
  VirtualMachine host(spec_of(1), function, trace);
  EXPECT_DEATH(host.run(launch_with(&host.machine(), nullptr, 2, &spec)), "without one of its bindings");
}

TEST(Describe, names_layer_expert_slice_and_rows) {
  KernelCall call = call_of(ops::Matmul{}, 128);
  call.slice.count = 64;
  call.layer = 3;
  call.expert = 1;
  EXPECT_EQ(describe(call), "layer 3, expert 1, 128+64");
  EXPECT_EQ(describe(KernelCall{}), "");
}

}  // namespace
}  // namespace vitro
