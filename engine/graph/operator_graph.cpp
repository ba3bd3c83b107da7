#include "engine/graph/operator_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/topological_sort.hpp>
#include <cmath>
#include <ostream>

#include "engine/base/check.hpp"
#include "engine/graph/geometry_pass.hpp"
#include "engine/graph/norm_pass.hpp"

namespace vitro {
namespace {

class Builder {
 public:
  Builder(const ModelConfig& config, GraphOptions options) : c_(config), options_(options) {}

  OperatorGraph build() {
    OperatorId x = embed();
    for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
      layer_ = static_cast<std::int16_t>(layer);
      x = attention(x);
      x = c_.experts > 0 ? experts(x) : dense_ffn(x);
    }
    layer_ = -1;
    head(x);
    return std::move(graph_);
  }

 private:
  OperatorId add(Op op, std::string_view name, Split split, std::string_view output, std::uint32_t width,
                 std::initializer_list<OperatorId> inputs, std::optional<Role> weight = {}) {
    Operator node;
    node.op = op;
    node.name = layer_ < 0 ? std::string(name) : fmt::format("blk.{}.{}", layer_, name);
    node.layer = layer_;
    node.block = block_;
    node.split = split;
    node.rows = rows_;
    node.output = output;
    node.width = width;
    node.weight = weight;
    const OperatorId id = boost::add_vertex(std::move(node), graph_);
    std::uint8_t index = 0;
    for (const OperatorId input : inputs) boost::add_edge(input, id, Operand{index++}, graph_);
    return id;
  }

  OperatorId norm(OperatorId x, std::string_view name, Role weight) { return norm(x, name, weight, "normed", c_.width); }
  OperatorId norm(OperatorId x, std::string_view name, Role weight, std::string_view output, std::uint32_t width) {
    const OperatorId rms = add(ops::InverseRms{c_.norm_eps}, fmt::format("{}.rms", name), Split::replicated, "rms", 1, {x});
    return add(ops::ScaleRows{}, name, Split::replicated, output, width, {x, rms}, weight);
  }
  // Of each head by itself, in place.
  OperatorId head_norm(OperatorId x, std::string_view name, Role weight) {
    const std::string output = graph_[x].output;
    return add(ops::RmsNorm{c_.norm_eps}, name, Split::kv_heads, output, graph_[x].width, {x}, weight);
  }

  OperatorId matmul(OperatorId x, std::string_view name, std::string_view output, std::uint32_t width, Role weight) {
    return add(ops::Matmul{}, name, Split::rows, output, width, {x}, weight);
  }

  OperatorId move(OperatorId x, std::string_view name, std::string_view output, Movement movement) {
    const OperatorId id = add(ops::Move{}, name, Split::kv_heads, output, graph_[x].width, {x});
    graph_[id].path = {movement};
    return id;
  }
  // What a product writes, as heads: the same bytes under other extents.
  OperatorId heads_of(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_heads", tensor);
    return move(x, name, name, {});
  }
  // Attention of an exported model has heads first, our kernels have rows first.
  OperatorId heads_first(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_by_head", tensor);
    return move(x, name, name, {HeadOrder::rows_first, HeadOrder::heads_first});
  }
  OperatorId rows_first(OperatorId x, std::string_view tensor) {
    const std::string name = fmt::format("{}_by_row", tensor);
    return move(x, name, name, {HeadOrder::heads_first, HeadOrder::rows_first});
  }

  OperatorId residual(OperatorId x, OperatorId y, std::string_view name) {
    return add(ops::Add{}, name, Split::rows, "x", c_.width, {x, y});
  }

  OperatorId embed() {
    block_ = BlockKind::embed;
    return add(ops::Embed{}, "token_embd", Split::single, "x", c_.width, {}, Role::token_embedding);
  }

