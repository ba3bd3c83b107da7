// Calls that are taken from the step before are those that the builder makes, whatever steps follow one another.
#include "engine/transformer/phase_calls.hpp"

#include "engine/graph/operator_graph.hpp"
#include "tests/engine/transformer/call_kit.hpp"

namespace vitro {
namespace {

void expect_same(const View& a, const View& b) {
  EXPECT_EQ(a.memory.block(), b.memory.block());
  EXPECT_EQ(std::tie(a.offset, a.shape, a.format, a.layout, a.slot), std::tie(b.offset, b.shape, b.format, b.layout, b.slot));
}

template <class List>
void expect_same_contents(const List& a, const List& b) {
  ASSERT_EQ(a == nullptr, b == nullptr);
  if (a != nullptr) {
    EXPECT_EQ(a->size(), b->size());
  }
}

void expect_same(const KernelCall& a, const KernelCall& b) {
  EXPECT_EQ(describe(a), describe(b));
  EXPECT_EQ(a.op.index(), b.op.index());
  EXPECT_EQ(std::tie(a.variant, a.layer, a.expert, a.method, a.slice), std::tie(b.variant, b.layer, b.expert, b.method, b.slice));
  EXPECT_EQ(a.batch, b.batch) << "rows of another step";
  expect_same_contents(a.rows, b.rows);
  expect_same_contents(a.row_offsets, b.row_offsets);
  expect_same_contents(a.regions, b.regions);
  ASSERT_EQ(a.in.size(), b.in.size());
  ASSERT_EQ(a.out.size(), b.out.size());
  for (std::size_t i = 0; i < a.in.size(); ++i) expect_same(a.in[i], b.in[i]);
  for (std::size_t i = 0; i < a.out.size(); ++i) expect_same(a.out[i], b.out[i]);
  const WorkCounts work = count(a), other = count(b);
  EXPECT_EQ(std::tie(work.read, work.written, work.macs, work.elementwise, work.row_runs),
            std::tie(other.read, other.written, other.macs, other.elementwise, other.row_runs));
  if (a.is<ops::Sample>()) {
    EXPECT_EQ(a.get<ops::Sample>().temperature, b.get<ops::Sample>().temperature);
  }
}

void expect_same(const UnitQueues& a, const UnitQueues& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t unit = 0; unit < a.size(); ++unit) {
    ASSERT_EQ(a[unit].size(), b[unit].size());
    for (std::size_t i = 0; i < a[unit].size(); ++i) {
      const WorkItem &ours = a[unit][i], &theirs = b[unit][i];
      ASSERT_EQ(ours.calls.size(), theirs.calls.size());
      for (std::size_t c = 0; c < ours.calls.size(); ++c) expect_same(ours.calls[c], theirs.calls[c]);
      ASSERT_EQ(ours.uses.size(), theirs.uses.size());
      for (std::size_t u = 0; u < ours.uses.size(); ++u) {
        EXPECT_EQ(std::tie(ours.uses[u].weight, ours.uses[u].offset, ours.uses[u].length),
                  std::tie(theirs.uses[u].weight, theirs.uses[u].offset, theirs.uses[u].length));
      }
    }
  }
}

class PhaseCallsTest : public CallBuilderTest {
 protected:
  // A step of so many rows of a sequence that has come to a position; the last ones are sampled.
  void set_step(std::uint32_t rows, std::uint32_t sampled, std::uint32_t position) {
    std::vector<SeqPos> all;
    for (std::uint32_t i = 0; i < rows; ++i) all.push_back({0, position + i});
    step_.rows = std::make_shared<const std::vector<SeqPos>>(all);
    step_.sampled = std::make_shared<const std::vector<SeqPos>>(all.end() - sampled, all.end());
    std::vector<ExpertChoice> choices;
    for (std::uint32_t i = 0; config_.experts > 0 && i < rows; ++i) {
      const auto first = static_cast<std::uint16_t>((position + i) % 4);
      choices.push_back({{first, static_cast<std::uint16_t>(first + 1)}, {0.5f, 0.5f}});
    }
    step_.experts = make_expert_plan(choices, config_.experts);
  }
  void expect_as_built(PhaseCalls& calls) const {
    for (const Phase& phase : phases_) expect_same(calls.of(phase, step_, shares_), builder_->build(phase, step_, shares_));
  }
};

TEST_F(PhaseCallsTest, drawn_steps_get_the_calls_that_the_builder_makes) {
  Rng rng(7);
  std::uint64_t repeated = 0;
  for (const ModelConfig& config : families()) {
    for (std::size_t units = 1; units <= 3; ++units) {
      start(config, 4, units, {variant::kInt8});
      PhaseCalls calls(*builder_, graph_, true);
      std::uint32_t rows = 1, sampled = 1;
      for (std::uint32_t trial = 0; trial < 40; ++trial) {
        const auto what = rng.below(20);  // changes, if anything
        if (what == 0) rows = static_cast<std::uint32_t>(1 + rng.below(4));
        if (what <= 1) sampled = static_cast<std::uint32_t>(rng.below(rows + 1));
        if (what == 2) step_.table_width = static_cast<std::uint32_t>(1 + rng.below(2));
        if (what == 3) step_.sampling.temperature = static_cast<float>(rng.below(2));
        if (what == 4) step_.choose = rng.below(2) == 0;
        if (what == 5) shares_[rng.below(units)] = static_cast<double>(1 + rng.below(2));
        set_step(rows, sampled, trial);
        expect_as_built(calls);
      }
      repeated += calls.repeated();
    }
  }
  EXPECT_GT(repeated, 1000u) << "else the comparison says nothing";
}

TEST_F(PhaseCallsTest, from_the_third_of_like_steps_on_all_is_repeated_but_the_embedding) {
  start(tiny_dense(), 2, 2);
  PhaseCalls calls(*builder_, graph_, true);
  std::uint64_t embedding = 0;
  for (const Phase& phase : phases_) embedding += graph_[phase.groups.front().operators.front()].is<ops::Embed>();
  ASSERT_EQ(embedding, 1u);
  for (std::uint32_t token = 0; token < 5; ++token) {
    set_step(1, 1, token);
    expect_as_built(calls);
    EXPECT_EQ(calls.repeated(), token < 2 ? 0 : (token - 1) * (phases_.size() - embedding));
    EXPECT_EQ(calls.built() + calls.repeated(), (token + 1) * phases_.size());
  }
}

TEST_F(PhaseCallsTest, phases_of_experts_are_always_built) {
  start(tiny_mixture(), 2, 2);
  PhaseCalls calls(*builder_, graph_, true);
  const auto routed = [](const Phase& phase) { return phase.routed; };
  ASSERT_TRUE(std::ranges::any_of(phases_, routed));
  for (std::uint32_t token = 0; token < 5; ++token) {
    set_step(2, 1, token);
    for (const Phase& phase : phases_) {
      const std::uint64_t before = calls.repeated();
      expect_same(calls.of(phase, step_, shares_), builder_->build(phase, step_, shares_));
      if (phase.routed) {
        EXPECT_EQ(calls.repeated(), before);
      }
    }
  }
  EXPECT_GT(calls.repeated(), 0u) << "attention does not depend on experts";
}

TEST_F(PhaseCallsTest, nothing_is_repeated_where_weights_move_or_it_is_switched_off) {
  start(tiny_dense(), 1, 2);
  PhaseCalls moving(*builder_, graph_, false), off(*builder_, graph_, true, false);
  for (std::uint32_t token = 0; token < 4; ++token) {
    set_step(1, 1, token);
    expect_as_built(moving);
    expect_as_built(off);
  }
  EXPECT_EQ(moving.repeated() + off.repeated(), 0u);
}

// Rows of adapters, and heads that are staged for somebody else, are the step's own.
TEST_F(PhaseCallsTest, a_step_with_adapters_or_staged_heads_is_built) {
  start(tiny_dense(), 1, 2);
  PhaseCalls calls(*builder_, graph_, true);
  for (std::uint32_t token = 0; token < 4; ++token) {
    set_step(1, 1, token);
    step_.staged.count = 1;
    expect_as_built(calls);
    step_.staged.count = 0;
    step_.sampled = step_.rows;  // whose rows a call has is told by the list
    expect_as_built(calls);
  }
  EXPECT_EQ(calls.repeated(), 0u);
}

}  // namespace
}  // namespace vitro
