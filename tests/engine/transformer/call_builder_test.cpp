// From phases to calls: which unit gets which part of which operator, and that every call keeps its contract.
#include <map>
#include <set>

#include "tests/engine/transformer/call_kit.hpp"

namespace vitro {
namespace {

bool is_cut(const Op& op) { return is<ops::Matmul, ops::Glu, ops::Add, ops::ExpertSum>(op); }
bool is_of_heads(const Op& op) { return is<ops::Rope, ops::KvAppend, ops::Attention>(op); }

// Where the calls of one operator write, or what they write of a product's matrix.
using Site = std::tuple<std::string_view, std::int16_t, std::int16_t, std::uint64_t, Bytes>;
Site site_of(const KernelCall& call) {
  const View& names = call.is<ops::Matmul>() ? call.in[0] : call.out[0];
  return {to_string(call.op), call.layer, call.expert, names.memory.id(), names.offset};
}

std::uint32_t extent_of(const KernelCall& call) {
  if (call.is<ops::KvAppend>()) return call.out[0].shape[0];
  if (call.is<ops::Attention>()) return call.in[1].shape[0];
  return call.out[0].shape[1];
}

TEST_F(CallBuilderTest, every_call_of_every_family_keeps_its_contract) {
  for (const ModelConfig& config : families()) {
    for (const Layout layout : {Layout::rows, Layout::tiled}) {
      for (const Format format : {Format::f16, Format::q4_0, Format::q8_0}) {
        for (const std::uint32_t rows : {1u, 7u}) {
          for (std::size_t units = 1; units <= 3; ++units) {
            start(config, rows, units, {variant::kInt8}, format, layout);
            for (const Call& c : calls()) EXPECT_NO_THROW(check_call(c.call)) << describe(c.call);
          }
        }
      }
    }
  }
}

TEST_F(CallBuilderTest, shares_cover_each_column_once_and_are_cut_at_grains) {
  Rng rng(1);
  for (const ModelConfig& config : families()) {
    for (int trial = 0; trial < 12; ++trial) {
      const std::size_t units = 1 + rng.below(3);
      start(config, static_cast<std::uint32_t>(1 + rng.below(4)), units);
      for (double& share : shares_) share = static_cast<double>(rng.below(4));
      shares_[rng.below(units)] += 1;
      residency_->bytes = 1 + rng.below(8 * KiB);
      std::map<Site, std::vector<int>> covered;
      for (const Call& c : calls()) {
        if (!is_cut(c.call.op) && !c.call.is<ops::Attention, ops::KvAppend>()) continue;
        EXPECT_EQ(is_cut(c.call.op) ? c.call.slice.first % kTileRows : 0, 0u) << to_string(c.call.op);
        std::vector<int>& times = covered[site_of(c.call)];
        times.resize(extent_of(c.call));
        ASSERT_LE(c.call.slice.first + c.call.slice.count, times.size());
        for (std::uint32_t i = 0; i < c.call.slice.count; ++i) ++times[c.call.slice.first + i];
      }
      // Both sums of a layer go to the same place.
      for (const auto& [site, times] : covered) {
        EXPECT_EQ(times, std::vector<int>(times.size(), std::get<0>(site) == "add" ? 2 : 1)) << std::get<0>(site);
      }
      EXPECT_GT(covered.size(), 2u * 7);
    }
  }
}

// Expert e has e quarters of its neurons on the last unit.
class ByExpert final : public UnitPlacement {
 public:
  const std::vector<ComputeUnit*>& units() const override { return none_; }
  std::optional<Shares> shares_of_expert(std::int16_t, std::uint32_t expert, std::uint32_t) const override {
    return Shares{1 - 0.25 * expert, 0.25 * expert};
  }

