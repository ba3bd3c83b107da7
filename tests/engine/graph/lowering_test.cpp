#include "engine/graph/lowering.hpp"
#include "engine/graph/operator_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/base/rng.hpp"

namespace vitro {
namespace {

ModelConfig small(std::uint32_t experts) {
  ModelConfig c;
  c.family = "llama";
  c.layers = 2, c.width = 64, c.heads = 4, c.kv_heads = 2, c.head_dim = 16, c.ffn = 96, c.vocab = 128, c.context = 64;
  c.experts = experts, c.experts_used = experts > 0 ? 2 : 0;
  c.rope.dims = 16;
  return c;
}

// Dense, a mixture, norms of heads, norms before the output and the Down projection; mixtures with what stands beside their experts.
std::vector<ModelConfig> families() {
  std::vector<ModelConfig> all{small(0), small(4), small(0), small(0), small(4), small(4), small(0)};
  all[2].qk_norm = QkNorm::heads;
  all[3].sub_norms = true;
  all[4].shared_ffn = 160, all[4].shared_gate = true;
  all[5].shared_ffn = 64, all[5].dense_layers = 1, all[5].dense_ffn = 192, all[5].norm = Norm::layer;
  all[6].qk_norm = QkNorm::whole;
  return all;
}

std::size_t count_operators(const std::vector<Phase>& phases) {
  std::size_t n = 0;
  for (const Phase& phase : phases) {
    for (const OperatorGroup& group : phase.groups) n += group.operators.size();
  }
  return n;
}

TEST(Lowering, places_every_operator_once_for_any_number_of_units) {
  for (const ModelConfig& config : families()) {
    const OperatorGraph graph = build_graph(config);
    for (std::size_t units = 1; units <= 8; ++units) {
      std::set<OperatorId> seen;
      for (const Phase& phase : lower(graph, config, units)) {
        for (const OperatorGroup& group : phase.groups) seen.insert(group.operators.begin(), group.operators.end());
      }
      EXPECT_EQ(seen.size(), boost::num_vertices(graph));
      EXPECT_EQ(count_operators(lower(graph, config, units)), boost::num_vertices(graph));
    }
  }
}

TEST(Lowering, a_dense_layer_on_several_units_takes_five_phases) {
  const ModelConfig config = small(0);
  const std::vector<Phase> phases = lower(build_graph(config), config, 2);
  // embed; per layer: norm+qkv, rope+append+attention, output+residual, norm+gate+up+act, down+residual; head, sample.
  EXPECT_EQ(phases.size(), 1 + 2 * 5 + 2u);
}

// The attention block of a layer is then one phase, beside the one with its sum's reader.
TEST(Lowering, attention_that_one_unit_has_alone_waits_for_nobody) {
  const ModelConfig config = small(4);
  const OperatorGraph graph = build_graph(config);
  const std::vector<Phase> phases = lower(graph, config, 3, {.attention_alone = true});
  EXPECT_EQ(std::count_if(phases.begin(), phases.end(), [](const Phase& phase) { return phase.block == BlockKind::attention; }), 2);
  EXPECT_EQ(phases.size(), lower(graph, config, 3).size() - 2 * 2u);
  EXPECT_EQ(count_operators(phases), boost::num_vertices(graph));
}

TEST(Lowering, where_attention_is_waited_for_a_single_unit_joins_before_and_after_it) {
  for (const ModelConfig& config : families()) {
    const OperatorGraph graph = build_graph(config);
    const std::vector<Phase> phases = lower(graph, config, 1, {.waits_to_attend = true});
    std::uint32_t attending = 0;
    for (const Phase& phase : phases) {
      if (!phase.attends) continue;
      ASSERT_EQ(phase.groups.size(), 1u);
      ASSERT_EQ(phase.groups[0].operators.size(), 1u);
      EXPECT_TRUE(graph[phase.groups[0].operators[0]].is<ops::Attention>());
      EXPECT_EQ(phase.layer, static_cast<std::int16_t>(attending++));
    }
    EXPECT_EQ(attending, config.layers);
    EXPECT_EQ(phases.size(), lower(graph, config, 1).size() + 2 * config.layers);
    EXPECT_EQ(count_operators(phases), boost::num_vertices(graph));
    EXPECT_EQ(lower(graph, config, 2, {.waits_to_attend = true}).size(), lower(graph, config, 2).size()) << "which joins there anyway";
  }
}

// Append and conversion are others' work than attention: each is joined before the next one begins. A unit that has all of it waits for
// nobody.
TEST(Lowering, staged_keys_and_values_are_appended_converted_and_attended_to_in_phases_of_their_own) {
  for (const ModelConfig& config : families()) {
    const OperatorGraph graph = build_graph(config, {.stages_kv = true});
    const std::vector<Phase> phases = lower(graph, config, 3);
    EXPECT_EQ(phases.size(), lower(build_graph(config), config, 3).size() + 2 * config.layers);
    EXPECT_EQ(count_operators(phases), boost::num_vertices(graph));
    std::uint32_t staged = 0;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      if (!phases[i].stages_kv) continue;
      ++staged;
      EXPECT_TRUE(phases[i - 1].keeps_kv && !phases[i - 1].attends);
      EXPECT_TRUE(!phases[i].keeps_kv && !phases[i].attends);
      EXPECT_TRUE(phases[i + 1].attends && !phases[i + 1].keeps_kv);
    }
    EXPECT_EQ(staged, config.layers);
    EXPECT_EQ(lower(graph, config, 3, {.attention_alone = true}).size(),
              lower(build_graph(config), config, 3, {.attention_alone = true}).size());
  }
}

TEST(Lowering, norms_of_heads_cost_no_phase_and_sub_norms_cost_none_either) {
  const std::vector<ModelConfig> all = families();
  EXPECT_EQ(lower(build_graph(all[2]), all[2], 2).size(), 1 + 2 * 5 + 2u);
  // They stand where the units meet anyway: the Down and the output projection read a whole tensor.
  EXPECT_EQ(lower(build_graph(all[3]), all[3], 2).size(), 1 + 2 * 5 + 2u);
}

// A norm over all heads reads what all units have computed, so it stands where they meet before heads are shared out.
TEST(Lowering, norms_over_all_heads_and_shared_experts_cost_no_phase) {
  const std::vector<ModelConfig> all = families();
  EXPECT_EQ(lower(build_graph(all[6]), all[6], 2).size(), 1 + 2 * 5 + 2u);
  for (const std::size_t units : {1u, 2u, 3u}) {
    ModelConfig plain = all[4];
    plain.shared_ffn = 0;
    EXPECT_EQ(lower(build_graph(all[4]), all[4], units).size(), lower(build_graph(plain), plain, units).size()) << units;
    plain = all[5];
    plain.shared_ffn = 0;
    EXPECT_EQ(lower(build_graph(all[5]), all[5], units).size(), lower(build_graph(plain), plain, units).size()) << units;
  }
}

TEST(Lowering, one_unit_needs_no_barrier_in_a_dense_model) {
  const ModelConfig config = small(0);
  EXPECT_EQ(lower(build_graph(config), config, 1).size(), 1u);
}

TEST(Lowering, gate_up_and_activation_are_cut_alike) {
  const ModelConfig config = small(0);
  const OperatorGraph graph = build_graph(config);
  for (const Phase& phase : lower(graph, config, 2)) {
    for (const OperatorGroup& group : phase.groups) {
      if (graph[group.operators.front()].name != "blk.0.ffn_gate") continue;
      ASSERT_EQ(group.operators.size(), 3u);
      EXPECT_TRUE(graph[group.operators.back()].is<ops::Glu>());
      EXPECT_EQ(group.extent, config.ffn);
    }
  }
}

// A unit may read a whole tensor only if it was finished before the phase, or if it made its own copy in the phase.
TEST(Lowering, no_unit_reads_what_another_one_writes_in_the_same_phase) {
  for (const ModelConfig& config : families()) {
    const OperatorGraph graph = build_graph(config);
    for (const std::size_t units : {1u, 3u})
      for (const Phase& phase : lower(graph, config, units)) {
        std::map<OperatorId, std::size_t> group_of;
        for (std::size_t g = 0; g < phase.groups.size(); ++g) {
          for (const OperatorId id : phase.groups[g].operators) group_of[id] = g;
        }
        for (const auto& [id, group] : group_of) {
          const std::vector<OperatorId> inputs = inputs_of(graph, id);
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!group_of.contains(inputs[i])) continue;
            const Operator& from = graph[inputs[i]];
            const bool same_cut = from.split == graph[id].split && phase.groups[group_of[inputs[i]]].extent == phase.groups[group].extent;
            EXPECT_FALSE(from.is<ops::Route>()) << graph[id].name;
            if (units > 1) {
              EXPECT_TRUE(from.split == Split::replicated || same_cut) << from.name << " -> " << graph[id].name;
              if (from.split != Split::replicated) {
                EXPECT_FALSE(graph[id].is<ops::Matmul>()) << graph[id].name;
              }
            }
            EXPECT_LE(group_of[inputs[i]], group) << "producers come first on each unit";
          }
        }
      }
  }
}

