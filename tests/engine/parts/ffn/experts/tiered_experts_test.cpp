// Which calls run where and when: one launch for a group, fixed shapes, cores beside units. Times are the test's: a call takes one unit.
#include "engine/parts/ffn/experts/tiered_experts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/virtual/virtual_machine.hpp"
#include "tests/engine/parts/ffn/experts/bench.hpp"

namespace vitro {
namespace {

constexpr Picoseconds kUnit{1000};
constexpr std::uint32_t kRows = 12, kDecodeRows = 3, kExperts = 4, kWidth = 32, kFfn = 64;

class Calls final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    if (call.is<ops::Matmul>() && call.expert == broken) throw RunError("expert 3 is broken");
    if (call.is<ops::Matmul>()) rows.push_back(call.in[1].shape[0]), contracts[call.expert].insert(call.variant);
    return {};
  }
  std::map<int, std::set<VariantId>> contracts;  // of products, by expert
  std::vector<std::uint32_t> rows;  // of products
  int broken = -1;
};

// Weights that are there for good.
class Resident final : public DenseResidency {
 public:
  using DenseResidency::DenseResidency;
  View view(const Weight& weight, std::uint32_t) const override { return {{}, 0, {weight.rows, weight.columns, 0}, weight.format}; }
};

// Weights that come as they are needed: notes what was announced, brought and let go.
class Comes final : public Residency {
 public:
  Task<void> load() override { co_return; }
  View view(const Weight& weight, std::uint32_t) const override { return {{}, 0, {weight.rows, weight.columns, 0}, weight.format}; }
  Bytes item_bytes() const override { return kTileRows * kWidth * 2 * 2; }  // of f16, gate and up
  void plan(const UnitQueues& phase) override {
    here.clear();
    for (const auto& queue : phase) {
      for (const WorkItem& item : queue) {
        for (const WeightUse& use : item.uses) planned[use.weight->role] += use.length;
      }
    }
  }
  bool ready(std::size_t unit, std::size_t item) const override { return here.contains({unit, item}); }
  Task<void> fetch(std::size_t unit, std::size_t item, UnitId) override {
    here.insert({unit, item});
    ++fetches;
    co_return;
  }
  void done(std::size_t unit, std::size_t item) override { finished += here.contains({unit, item}); }
  void abandon() override { ++abandoned; }
  CacheStats stats() const override { return {}; }

  std::set<std::pair<std::size_t, std::size_t>> here;
  std::map<Role, Bytes> planned;
  int fetches = 0, finished = 0, abandoned = 0;
};

class TieredExpertsTest : public testing::Test {
 protected:
  // Experts 0 and 1 share a graph on the first unit, 2 has one on the second, 3 is cold.
  void start(bool side_by_side, bool stays = true, AskedContracts asked = {variant::kFloat}) {
    experts_.reset(), graphs_.reset();  // they die before their machine
    ModelConfig config;
    config.layers = 1, config.width = kWidth, config.heads = config.kv_heads = 2, config.head_dim = 16, config.ffn = kFfn,
    config.vocab = 32;
    config.experts = kExperts, config.experts_used = 2;
    VirtualMachineSpec spec;
    spec.phantom = true;
    spec.price = [](const UnitCaps&, const KernelCall&) { return kUnit; };
    for (const char* name : {"cpu0", "cpu1", "ane0", "ane1"}) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.name = name;
      spec.units.push_back(caps);
    }
    host_ = std::make_unique<VirtualMachine>(std::move(spec), function_, trace_);
    weights_ = phantom_weights(config, Format::f16, FileId{});
    graphs_ = std::make_unique<GraphCache>(machine());
    if (stays)
      residency_ = std::make_unique<Resident>(machine(), weights_);
    else
      residency_ = std::make_unique<Comes>();
    TieredOptions options;
    options.cores = {machine().units[0], machine().units[1]};
    options.units = {machine().units[2], machine().units[3]};
    LayerPlacement layer;
    layer.groups = {{{0, 1}, 4, 0, 0, false}, {{2}, 8, 1, 8, false}};
    layer.capacity = {4, 4, 8, 0};
    layer.first = {0, 4, 8, 0};
    layer.rows = 16;
    options.placements = {layer};
    options.side_by_side = side_by_side;
    options.max_rows = kRows;
    options.width = kWidth, options.ffn = kFfn, options.experts_used = 2;
    options.asked = asked;
    options.decode_rows = kDecodeRows;
    experts_ = std::make_unique<TieredExperts>(machine(), *graphs_, weights_, *residency_, std::move(options));
    host_->run(experts_->load());
  }
  Machine& machine() { return host_->machine(); }

  void run_layer(std::uint32_t rows = kRows) {
    Rng rng(7);
    const ExpertPlan plan = experts_->admit(0, choices(rng, rows, kExperts, 2));
    const auto pool = static_cast<std::uint32_t>(plan.rows.size());
    RoutedStep step;
    step.rows = std::make_shared<const std::vector<SeqPos>>(rows);
    step.x.shape = {rows, kWidth, 0};
    step.chosen.shape = {pool, 0, 0};
    step.packed.shape = step.out.shape = {pool, kWidth, 0};
    host_->run(static_cast<RoutedFfn&>(*experts_).run(0, std::move(step)));
  }

  Calls function_;
  NullTrace trace_;
  std::unique_ptr<VirtualMachine> host_;
  WeightStore weights_;
  std::unique_ptr<GraphCache> graphs_;
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<TieredExperts> experts_;
};