 private:
  std::vector<ComputeUnit*> none_;
};

TEST_F(CallBuilderTest, experts_have_shares_of_their_own_where_rows_are_neurons) {
  const ByExpert placement;
  ModelConfig config = tiny_mixture();
  config.ffn = 4 * kTileRows;
  CallOptions options{variant::kFloat};
  options.placement = &placement;
  start(config, 4, 2, options);
  shares_ = {1, 0};  // of all else
  std::map<std::int16_t, std::uint32_t> neurons;
  for (const Call& c : calls()) {
    if (c.unit == 0) continue;
    ASSERT_TRUE((c.call.is<ops::Matmul, ops::Glu, ops::Gather>())) << describe(c.call);
    ASSERT_GE(c.call.expert, 1);
    if (c.call.layer == 0 && c.call.is<ops::Glu>()) neurons[c.call.expert] += c.call.slice.count;
  }
  EXPECT_EQ(neurons, (std::map<std::int16_t, std::uint32_t>{{1, kTileRows}, {2, 2 * kTileRows}, {3, 3 * kTileRows}, {4, 4 * kTileRows}}));
}

TEST_F(CallBuilderTest, each_unit_replicates_and_the_first_one_does_what_is_not_shared_out) {
  for (const ModelConfig& config : families()) {
    start(config, 3, 3);
    std::map<std::string_view, std::set<std::size_t>> units;
    std::map<std::pair<std::size_t, std::int16_t>, int> norms;
    for (const Call& c : calls()) {
      units[to_string(c.call.op)].insert(c.unit);
      if (c.call.is<ops::LayerNorm>()) units["rms_norm"].insert(c.unit);  // in its place
      if (c.call.is<ops::LayerNorm, ops::RmsNorm>() && c.call.in[0].shape[2] == 0) ++norms[{c.unit, c.call.layer}];
    }
    const std::set<std::size_t> all{0, 1, 2}, first{0};
    EXPECT_EQ(units["embed"], first);
    EXPECT_EQ(units["sample"], first);
    EXPECT_EQ(units["route"], config.experts > 0 ? first : std::set<std::size_t>{});
    EXPECT_EQ(units["rms_norm"], all);
    // A unit that reads a norm computes it; a model of two KV heads leaves the third unit without attention.
    EXPECT_EQ(units["attention"], (std::set<std::size_t>{0, 1}));
    const int of_layer = config.sub_norms || config.qk_norm == QkNorm::whole ? 4 : 2;
    for (std::int16_t layer = 0; layer < 2; ++layer) EXPECT_EQ((norms[{0, layer}]), of_layer);
    EXPECT_EQ((norms[{0, -1}]), 1);
  }
}

TEST_F(CallBuilderTest, a_unit_without_a_share_has_nothing_to_do_but_the_first_one) {
  for (const ModelConfig& config : families()) {
    start(config, 2, 2);
    shares_ = {1, 0};
    for (const Call& c : calls()) EXPECT_EQ(c.unit, 0u) << to_string(c.call.op);
    shares_ = {0, 1};
    std::set<std::string_view> first;
    for (const Call& c : calls()) {
      if (c.unit == 0) first.insert(to_string(c.call.op));
    }
    EXPECT_TRUE(first.contains("embed") && first.contains("sample"));
    EXPECT_FALSE(first.contains("matmul") || first.contains("attention") || first.contains("glu"));
  }
}

// Lowering gives it a phase of its own; the builder does not rely on that.
TEST_F(CallBuilderTest, a_single_operator_is_the_first_units_beside_shared_ones) {
  start(tiny_dense(), 2, 3);
  Phase both = phases_.at(0);
  both.groups.insert(both.groups.end(), phases_.at(1).groups.begin(), phases_.at(1).groups.end());
  const UnitQueues work = builder_->build(both, step_, shares_);
  for (std::size_t unit = 0; unit < 3; ++unit) {
    const auto embeds = [](const WorkItem& item) { return item.calls.front().is<ops::Embed>(); };
    EXPECT_EQ(std::ranges::count_if(work[unit], embeds), unit == 0 ? 1 : 0);
    EXPECT_GT(work[unit].size(), 1u);
  }
}

// Whether the phase has the norm or an earlier one had it: there the second unit may have been left out.
TEST_F(CallBuilderTest, a_replicated_tensor_is_the_units_own_within_its_phase_and_the_first_ones_later) {
  start(tiny_dense(), 2, 2);
  const Bytes copy = Bytes{2} * config_.width * 4;  // of two rows
  const auto offsets = [&](const Phase& phase) {
    std::set<std::pair<std::size_t, Bytes>> out;  // by unit, of what products read
    const UnitQueues work = builder_->build(phase, step_, shares_);
    for (std::size_t unit = 0; unit < 2; ++unit) {
      for (const WorkItem& item : work[unit]) {
        for (const KernelCall& call : item.calls) {
          if (call.is<ops::Matmul>()) out.insert({unit, call.in[1].offset});
        }
      }
    }
    return out;
  };
  Phase phase = phases_.at(1);
  EXPECT_EQ(offsets(phase), (std::set<std::pair<std::size_t, Bytes>>{{0, 0}, {1, copy}}));
  std::erase_if(phase.groups, [](const OperatorGroup& group) { return group.split == Split::replicated; });
  EXPECT_EQ(offsets(phase), (std::set<std::pair<std::size_t, Bytes>>{{0, 0}, {1, 0}}));
}

// Rotation has slices of the query's heads, attention and the cache those of the pool.
TEST_F(CallBuilderTest, heads_are_cut_together_with_those_of_their_group) {
  for (const std::uint32_t pool : {2u, 4u}) {
    start(tiny_dense(), 2, 2, {variant::kFloat}, Format::f16, Layout::rows, pool);
    std::map<std::string_view, std::set<std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::uint32_t>>> slices;
    for (const Call& c : calls()) {
      if (is_of_heads(c.call.op))
        slices[to_string(c.call.op)].insert({c.unit, c.call.in[0].shape[1], c.call.slice.first, c.call.slice.count});
    }
    using Set = std::set<std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::uint32_t>>;
    EXPECT_EQ(slices["rope"], (Set{{0, 4, 0, 2}, {1, 4, 2, 2}, {0, 2, 0, 1}, {1, 2, 1, 1}})) << "of q and of k";
    EXPECT_EQ(slices["attention"], (Set{{0, 4, 0, pool / 2}, {1, 4, pool / 2, pool / 2}}));
    EXPECT_EQ(slices["kv_append"], (Set{{0, 2, 0, pool / 2}, {1, 2, pool / 2, pool / 2}}));
  }
}

TEST_F(CallBuilderTest, items_have_the_bytes_that_the_residency_asks_for_and_use_each_byte_once) {
  for (const ModelConfig& config : families()) {
    for (const Bytes bytes : {Bytes{1}, 3 * KiB, 9 * KiB, ~Bytes{0}}) {
      start(config, 1, 2);
      residency_->bytes = bytes;
      std::map<std::pair<const Weight*, Bytes>, Bytes> used;  // from each offset
      for (const UnitQueues& phase : queues()) {
        for (const std::vector<WorkItem>& queue : phase) {
          for (const WorkItem& item : queue) {
            Bytes sum = 0, of_grains = 0;
            for (const WeightUse& use : item.uses) {
              EXPECT_LE(use.offset + use.length, use.weight->extent.length);
              const bool matrix = !is_vector(use.weight->role) && use.weight->role != Role::token_embedding;
              if (!matrix) continue;
              sum += use.length;
              of_grains += kTileRows * use.weight->matrix_bytes() / use.weight->rows;
              EXPECT_TRUE(used.emplace(std::pair(use.weight, use.offset), use.length).second) << use.weight->name << " is read twice";
            }
            EXPECT_LE(sum, std::max(bytes, of_grains));
          }
        }
      }
      std::map<const Weight*, Bytes> total;
      for (const auto& [where, length] : used) total[where.first] += length;
      for (const auto& [weight, sum] : total) {
        const Bytes chosen = weight->experts > 1 ? step_.experts.groups.size() * weight->matrix_bytes() : weight->extent.length;
        EXPECT_EQ(sum, chosen) << weight->name;
      }
      EXPECT_GE(total.size(), 2u * 7) << "each matrix of both layers";
    }
  }
}

TEST_F(CallBuilderTest, the_steps_sampling_reaches_the_call_and_a_step_may_choose_nothing) {
  start(tiny_dense(), 4, 2);
  step_.sampling = {0.75f, 40, 0.5f};
  const auto of_op = [&](const Op& op) {
    std::vector<KernelCall> found;
    for (const Call& c : calls()) {
      if (kind_of(c.call.op) == kind_of(op)) found.push_back(c.call);
    }
    return found;
  };
  ASSERT_EQ(of_op(ops::Sample{}).size(), 1u);
  const KernelCall sample = of_op(ops::Sample{})[0];
  EXPECT_EQ(sample.get<ops::Sample>(), (ops::Sample{0.75f, 40, 0.5f}));
  EXPECT_EQ(sample.batch, step_.sampled);
  EXPECT_EQ(sample.in[0].shape, (std::array<std::uint32_t, 3>{2, tiny_dense().vocab, 0}));
  step_.choose = false;
  EXPECT_TRUE(of_op(ops::Sample{}).empty());
  EXPECT_FALSE(of_op(ops::Gather{}).empty()) << "logits are computed";
  step_.sampled = std::make_shared<const std::vector<SeqPos>>();
  EXPECT_TRUE(of_op(ops::Gather{}).empty()) << "of no row";
}

}  // namespace
}  // namespace vitro
