// Laws of the CPU as a whole: unlike cores, handing over, joining, and what of an operand is young enough to be in a cache.
#include <gmock/gmock.h>

#include "engine/kernels/hexagon/panels.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tiles.hpp"
#include "sim/work.hpp"
#include "tests/sim/simulation.hpp"

namespace vitro::sim {
namespace {

// Big: 2 multiply-adds per cycle at 2 GHz. Little: 1 per cycle at 1 GHz. 4 : 1, as round_device has it otherwise.
SimOptions uneven_options(const std::string& wake_up = "0 us", const std::string& spin = "0 us") {
  SimOptions options = round_options();
  Node big = options.device.find_path("cpu.clusters")->items()[0];
  for (const auto& [key, value] : {std::pair("wake_up", wake_up), std::pair("spin", spin), std::pair("cores", std::string("1"))}) {
    big.set(key, Node::scalar(value));
  }
  Node little = big;
  little.set("class", Node::scalar("little"));
  big.set("clock", Node::scalar("2 GHz"));
  big.set("macs_per_cycle_otherwise", Node::scalar("2"));
  options.device.set_path("cpu.clusters", Node::list({big, little}));
  return options;
}

Task<void> one_call(ComputeUnit* unit, double macs) { return run_chain(unit, {test_call(macs, 0)}); }

Picoseconds split(double on_big, double on_little) {
  Simulation simulation(uneven_options());
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  parts.push_back(one_call(machine.units[0], on_big));
  parts.push_back(one_call(machine.units[1], on_little));
  simulation.run(together(&machine, std::move(parts)));
  return simulation.now();
}

TEST(Cpu, work_split_evenly_over_unlike_cores_ends_with_the_slow_one) {
  EXPECT_EQ(split(20'000, 20'000), 20 * kUs);
  EXPECT_EQ(split(32'000, 8'000), 8 * kUs);  // in proportion to their speeds: both end together
  EXPECT_EQ(split(40'000, 0), 10 * kUs);     // the little core helps, if it gets little enough
}

Task<void> twice(Machine* machine, ComputeUnit* unit, Picoseconds pause) {
  co_await one_call(unit, 2000);
  co_await sleep_until(machine->executor, machine->clock.now() + pause);
  co_await one_call(unit, 2000);
}

Picoseconds two_calls(const std::string& spin, Picoseconds pause) {
  Simulation simulation(uneven_options("5 us", spin));
  Machine& machine = simulation.machine();
  simulation.run(twice(&machine, machine.units[1], pause));
  return simulation.now() - pause;
}

TEST(Cpu, a_worker_that_still_polls_needs_no_wake_up) {
  EXPECT_EQ(two_calls("20 us", 19 * kUs), 5 * kUs + 4 * kUs);
  EXPECT_EQ(two_calls("20 us", 21 * kUs), 10 * kUs + 4 * kUs);
  EXPECT_EQ(two_calls("0 us", 1 * kUs), 10 * kUs + 4 * kUs);
}

Task<void> join_rounds(Machine* machine, std::size_t cores, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    std::vector<Task<void>> parts;
    for (std::size_t core = 0; core < cores; ++core) {
      machine->clock.charge(PolicyWork::submit, 1);
      parts.push_back(one_call(machine->units[core], 10'000));
    }
    co_await together(machine, std::move(parts));
  }
}

// What a step pays for being split: a submission per core on the policy's core, one wake-up and one hand-back in all.
TEST(Cpu, a_barrier_costs_submissions_one_wake_up_and_one_hand_back) {
  const auto time = [](std::size_t cores, const std::vector<std::string>& costs) {
    Simulation simulation(round_options(costs));
    simulation.run(join_rounds(&simulation.machine(), cores, 10));
    return simulation.now() / 10;
  };
  const std::vector<std::string> free{"cpu.submit_cycles=0"}, paid{"cpu.submit_cycles=0", "core.wake_up=5 us", "core.hand_back=1 us"};
  EXPECT_EQ(time(2, free), 10 * kUs);
  EXPECT_EQ(time(2, paid), 16 * kUs);
  EXPECT_EQ(time(2, {"cpu.submit_cycles=1000"}) - time(1, {"cpu.submit_cycles=1000"}), 1 * kUs);
}

Task<void> unequal_parts(Machine* machine, std::vector<std::uint32_t> lengths) {
  std::vector<Task<void>> parts;
  for (std::size_t core = 0; core < lengths.size(); ++core) parts.push_back(one_call(machine->units[core], lengths[core]));
  co_await together(machine, std::move(parts));
}

// Each part that arrives takes the policy's core for a while; parts that come early do so behind those that still work.
TEST(Cpu, a_barrier_takes_in_the_result_of_each_part) {
  const auto time = [](std::vector<std::uint32_t> lengths, const std::string& cycles) {
    Simulation simulation(round_options({"cpu.barrier_cycles=" + cycles, "core.cores=3"}));
    simulation.run(unequal_parts(&simulation.machine(), std::move(lengths)));
    return simulation.now();
  };
  EXPECT_EQ(time({10'000, 10'000, 10'000}, "0"), 10 * kUs);
  for (const int cores : {1, 2, 3}) {
    EXPECT_EQ(time(std::vector<std::uint32_t>(static_cast<std::size_t>(cores), 10'000), "1000"), (10 + cores) * kUs) << cores;
  }
  // The policy shares its core with the first part, which ends that much later; the others wait for nobody.
  EXPECT_EQ(time({10'000, 2'000, 4'000}, "1000"), (10 + 2 + 1) * kUs);
  EXPECT_EQ(time({1'000, 4'000, 10'000}, "1000"), (10 + 1) * kUs);
}

Task<void> one_after_the_other(ComputeUnit* unit, int calls, double macs) {
  for (int i = 0; i < calls; ++i) co_await one_call(unit, macs);
}

SimOptions with_wake_costs(const std::string& costs) {
  SimOptions options = round_options();
  options.device.set_path("cpu.wake_costs", parse_yaml("{kind: measured, source: test, " + costs + "}", "test.yaml"));
  return options;
}

TEST(Cpu, wake_costs_that_nobody_knows_are_refused) { EXPECT_THROW(Simulation{with_wake_costs("magic: 2")}, ConfigError); }

// The first core has 100 us of work in one call; the other answers twice in that time.
TEST(Cpu, a_policy_that_wakes_takes_time_from_the_call_beside_it) {
  const auto time = [](const std::string& costs) {
    Simulation simulation(with_wake_costs(costs));
    Machine& machine = simulation.machine();
    std::vector<Task<void>> parts;
    parts.push_back(one_call(machine.units[0], 100'000));
    parts.push_back(one_after_the_other(machine.units[1], 2, 20'000));
    simulation.run(together(&machine, std::move(parts)));
    return simulation.now();
  };
  EXPECT_EQ(time("page_fault_cycles: 9"), 100 * kUs);
  EXPECT_EQ(time("interrupt_cost_us: 3, interrupt_latency_us: 7"), 106 * kUs);
  EXPECT_EQ(time("interrupt_cost_us: 3, interrupt_latency_us: 80"), 120 * kUs);  // the second one found a core at rest
}

// A policy that computes itself looks at answers when a call ends, and pays for each of them there.
TEST(Cpu, a_policy_that_computes_sees_answers_between_two_calls) {
  const auto time = [](std::vector<double> own, const std::string& costs) {
    Simulation simulation(with_wake_costs(costs));
    Machine& machine = simulation.machine();
    Chain chain;
    for (const double macs : own) chain.push_back(test_call(macs, 0));
    std::vector<Task<void>> parts;
    parts.push_back(run_chain(machine.units[0], std::move(chain)));
    parts.push_back(one_after_the_other(machine.units[1], 2, 20'000));
    simulation.run(together(&machine, std::move(parts)));
    return simulation.now();
  };
  const std::string costs = "answer_between_calls_us: 3, interrupt_cost_us: 50, interrupt_latency_us: 70";
  EXPECT_EQ(time({100'000}, costs), 120 * kUs);                // the first answer is seen at 100
  EXPECT_EQ(time({50'000, 50'000}, costs), 103 * kUs);         // at 50; the second one comes at 70 and is seen when the chain ends
  EXPECT_EQ(time({30'000, 30'000, 30'000}, costs), 96 * kUs);  // at 30, and the one that comes at 50 at 63
}

TEST(Cpu, an_answer_of_the_policys_own_core_delays_what_waits_there) {
  Simulation simulation(with_wake_costs("switch_cost_us: 2, interrupt_cost_us: 9"));
  Machine& machine = simulation.machine();
  std::vector<Task<void>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(one_call(machine.units[0], 10'000));
  simulation.run(together(&machine, std::move(parts)));
  EXPECT_EQ(simulation.now(), 22 * kUs);
}

class FixedModel final : public hw::ComputeModel {
 public:
  const hw::DispatchCosts& dispatch() const override { return dispatch_; }
  hw::KernelCost kernel(std::string_view variant, std::string_view format) override {
    asked.push_back(std::string(variant) + "." + std::string(format));
    return {0, asked.back() == priced};
  }
  void submit(const hw::Work&, hw::Callback) override {}
  void preempt(Picoseconds) override {}
  Hertz clock() const override { return {1e9}; }

  std::string priced;  // the one entry of its table
  std::vector<std::string> asked;

 private:
  hw::DispatchCosts dispatch_;
};

View view_of(Machine& machine, std::array<std::uint32_t, 3> shape, Format format, Region region) {
  View view;
  view.memory = machine.memory.lease(Bytes{shape[0]} * shape[1] * 4, Placement::dram, region).value_or_throw();
  view.shape = shape;
  view.format = format;
  return view;
}

TEST(Work, activations_are_recent_and_weights_are_not) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kFloat;
  call.in.push_back(view_of(simulation.machine(), {64, 32, 0}, Format::f32, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {4, 32, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {4, 64, 0}, Format::f32, Region::activation));
  const hw::Work product = builder.build(call);
  EXPECT_EQ(product.weight_bytes, 64u * 32 * 4);
  EXPECT_EQ(product.recent_read_bytes, 4u * 32 * 4);
  EXPECT_EQ(product.recent_written_bytes, 4u * 64 * 4);
  EXPECT_EQ(product.read_bytes, product.weight_bytes + product.recent_read_bytes);

  call.out[0] = view_of(simulation.machine(), {4, 64, 0}, Format::f32, Region::kv);
  EXPECT_EQ(builder.build(call).recent_written_bytes, 0u);
}

TEST(Work, a_table_may_price_an_operator_apart_from_its_format) {
  Simulation simulation(round_options());
  FixedModel model;
  model.priced = "int8.q8_0.rows";
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {64, 32, 0}, Format::q8_0, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 32, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  EXPECT_EQ(builder.build(call).reused_bytes, 64u * 34);
  EXPECT_EQ(model.asked, std::vector<std::string>{"int8.q8_0.rows"});
  call.in[0].layout = Layout::tiled;
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.q8_0");
  call.in[0].format = Format::q4_0;
  call.in[0].layout = Layout::lut;
  model.priced = "int8.q4_0.lut";
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.q4_0.lut");
  EXPECT_EQ(builder.unpriced(), std::set<std::string>{"int8.q8_0 on big"});  // not there at all, and the result says so
}

// A table that unpacks the format prices it; one that does not prices the attention of f16, with the format's own bytes, and says so.
TEST(Work, attention_has_the_price_of_its_keys_and_values) {
  Simulation simulation(round_options());
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  KernelCall call;
  call.op = ops::Attention{};
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, 9});
  for (const Format format : {Format::int8_fp8, Format::int4_e5m2}) {
    call.in = {view_of(simulation.machine(), {1, 8, 64}, Format::f32, Region::activation),
               view_of(simulation.machine(), {4, 16, 64}, format, Region::kv),
               view_of(simulation.machine(), {1, 1, 0}, Format::index32, Region::activation)};
    call.out = {view_of(simulation.machine(), {1, 8, 64}, Format::f32, Region::activation)};
    const std::string name = "float." + std::string(to_string(format)) + ".attention";
    FixedModel known, unknown;
    known.priced = name;
    unknown.priced = "float.f16.attention";
    WorkBuilder priced(known, "big", counts), as_f16(unknown, "big", counts);
    const hw::Work work = priced.build(call);
    EXPECT_EQ(work.conversions, 2u * 4 * 10 * 64) << "each key and value once for the queries that share it";
    EXPECT_EQ(work.read_bytes, 4u * 10 * kv_pair_bytes(format, 64) + 8 * 64 * 4 + 2 * 4 * 4) << "keys and values, queries, block tables";
    EXPECT_EQ(known.asked.back(), name);
    EXPECT_TRUE(priced.unpriced().empty());
    EXPECT_EQ(as_f16.build(call).read_bytes, work.read_bytes);
    EXPECT_EQ(unknown.asked.back(), "float.f16.attention");
    EXPECT_EQ(as_f16.unpriced(), std::set<std::string>{name + " on big (as f16)"});
  }
}

// Codes of eight bits run q8_0's loop, and a row's zero point is one of its blocks': their prices stand in, and the result says so.
TEST(Work, formats_without_a_price_take_that_of_the_same_loop) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {64, 64, 0}, Format::w(8, 64, 'z'), Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  call.in[0].layout = Layout::tiled;
  model.priced = "int8.q8_0";
  builder.build(call);
  EXPECT_EQ(model.asked, (std::vector<std::string>{"int8.w8g64z", "int8.q8_0"}));
  call.in[0].format = Format::w(4, 64, "zr");
  model.priced = "int8.w4g64z";
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.w4g64z");
  EXPECT_EQ(builder.unpriced(), (std::set<std::string>{"int8.w4g64zr on big (as w4g64z)", "int8.w8g64z on big (as q8_0)"}));
}

// Tables of int8 are their own kernel, on cores and, whichever way is named, on an NPU; tables are made in the call unless they are there.
TEST(Work, products_by_rounded_tables_have_a_price_of_their_own) {
  Simulation simulation(round_options());
  FixedModel model;
  model.priced = "int8_tables.w2g64z";
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8Tables;
  call.in.push_back(view_of(simulation.machine(), {64, 64, 0}, Format::w(2, 64, 'z'), Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {3, 64, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {3, 64, 0}, Format::f32, Region::activation));
  call.in[0].layout = Layout::lut;
  EXPECT_EQ(builder.build(call).table_inputs, 3u * 64);
  EXPECT_EQ(model.asked.back(), "int8_tables.w2g64z");
  call.method = Method::lut;
  call.op = ops::Matmul{.precomputed = true};
  EXPECT_EQ(builder.build(call).table_inputs, 0u);
  EXPECT_EQ(model.asked.back(), "int8_tables.w2g64z");
  call.variant = variant::kInt8;
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "lut.w2g64z");
}

// What a product reads is what the host has in memory: tiles of the cores, panels of the Hexagon, rows of the file.
TEST(Work, weights_are_as_many_bytes_as_where_they_lie) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder core(model, "big", counts), npu(model, "npu", counts, true);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {1536, 640, 0}, Format::f32, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 640, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 1536, 0}, Format::f32, Region::activation));
  View& w = call.in[0];
  for (const Format format : formats_with(Layout::lut)) {
    for (const Layout layout : {Layout::rows, Layout::tiled, Layout::lut}) {
      w.format = format;
      w.layout = layout;
      const Bytes panels = hexagon::lut_panels_bytes(hexagon::plane_form(w).value(), 1536, 640);
      EXPECT_EQ(core.build(call).weight_bytes, view_bytes(w)) << to_string(format);
      EXPECT_EQ(core.build(call).reused_bytes, view_bytes(w)) << to_string(format);
      EXPECT_EQ(npu.build(call).weight_bytes, panels) << to_string(format);
      EXPECT_EQ(npu.build(call).reused_bytes, panels) << to_string(format);
      EXPECT_EQ(npu.build(call).read_bytes, panels + 640 * 4) << to_string(format);
    }
  }
  w.format = Format::w(2, 128, 'r');
  w.layout = Layout::tiled;
  EXPECT_EQ(core.build(call).weight_bytes, 1536u * (2 + 640 * 2 / 8));
  w.format = Format::w(4, 128);  // a vendor's graph has one scale per row, whatever stands for it
  call.method = Method::native;
  EXPECT_EQ(npu.build(call).weight_bytes, 1536u * (2 + 640 * 4 / 8));
}

TEST(Work, a_slice_is_never_more_recent_than_what_it_reads) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall add;
  add.op = ops::Add{};
  for (int i = 0; i < 2; ++i) add.in.push_back(view_of(simulation.machine(), {2, 64, 0}, Format::f32, Region::activation));
  add.out.push_back(view_of(simulation.machine(), {2, 64, 0}, Format::f32, Region::activation));
  add.slice = {0, 16};
  const hw::Work work = builder.build(add);
  EXPECT_EQ(work.recent_read_bytes, work.read_bytes);
  EXPECT_EQ(work.recent_written_bytes, work.written_bytes);
  EXPECT_LT(work.read_bytes, 2u * 2 * 64 * 4);
}

}  // namespace
}  // namespace vitro::sim
