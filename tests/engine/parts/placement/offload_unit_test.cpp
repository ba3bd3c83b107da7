// Who computes what when a core hands products to an accelerator, and that order and outcomes stay those of the chain.
#include "engine/parts/placement/offload_unit.hpp"

#include <gtest/gtest.h>

#include "engine/machine/counted_machine.hpp"
#include "engine/ops/variants.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

using Log = std::vector<std::string>;

// Names are the operand's format and the layer: "core f16 3".
std::string name_of(std::string_view who, const KernelCall& call) {
  return std::string(who) + " " + std::string(call.is<ops::Matmul>() ? to_string(call.in[0].format) : to_string(call.op)) + " " +
         std::to_string(call.layer);
}

class LoggingFunction final : public Function {
 public:
  explicit LoggingFunction(Log& log) : log_(log) {}
  Outcome execute(const KernelCall& call) override {
    log_.push_back(name_of("core", call));
    if (call.is<ops::Route>()) throw RunError("no route");
    if (call.is<ops::Sample>()) return TokenChoice{{7}};
    return {};
  }

 private:
  Log& log_;
};

// Loads graphs without q4_0 only.
class PickyUnit final : public ComputeUnit {
 public:
  PickyUnit(Executor& executor, Log& log) : executor_(executor), log_(log) {
    caps_.name = "picky";
    caps_.static_graphs = true;
  }
  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }
  Task<Result<Graph>> load(GraphSpec spec) override {
    ++loads;
    if (ends_the_run) throw ConfigError("memory.budget: too small");
    for (const KernelCall& call : spec.calls) {
      if (call.in[0].format == Format::q4_0) co_return Status{Code::unsupported_shape, "no q4_0"};
    }
    enumerated.push_back(spec.keys);
    graphs_.push_back(std::move(spec));
    co_return Result<Graph>(Graph{static_cast<std::uint32_t>(graphs_.size() - 1), 0});
  }
  void unload(Graph) override {}
  int loads = 0;
  bool ends_the_run = false;
  std::vector<std::vector<std::uint32_t>> enumerated;  // by graph
  std::vector<std::uint32_t> keys;                     // of each launch with attention

 protected:
  void submit(const Chain&, Completion<RunResult>&) override { FAIL() << "a chain on a unit that runs graphs"; }
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override {
    std::string names;
    for (const KernelCall& call : bind(graphs_[graph.id], bindings)) {
      if (call.is<ops::Attention>()) keys.push_back(call.get<ops::Attention>().keys);
      EXPECT_TRUE(call.in[1].memory && call.out[0].memory);
      names += (names.empty() ? "" : ", ") + name_of("picky", call);
    }
    log_.push_back(names);
    done.complete({});
  }

 private:
  Executor& executor_;
  Log& log_;
  UnitCaps caps_;
  std::vector<GraphSpec> graphs_;
};

class OffloadUnitTest : public testing::Test {
 protected:
  OffloadUnitTest() : function_(log_) {
    VirtualMachineSpec spec;
    UnitCaps caps;
    caps.name = "cpu0";
    spec.units = {caps};
    host_ = std::make_unique<VirtualMachine>(std::move(spec), function_, trace_);
    picky_ = std::make_unique<PickyUnit>(machine().executor, log_);
    unit_ = std::make_unique<OffloadUnit>(machine(), *machine().units.front(), *picky_);
    x_ = machine().memory.lease(4096, Placement::dram, Region::activation).value_or_throw();
  }
  Machine& machine() { return host_->machine(); }

  KernelCall product(Format format, std::int16_t layer, std::uint32_t rows = 1) {
    KernelCall call;
    call.op = ops::Matmul{};
    call.layer = layer;
    call.batch = batch_;
    View weights{weights_[{format, layer}], 0, {32, 32, 0}, format};
    if (!weights.memory) {
      weights.memory = weights_[{format, layer}] = machine().memory.lease(4096, Placement::dram, Region::fixed).value_or_throw();
    }
    call.in = {std::move(weights), View{x_, 0, {rows, 32, 0}}};
    call.out = {View{x_, 2048, {rows, 32, 0}}};
    return call;
  }
  static KernelCall other(Op op, std::int16_t layer) {
    KernelCall call;
    call.op = op;
    call.layer = layer;
    return call;
  }

