#include "engine/graph/geometry_pass.hpp"
#include "engine/graph/operator_graph.hpp"
#include "tests/engine/graph/small_model.hpp"

#include <gtest/gtest.h>

namespace vitro {
namespace {

using test::small_model;

constexpr Movement kReshape{}, kHeadsFirst{HeadOrder::rows_first, HeadOrder::heads_first},
    kRowsFirst{HeadOrder::heads_first, HeadOrder::rows_first}, kSlice{.first = 32, .row = 160};

std::size_t moves_in(const OperatorGraph& graph) {
  std::size_t moves = 0;
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) moves += graph[id].is<ops::Move>();
  return moves;
}

OperatorId id_of(const OperatorGraph& graph, std::string_view name) {
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (graph[id].name == name) return id;
  }
  ADD_FAILURE() << "no operator " << name;
  return 0;
}

OperatorId add(OperatorGraph& graph, Op op, std::string name, std::initializer_list<OperatorId> inputs, std::vector<Movement> path = {}) {
  Operator node;
  node.op = op;
  node.name = node.output = std::move(name);
  node.split = Split::kv_heads;
  node.width = 64;
  node.path = std::move(path);
  const OperatorId id = boost::add_vertex(std::move(node), graph);
  std::uint8_t index = 0;
  for (const OperatorId input : inputs) boost::add_edge(input, id, Operand{index++}, graph);
  return id;
}

TEST(GeometryPass, heads_of_a_share_move_as_they_do_among_all) {
  const HeadExtents x{5, 4, 16};
  for (const std::vector<Movement>& path :
       {std::vector{kHeadsFirst}, {kRowsFirst}, {kReshape, kHeadsFirst}, {kSlice}, {kSlice, kHeadsFirst}}) {
    std::vector<std::uint32_t> whole(5 * 4 * 16), shares(whole.size());
    const auto move = [](const CopyRegions& regions, std::vector<std::uint32_t>& into) {
      for (const CopyRegion& r : regions) {
        for (std::uint32_t i = 0; i < r.size[0]; ++i) {
          for (std::uint32_t j = 0; j < r.size[1]; ++j) {
            for (std::uint32_t k = 0; k < r.size[2]; ++k) {
              into.at(r.dst.at({i, j, k})) = static_cast<std::uint32_t>(r.src.at({i, j, k})) + 1;
            }
          }
        }
      }
    };
    move(regions_of(path, x), whole);
    for (const Slice& share : {Slice{0, 1}, Slice{1, 2}, Slice{3, 1}}) move(regions_of(path, x, share), shares);
    EXPECT_EQ(shares, whole);
    EXPECT_EQ(std::ranges::count(whole, 0u), 0) << "every element is written";
  }
}

// Element by element: row r of a slice begins at 32 of the source's 160 columns.
TEST(GeometryPass, a_slice_and_what_follows_it_move_the_slice_s_elements_once) {
  const HeadExtents x{5, 4, 16};
  const CopyRegions regions = regions_of(std::vector{kSlice, kReshape, kHeadsFirst}, x);
  std::size_t seen = 0;
  for (const CopyRegion& r : regions) {
    for (std::uint32_t i = 0; i < r.size[0]; ++i) {
      for (std::uint32_t j = 0; j < r.size[1]; ++j) {
        for (std::uint32_t k = 0; k < r.size[2]; ++k, ++seen) {
          const std::uint64_t to = r.dst.at({i, j, k}), head = to / (5 * 16), row = to / 16 % 5;
          EXPECT_EQ(r.src.at({i, j, k}), row * 160 + 32 + head * 16 + to % 16);
        }
      }
    }
  }
  EXPECT_EQ(seen, 5u * 64);
  Operator columns;
  columns.split = Split::rows;
  columns.width = 96;
  EXPECT_EQ(extents_of(columns, 5, small_model()).heads, 96u) << "which need not be whole heads";
}

TEST(GeometryPass, the_graph_as_it_is_built_moves_each_head_three_times) {
  const OperatorGraph graph = build_graph(small_model(), {.fuse = Fuse::none});
  EXPECT_EQ(moves_in(graph), 2u * 3 * 4) << "q, k, v and the result: under other extents, heads first, rows first";
  EXPECT_EQ(graph[inputs_of(graph, id_of(graph, "blk.1.attention.scores")).front()].name, "blk.1.q_by_row");
  EXPECT_EQ(graph[inputs_of(graph, id_of(graph, "blk.1.attn_output")).front()].name, "blk.1.attended_heads");
}