  OperatorId attention(OperatorId x) {
    block_ = BlockKind::attention;
    const OperatorId normed = norm(x, "attn_norm", Role::attn_norm);
    OperatorId q = matmul(normed, "attn_q", "q", c_.q_width(), Role::attn_q);
    OperatorId k = matmul(normed, "attn_k", "k", c_.kv_width(), Role::attn_k);
    OperatorId v = matmul(normed, "attn_v", "v", c_.kv_width(), Role::attn_v);
    if (c_.qkv_bias) {
      graph_[q].bias = Role::attn_q_bias;
      graph_[k].bias = Role::attn_k_bias;
      graph_[v].bias = Role::attn_v_bias;
    }
    q = heads_of(q, "q");
    k = heads_of(k, "k");
    v = heads_of(v, "v");
    if (c_.qk_norm) {
      q = head_norm(q, "attn_q_norm", Role::attn_q_norm);
      k = head_norm(k, "attn_k_norm", Role::attn_k_norm);
    }
    const RopeConfig& rope = c_.rope;
    const ops::Rope turn{rope.base, rope.dims, rope.style, rope.position_scale};
    q = add(turn, "rope_q", Split::kv_heads, std::string(graph_[q].output), c_.q_width(), {q});
    k = add(turn, "rope_k", Split::kv_heads, std::string(graph_[k].output), c_.kv_width(), {k});
    q = rows_first(heads_first(q, "q"), "q");
    k = rows_first(heads_first(k, "k"), "k");
    v = rows_first(heads_first(v, "v"), "v");
    OperatorId kept = add(ops::KvAppend{c_.layers}, "kv_append", Split::kv_heads, "kv", 0, {k, v});
    if (options_.stages_kv) kept = add(ops::KvStage{c_.layers}, "kv_stage", Split::kv_heads, "kv_staged", 0, {kept});
    const ops::Attention attention{1.0f / std::sqrt(static_cast<float>(c_.head_dim)), c_.window, c_.layers};
    OperatorId attend = add(attention, "attention", Split::kv_heads, "attended", c_.q_width(), {q, kept});
    attend = heads_of(rows_first(heads_first(attend, "attended"), "attended"), "attended");
    if (c_.sub_norms) attend = norm(attend, "attn_sub_norm", Role::attn_sub_norm, "attended_normed", c_.q_width());
    const OperatorId out = matmul(attend, "attn_output", "projected", c_.width, Role::attn_output);
    return residual(x, out, "attn_residual");
  }

  OperatorId dense_ffn(OperatorId x) {
    block_ = BlockKind::ffn;
    const OperatorId normed = norm(x, "ffn_norm", Role::ffn_norm);
    return residual(x, gated_ffn(normed), "ffn_residual");
  }

  // `route`: an edge without data, so that no order can put an expert before the choice of experts.
  OperatorId gated_ffn(OperatorId normed, std::optional<OperatorId> route = {}) {
    const std::string_view output = rows_ == RowSet::routed ? "partial" : "down";
    if (options_.whole_ffns) {
      const OperatorId ffn = add(ops::Reduce{}, "ffn_clusters", Split::single, output, c_.width, {normed});
      graph_[ffn].whole_ffn = true;
      if (route) boost::add_edge(*route, ffn, Operand{1}, graph_);
      return ffn;
    }
    const OperatorId gate = matmul(normed, "ffn_gate", "gate", c_.ffn, Role::ffn_gate);
    const OperatorId up = matmul(normed, "ffn_up", "up", c_.ffn, Role::ffn_up);
    if (route) {
      boost::add_edge(*route, gate, Operand{1}, graph_);
      boost::add_edge(*route, up, Operand{1}, graph_);
    }
    OperatorId glu = add(ops::Glu{c_.activation}, "ffn_act", Split::rows, "hidden", c_.ffn, {gate, up});
    if (c_.sub_norms) glu = norm(glu, "ffn_sub_norm", Role::ffn_sub_norm, "hidden_normed", c_.ffn);
    return matmul(glu, "ffn_down", output, c_.width, Role::ffn_down);
  }