TEST_F(TieredExpertsTest, a_group_is_one_launch_of_fixed_shapes) {
  start(true);
  for (int step = 0; step < 2; ++step) run_layer();
  EXPECT_EQ(experts_->experts()->launches, 2u * 2);
  EXPECT_EQ(experts_->experts()->layers, 2u);
  // Three products for each expert and step: slices are as long as their capacity, whoever fills them.
  EXPECT_EQ(std::count(function_.rows.begin(), function_.rows.end(), 8u), 2 * 3);
  EXPECT_GE(std::count(function_.rows.begin(), function_.rows.end(), 4u), 2 * 2 * 3);
}

// As whole matrices do: a step of more rows than decoding has is a prompt's, and units may have a contract of their own.
TEST_F(TieredExpertsTest, products_have_the_contract_of_the_steps_rows_and_of_who_carries_them_out) {
  using Contracts = std::set<VariantId>;
  for (const bool stays : {true, false}) {
    start(true, stays, {variant::kA16, variant::kHmx});
    run_layer();
    for (const auto& [expert, contracts] : function_.contracts) EXPECT_EQ(contracts, Contracts{variant::kHmx}) << expert;
    function_.contracts.clear();
    run_layer(kDecodeRows);  // no graph: what graphs have is the prompt's
    for (const auto& [expert, contracts] : function_.contracts) EXPECT_EQ(contracts, Contracts{variant::kA16}) << expert;
    function_.contracts.clear();
    start(true, stays, {variant::kA16, {}, variant::kHmx});
    run_layer();
    EXPECT_EQ(function_.contracts[3], Contracts{variant::kA16});  // on cores
    EXPECT_TRUE(function_.contracts[2].contains(variant::kHmx));
    function_.contracts.clear();
  }
}

TEST_F(TieredExpertsTest, units_and_cores_work_at_once_unless_told_otherwise) {
  start(true);
  run_layer();
  // Packing, then eight calls of the longest graph; the other unit and the cores are done by then.
  EXPECT_EQ(machine().clock.now(), 9 * kUnit);
  start(false);
  run_layer();
  // Both graphs with their packing, then packing, gate, up and activation, and down on cores.
  EXPECT_EQ(machine().clock.now(), (9 + 5 + 1 + 3 + 1) * kUnit);
}

TEST_F(TieredExpertsTest, the_error_of_one_unit_ends_the_layer_when_all_have_ended) {
  start(true);
  function_.broken = 2;
  EXPECT_THROW(run_layer(), RunError);
  function_.broken = -1;
  run_layer();
}

TEST_F(TieredExpertsTest, weights_that_come_as_they_are_needed_are_announced_whole_and_let_go) {
  for (const bool side_by_side : {true, false}) {
    start(side_by_side, false);
    run_layer();
    auto& comes = static_cast<Comes&>(*residency_);
    for (const Role role : {Role::ffn_gate, Role::ffn_up, Role::ffn_down}) {
      EXPECT_EQ(comes.planned[role] % weights_.get(role, 0).matrix_bytes(), 0u) << "a matrix is shared out between cores, and complete";
      EXPECT_GE(comes.planned[role], 4 * weights_.get(role, 0).matrix_bytes()) << "two graphs of three experts, and the cold one";
    }
    EXPECT_EQ(experts_->experts()->launches, 2u);
    EXPECT_GT(comes.fetches, 4);
    EXPECT_EQ(comes.finished, comes.fetches);
    EXPECT_EQ(std::count(function_.rows.begin(), function_.rows.end(), 8u), 3) << "slices are as long as their capacity";
    function_.rows.clear();
  }
  function_.broken = 3;
  EXPECT_THROW(run_layer(), RunError);
  EXPECT_GE(static_cast<Comes&>(*residency_).abandoned, 1);
}

}  // namespace
}  // namespace vitro