  static Task<void> run(ComputeUnit* unit, Chain chain, RunResult* out) { *out = co_await unit->run(std::move(chain)); }
  RunResult run(Chain chain) {
    RunResult result;
    host_->run(run(unit_.get(), std::move(chain), &result));
    return result;
  }

  Log log_;
  LoggingFunction function_;
  NullTrace trace_;
  std::unique_ptr<VirtualMachine> host_;
  std::unique_ptr<PickyUnit> picky_;
  std::unique_ptr<OffloadUnit> unit_;
  std::map<std::pair<Format, std::int16_t>, Lease> weights_;
  Lease x_;
  Batch batch_ = std::make_shared<const std::vector<SeqPos>>(1);
};

TEST_F(OffloadUnitTest, products_side_by_side_are_one_graph_and_the_rest_stays_in_order) {
  Chain chain{other(ops::RmsNorm{}, 0), product(Format::q8_0, 0), product(Format::f16, 0), other(ops::Add{}, 0), product(Format::q8_0, 1)};
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(run(chain).status.ok());
  const Log once{"core rms_norm 0", "picky q8_0 0, picky f16 0", "core add 0", "picky q8_0 1"};
  Log twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(log_, twice);
  EXPECT_EQ(picky_->loads, 2);  // one for each graph, not for each launch
}