  OperatorId experts(OperatorId x) {
    block_ = BlockKind::ffn;
    const OperatorId normed = norm(x, "ffn_norm", Role::ffn_norm);
    const OperatorId logits = matmul(normed, "ffn_gate_inp", "router_logits", c_.experts, Role::router);
    const OperatorId route = add(ops::Route{c_.experts_used, c_.renormalise_experts}, "route", Split::single, "experts", 0, {logits});
    rows_ = RowSet::routed;
    const OperatorId partial = gated_ffn(normed, route);
    rows_ = RowSet::all;
    const OperatorId sum = add(ops::ExpertSum{}, "expert_sum", Split::rows, "down", c_.width, {partial, route});
    return residual(x, sum, "ffn_residual");
  }

  void head(OperatorId x) {
    block_ = BlockKind::head;
    rows_ = RowSet::sampled;
    const OperatorId last = add(ops::Gather{}, "last_rows", Split::replicated, "last", c_.width, {x});
    const OperatorId normed = norm(last, "output_norm", Role::output_norm);
    const Role weight = c_.tied_embedding ? Role::token_embedding : Role::output;
    const OperatorId logits = matmul(normed, "output", "logits", c_.vocab, weight);
    add(ops::Sample{}, "sample", Split::single, "tokens", 0, {logits});
  }

  const ModelConfig& c_;
  const GraphOptions options_;
  OperatorGraph graph_;
  std::int16_t layer_ = -1;
  BlockKind block_ = BlockKind::embed;
  RowSet rows_ = RowSet::all;
};

}  // namespace

OperatorGraph build_graph(const ModelConfig& config, GraphOptions options) {
  OperatorGraph graph = Builder(config, options).build();
  if (options.fuse != Fuse::none) graph = fuse_moves(graph, config);
  if (options.fuse == Fuse::all) graph = fuse_norms(graph);
  return graph;
}

std::vector<OperatorId> execution_order(const OperatorGraph& graph) {
  std::vector<OperatorId> order;
  try {
    boost::topological_sort(graph, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    throw RunError("the operator graph has a cycle");
  }
  std::reverse(order.begin(), order.end());
  // Depth-first order depends on edge order; the order of construction is also topological and easier to follow. Use
  // it unless a pass has appended operators in the middle.
  std::vector<OperatorId> built(boost::num_vertices(graph));
  for (OperatorId id = 0; id < built.size(); ++id) built[id] = id;
  const auto [first, last] = boost::edges(graph);
  const bool forward = std::all_of(first, last, [&](const auto& edge) { return boost::source(edge, graph) < boost::target(edge, graph); });
  return forward ? built : order;
}

std::vector<OperatorId> inputs_of(const OperatorGraph& graph, OperatorId id) {
  std::vector<OperatorId> inputs(boost::in_degree(id, graph));
  const auto [first, last] = boost::in_edges(id, graph);
  for (auto edge = first; edge != last; ++edge) inputs.at(graph[*edge].index) = boost::source(*edge, graph);
  return inputs;
}

void write_dot(std::ostream& out, const OperatorGraph& graph) {
  constexpr std::string_view kColours[] = {"#fde0c5", "#cfe3f5", "#d5ecd4", "#e8d9f1"};
  out << "digraph G {\nnode [fontname=\"Helvetica\"];\nedge [fontname=\"Helvetica\", fontsize=9];\n";
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    const Operator& op = graph[id];
    out << fmt::format("{}[label=\"{}\\n{}\", shape=box, style=\"rounded,filled\", fillcolor=\"{}\"];\n", id, op.name, to_string(op.op),
                       kColours[static_cast<std::size_t>(op.block)]);
  }
  const auto [first, last] = boost::edges(graph);
  for (auto edge = first; edge != last; ++edge) {
    const OperatorId source = boost::source(*edge, graph);
    const Operator& from = graph[source];
    const std::string width = from.width > 0 ? fmt::format(" [{}]", from.width) : "";
    out << fmt::format("{}->{} [label=\"{}{}\"];\n", source, boost::target(*edge, graph), from.output, width);
  }
  out << "}\n";
}

}  // namespace vitro