// Who reads through all of it is where it was before anything was built apart.
TEST(GeometryPass, a_model_s_moves_are_all_read_through) {
  for (const bool qk_norm : {false, true}) {
    ModelConfig config = small_model();
    config.sub_norms = qk_norm;
    config.qk_norm = qk_norm ? QkNorm::heads : QkNorm::none;
    const OperatorGraph graph = build_graph(config);
    EXPECT_EQ(moves_in(graph), 0u);
    std::vector<std::string> layer;
    for (const OperatorId id : execution_order(graph)) {
      const Operator& op = graph[id];
      if (op.layer == 1 && op.block == BlockKind::attention) layer.push_back(op.name.substr(6) + " > " + op.output);
    }
    const std::vector<std::string> plain{"attn_norm > normed", "attn_q > q",         "attn_k > k", "attn_v > v",
                                         "rope_q > q",         "rope_k > k",         "kv_append > kv", "attention > attended",
                                         "attn_output > projected", "attn_residual > x"};
    const std::vector<std::string> normed{"attn_norm > normed", "attn_q > q",   "attn_k > k",
                                          "attn_v > v",         "attn_q_norm > q", "attn_k_norm > k",
                                          "rope_q > q",         "rope_k > k",   "kv_append > kv",
                                          "attention > attended", "attn_sub_norm > attended_normed", "attn_output > projected",
                                          "attn_residual > x"};
    EXPECT_EQ(layer, qk_norm ? normed : plain);
    EXPECT_EQ(graph[inputs_of(graph, id_of(graph, "blk.1.attention")).front()].name, "blk.1.rope_q");
    EXPECT_EQ(graph[inputs_of(graph, id_of(graph, "blk.1.kv_append")).at(1)].name, "blk.1.attn_v");
  }
}

TEST(GeometryPass, a_chain_that_moves_something_is_one_operator) {
  OperatorGraph graph;
  const OperatorId x = add(graph, ops::Rope{}, "x", {});
  const OperatorId heads = add(graph, ops::Move{}, "heads", {x}, {kReshape});
  const OperatorId first = add(graph, ops::Move{}, "first", {heads}, {kHeadsFirst});
  add(graph, ops::Attention{}, "reader", {first});
  const OperatorGraph fused = fuse_moves(graph, small_model());
  ASSERT_EQ(boost::num_vertices(fused), 3u);
  const OperatorId move = id_of(fused, "first");
  EXPECT_EQ(fused[move].path, (std::vector{kReshape, kHeadsFirst}));
  EXPECT_EQ(fused[inputs_of(fused, move).front()].name, "x");
  EXPECT_EQ(elements(regions_of(fused[move].path, {5, 4, 16})), 5u * 64) << "once, not twice";
}

TEST(GeometryPass, what_others_read_stays_as_it_is) {
  OperatorGraph graph;
  const OperatorId x = add(graph, ops::Rope{}, "x", {});
  const OperatorId first = add(graph, ops::Move{}, "first", {x}, {kHeadsFirst});
  const OperatorId back = add(graph, ops::Move{}, "back", {first}, {kRowsFirst});
  add(graph, ops::Add{}, "both", {first, back});
  EXPECT_EQ(moves_in(fuse_moves(graph, small_model())), 2u) << "heads first is read by somebody else";

  OperatorGraph shared;
  const OperatorId y = add(shared, ops::Rope{}, "y", {});
  const OperatorId copy = add(shared, ops::Move{}, "copy", {y}, {kReshape});
  const OperatorId in_place = add(shared, ops::Rope{}, "turned", {copy});
  shared[in_place].output = "copy";
  add(shared, ops::Add{}, "sum", {y, in_place});
  const OperatorGraph fused = fuse_moves(shared, small_model());
  EXPECT_EQ(moves_in(fused), 0u);
  EXPECT_EQ(fused[id_of(fused, "turned")].output, "copy") << "y is read afterwards, so it must not be written in place";
}

}  // namespace
}  // namespace vitro