// In front of units that count, it is not one of them itself.
TEST_F(OffloadUnitTest, a_chain_that_is_parted_counts_as_its_parts) {
  Machine both = machine();
  both.units.push_back(picky_.get());
  CountedMachine counted(both);
  OffloadUnit unit(counted.machine(), *counted.machine().units[0], *counted.machine().units[1]);
  Chain chain{other(ops::RmsNorm{}, 0), product(Format::q8_0, 0), product(Format::f16, 0), other(ops::Add{}, 0), product(Format::q8_0, 1)};
  RunResult result;
  host_->run(run(&unit, std::move(chain), &result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(counted.counts().unit_submissions, 4u) << "norm; both products of layer 0; add; the product of layer 1";
  EXPECT_EQ(counted.counts().storage_submissions, 0u);
}

TEST_F(OffloadUnitTest, what_is_refused_runs_on_the_core_from_then_on) {
  Chain chain{product(Format::q8_0, 0), product(Format::q4_0, 0), product(Format::f16, 0)};
  EXPECT_TRUE(run(chain).status.ok());
  EXPECT_EQ(log_, (Log{"picky q8_0 0", "core q4_0 0", "picky f16 0"}));
  const int loads = picky_->loads;
  EXPECT_TRUE(run(chain).status.ok());
  EXPECT_EQ(log_.size(), 6u);
  EXPECT_EQ(log_[4], "core q4_0 0");
  EXPECT_EQ(picky_->loads, loads);
}

TEST_F(OffloadUnitTest, a_load_that_ends_the_run_keeps_nobody_waiting) {
  const Chain chain{product(Format::q8_0, 0)};
  picky_->ends_the_run = true;
  EXPECT_THROW(run(chain), ConfigError);
  EXPECT_THROW(run(chain), ConfigError);
  picky_->ends_the_run = false;
  EXPECT_TRUE(run(chain).status.ok());
  EXPECT_EQ(picky_->loads, 3);
}

TEST_F(OffloadUnitTest, an_attention_block_is_one_graph_between_its_norm_and_its_sum) {
  unit_ = std::make_unique<OffloadUnit>(machine(), *machine().units.front(), *picky_, Offloaded::attention);
  KernelCall attention = product(Format::f16, 0);
  attention.op = ops::Attention{};
  Chain chain{other(ops::RmsNorm{}, 0), product(Format::q8_0, 0), std::move(attention), product(Format::f16, 0), other(ops::Add{}, 0)};
  host_->run(unit_->prepare(chain));
  EXPECT_EQ(picky_->loads, 1);
  EXPECT_TRUE(log_.empty());
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(run(chain).status.ok());
  EXPECT_EQ(picky_->loads, 1);
  EXPECT_EQ((Log{log_.begin(), log_.begin() + 3}), (Log{"core rms_norm 0", "picky q8_0 0, picky attention 0, picky f16 0", "core add 0"}));
}

// One graph, launched in the smallest shape that holds what rows see; beyond the largest one the block is the core's.
TEST_F(OffloadUnitTest, attention_is_launched_in_the_smallest_shape_that_holds_its_keys) {
  const std::vector<std::uint32_t> shapes{4, 8};
  unit_ = std::make_unique<OffloadUnit>(machine(), *machine().units.front(), *picky_, Offloaded::attention, shapes);
  const auto step = [&](std::vector<std::uint32_t> positions) {
    std::vector<SeqPos> rows;
    for (const std::uint32_t position : positions) rows.push_back({0, position});
    batch_ = std::make_shared<const std::vector<SeqPos>>(std::move(rows));
    KernelCall attention = product(Format::f16, 0, 2);
    attention.op = ops::Attention{};
    return Chain{product(Format::q8_0, 0, 2), std::move(attention), product(Format::f16, 0, 2)};
  };
  for (const std::uint32_t last : {1u, 3u, 4u, 7u}) EXPECT_TRUE(run(step({last - 1, last})).status.ok());
  EXPECT_EQ(picky_->keys, (std::vector<std::uint32_t>{4, 4, 8, 8}));
  EXPECT_EQ(picky_->enumerated, (std::vector<std::vector<std::uint32_t>>{{4, 8}}));
  EXPECT_EQ(unit_->key_counts().pairs, 2 * (4 + 4 + 8 + 8));
  EXPECT_EQ(unit_->key_counts().masked, 2 * (4 + 4 + 8 + 8) - (1 + 2) - (3 + 4) - (4 + 5) - (7 + 8));
  log_.clear();
  EXPECT_TRUE(run(step({7, 8})).status.ok());
  EXPECT_EQ(log_, (Log{"core q8_0 0", "core attention 0", "core f16 0"}));
  EXPECT_EQ(picky_->keys.size(), 4u);
}

TEST_F(OffloadUnitTest, the_output_matrix_stays_on_the_core_and_outcomes_come_back) {
  Chain chain{product(Format::q8_0, 3), product(Format::q8_0, -1), other(ops::Sample{}, -1)};
  const RunResult result = run(chain);
  EXPECT_EQ(log_, (Log{"picky q8_0 3", "core q8_0 -1", "core sample -1"}));
  ASSERT_EQ(result.outcomes.size(), 1u);
  EXPECT_EQ(std::get<TokenChoice>(result.outcomes[0]).tokens, std::vector<std::int32_t>{7});
}

// Attention in the accelerator's own variant belongs to it; the cores' own stays with them. The pool and the rows are bound at launch.
TEST_F(OffloadUnitTest, attention_by_table_is_offloaded) {
  KernelCall attention = other(ops::Attention{}, 0);
  attention.batch = batch_;
  const Lease pool = machine().memory.lease(4096, Placement::dram, Region::kv).value_or_throw();
  attention.in = {View{x_, 0, {1, 2, 32}}, View{pool, 0, {1, 4, 32}}, View{x_, 1024, {1, 1, 0}, Format::index32}};
  attention.out = {View{x_, 2048, {1, 2, 32}}};
  run({other(ops::Rope{}, 0), attention});
  attention.variant = variant::kLutExp;
  run({other(ops::Rope{}, 0), attention, product(Format::q8_0, 0)});
  attention.layer = 1;
  run({attention});
  EXPECT_EQ(log_, (Log{"core rope 0", "core attention 0", "core rope 0", "picky attention 0, picky q8_0 0", "picky attention 1"}));
}

TEST_F(OffloadUnitTest, another_batch_is_another_graph) {
  for (const std::uint32_t rows : {1u, 4u, 1u}) EXPECT_TRUE(run(Chain(1, product(Format::q8_0, 0, rows))).status.ok());
  EXPECT_EQ(picky_->loads, 2);
}

TEST_F(OffloadUnitTest, an_error_on_the_core_ends_the_chain) {
  Chain chain{other(ops::Route{}, 0), product(Format::q8_0, 0)};
  EXPECT_THROW(run(chain), RunError);
  EXPECT_EQ(log_, Log{"core route 0"});
}

}  // namespace
}  // namespace vitro