// Matrices in strips are cut between them, and so is what follows their slices.
TEST(Lowering, slices_end_where_the_layouts_of_weights_let_them) {
  ModelConfig config = small(0);
  config.ffn = 128, config.head_dim = 32;
  const OperatorGraph graph = build_graph(config);
  const WeightStore strips = phantom_weights(config, Format::q4_0_tile, FileId{}), tiles = phantom_weights(config, Format::q4_0, FileId{});
  ASSERT_EQ(strips.get(Role::ffn_up, 0).layout, Layout::strips);
  EXPECT_EQ(strips.get(Role::token_embedding).format, Format::q4_0);
  EXPECT_EQ(strips.total_bytes(), tiles.total_bytes());
  const auto grain = [&](const WeightStore& weights, Role role) {
    for (const Phase& phase : lower(graph, config, 2, {.weights = &weights})) {
      for (const OperatorGroup& group : phase.groups) {
        if (std::ranges::any_of(group.operators, [&](OperatorId id) { return graph[id].weight == role; })) return group.grain;
      }
    }
    return 0u;
  };
  for (const Role role : {Role::attn_q, Role::ffn_gate, Role::ffn_up, Role::ffn_down}) {
    EXPECT_EQ(grain(strips, role), 32u) << to_string(role);
    EXPECT_EQ(grain(tiles, role), 16u) << to_string(role);
  }
}

TEST(Lowering, shares_cover_the_extent_once_in_whole_grains) {
  Rng rng(3);
  for (int i = 0; i < 500; ++i) {
    const auto extent = static_cast<std::uint32_t>(1 + rng.below(5000));
    const auto grain = static_cast<std::uint32_t>(1 + rng.below(32));
    const std::size_t units = 1 + rng.below(9);
    std::uint32_t next = 0;
    for (std::size_t u = 0; u < units; ++u) {
      const Slice share = share_of(extent, grain, u, units);
      if (share.count == 0) continue;
      EXPECT_EQ(share.first, next);
      EXPECT_EQ(share.first % grain, 0u);
      next = share.first + share.count;
    }
    EXPECT_EQ(next, extent);
    EXPECT_GT(share_of(extent, grain, 0, units).count, 0u);
  }
}

}  // namespace
}  // namespace vitro
