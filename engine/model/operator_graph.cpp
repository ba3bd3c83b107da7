#include "engine/model/operator_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/graphviz.hpp>
#include <functional>
#include <queue>
#include <set>
#include <sstream>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

class Builder {
 public:
  explicit Builder(const ModelConfig& config) : c_(config) {}

  OperatorGraph build() {
    OperatorId x = add({.op = Op::embed, .name = "token_embd", .weight = Role::token_embedding, .stage = Stage::embed,
                        .split = Split::single, .shape = {c_.width}}, {});
    for (layer_ = 0; layer_ < static_cast<int>(c_.layers); ++layer_) {
      x = attention(x);
      x = c_.experts > 0 ? mixture(x) : dense(x);
    }
    layer_ = -1;
    head(x);
    return std::move(graph_);
  }

 private:
  struct From {
    OperatorId id;
    std::uint8_t operand;
  };

  OperatorId add(Operator what, std::initializer_list<From> inputs) {
    what.layer = static_cast<std::int16_t>(layer_);
    const OperatorId id = boost::add_vertex(std::move(what), graph_);
    for (const From& from : inputs) boost::add_edge(from.id, id, Flow{graph_[from.id].name, from.operand}, graph_);
    return id;
  }

  std::string name(std::string_view part) const { return fmt::format("blk.{}.{}", layer_, part); }

  OperatorId norm(std::string name, Role role, Stage stage, OperatorId x) {
    return add({.op = Op::rms_norm, .name = std::move(name), .weight = role, .stage = stage, .split = Split::replicated,
                .shape = {c_.width}}, {{x, 0}});
  }

  OperatorId matmul(Role role, std::optional<Role> bias, Stage stage, Split split, std::array<std::uint32_t, 2> shape, OperatorId x,
                    bool per_expert = false) {
    return add({.op = Op::matmul, .name = name(to_string(role)), .weight = role, .bias = bias, .stage = stage, .split = split,
                .per_expert = per_expert, .shape = shape}, {{x, 1}});
  }

  OperatorId residual(std::string_view part, Stage stage, OperatorId x, OperatorId change) {
    return add({.op = Op::add, .name = name(part), .stage = stage, .split = Split::rows, .shape = {c_.width}}, {{x, 0}, {change, 1}});
  }

  OperatorId attention(OperatorId x) {
    constexpr Stage kStage = Stage::attention;
    const std::array<std::uint32_t, 2> heads{c_.heads, c_.head_dim}, kv_heads{c_.kv_heads, c_.head_dim};
    const auto bias = [&](Role role) { return c_.qkv_bias ? std::optional(role) : std::nullopt; };
    const auto factors = c_.rope_factors ? std::optional(Role::rope_factors) : std::nullopt;

    const OperatorId h = norm(name("attn_norm"), Role::attn_norm, kStage, x);
    const OperatorId q = matmul(Role::attn_q, bias(Role::attn_q_bias), kStage, Split::heads, heads, h);
    const OperatorId k = matmul(Role::attn_k, bias(Role::attn_k_bias), kStage, Split::kv_heads, kv_heads, h);
    const OperatorId v = matmul(Role::attn_v, bias(Role::attn_v_bias), kStage, Split::kv_heads, kv_heads, h);
    const OperatorId turned_q = add({.op = Op::rope, .name = name("rope_q"), .bias = factors, .stage = kStage, .split = Split::heads,
                                     .shape = heads}, {{q, 0}});
    const OperatorId turned_k = add({.op = Op::rope, .name = name("rope_k"), .bias = factors, .stage = kStage,
                                     .split = Split::kv_heads, .shape = kv_heads}, {{k, 0}});
    const OperatorId pool = add({.op = Op::kv_append, .name = name("kv_append"), .stage = kStage, .split = Split::kv_heads,
                                 .shape = kv_heads}, {{turned_k, 0}, {v, 1}});
    const OperatorId mixed = add({.op = Op::attention, .name = name("attention"), .stage = kStage, .split = Split::kv_heads,
                                  .shape = heads}, {{turned_q, 0}, {pool, 1}});
    const OperatorId out = matmul(Role::attn_output, std::nullopt, kStage, Split::rows, {c_.width}, mixed);
    return residual("attn_residual", kStage, x, out);
  }

  // gate, up, glu and down; with experts each of them once per chosen expert.
  OperatorId gated(Stage stage, OperatorId h, bool per_expert) {
    const OperatorId gate = matmul(Role::ffn_gate, std::nullopt, stage, Split::neurons, {c_.ffn}, h, per_expert);
    const OperatorId up = matmul(Role::ffn_up, std::nullopt, stage, Split::neurons, {c_.ffn}, h, per_expert);
    const OperatorId glu = add({.op = Op::glu, .name = name("ffn_glu"), .stage = stage, .split = Split::neurons,
                                .per_expert = per_expert, .shape = {c_.ffn}}, {{gate, 0}, {up, 1}});
    return matmul(Role::ffn_down, std::nullopt, stage, Split::rows, {c_.width}, glu, per_expert);
  }

  OperatorId dense(OperatorId x) {
    const OperatorId h = norm(name("ffn_norm"), Role::ffn_norm, Stage::ffn, x);
    return residual("ffn_residual", Stage::ffn, x, gated(Stage::ffn, h, false));
  }

  OperatorId mixture(OperatorId x) {
    constexpr Stage kStage = Stage::moe;
    const OperatorId h = norm(name("ffn_norm"), Role::ffn_norm, kStage, x);
    const OperatorId logits = matmul(Role::router, std::nullopt, kStage, Split::single, {c_.experts}, h);
    const OperatorId route = add({.op = Op::route, .name = name("route"), .stage = kStage, .split = Split::single}, {{logits, 0}});
    const OperatorId rows = add({.op = Op::gather, .name = name("expert_rows"), .stage = kStage, .split = Split::single,
                                 .per_expert = true, .shape = {c_.width}}, {{h, 0}, {route, 1}});
    const OperatorId partial = gated(kStage, rows, true);
    const OperatorId sum = add({.op = Op::expert_sum, .name = name("expert_sum"), .stage = kStage, .split = Split::rows,
                                .shape = {c_.width}}, {{partial, 0}, {route, 1}, {route, 2}});
    return residual("ffn_residual", kStage, x, sum);
  }

  void head(OperatorId x) {
    constexpr Stage kStage = Stage::head;
    const OperatorId last = add({.op = Op::gather, .name = "last_rows", .stage = kStage, .split = Split::single, .shape = {c_.width}},
                                {{x, 0}});
    const OperatorId h = norm("output_norm", Role::output_norm, kStage, last);
    const Role weight = c_.tied_embedding ? Role::token_embedding : Role::output;
    const OperatorId logits = add({.op = Op::matmul, .name = "output", .weight = weight, .stage = kStage, .split = Split::rows,
                                   .shape = {c_.vocab}}, {{h, 1}});
    add({.op = Op::sample, .name = "sample", .stage = kStage, .split = Split::single}, {{logits, 0}});
  }

  const ModelConfig& c_;
  OperatorGraph graph_;
  int layer_ = -1;
};

// Whether an in-edge stands for the operand.
bool has_edge(Operand operand) { return operand == Operand::activation || operand == Operand::kv_pool || operand == Operand::routing; }

[[noreturn]] void fail(const Operator& op, std::string_view problem) {
  throw ConfigError(fmt::format("operator {} ({}): {}", op.name, to_string(op.op), problem));
}

void check_operator(const OperatorGraph& graph, OperatorId id) {
  const Operator& op = graph[id];
  const std::vector<Operand> operands = operands_of(op.op, op.stage);
  std::vector<int> expected, found;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (has_edge(operands[i])) expected.push_back(static_cast<int>(i));
  }
  for (const Input& input : inputs_of(graph, id)) found.push_back(input.operand);
  if (found != expected) {
    fail(op, fmt::format("its inputs fill the operands [{}] (expected [{}])", fmt::join(found, ", "), fmt::join(expected, ", ")));
  }
  const bool needs_weight = std::find(operands.begin(), operands.end(), Operand::weight) != operands.end();
  if (needs_weight != op.weight.has_value()) fail(op, needs_weight ? "it needs a weight" : "it takes no weight");
  const bool takes_bias = std::find(operands.begin(), operands.end(), Operand::bias) != operands.end();
  if (op.bias && !takes_bias) fail(op, "it takes no bias");
}

std::vector<OperatorId> ready_first(const OperatorGraph& graph) {
  std::vector<std::size_t> missing(boost::num_vertices(graph));
  std::priority_queue<OperatorId, std::vector<OperatorId>, std::greater<>> ready;
  for (OperatorId id = 0; id < missing.size(); ++id) {
    missing[id] = boost::in_degree(id, graph);
    if (missing[id] == 0) ready.push(id);
  }
  std::vector<OperatorId> order;
  while (!ready.empty()) {
    const OperatorId id = ready.top();
    ready.pop();
    order.push_back(id);
    const auto [first, last] = boost::out_edges(id, graph);
    for (auto edge = first; edge != last; ++edge) {
      const OperatorId reader = boost::target(*edge, graph);
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  return order;
}

}  // namespace

std::string_view to_string(Stage stage) {
  constexpr std::array<std::string_view, 5> kNames{"embed", "attention", "ffn", "moe", "head"};
  return kNames.at(static_cast<std::size_t>(stage));
}

std::string_view to_string(Split split) {
  constexpr std::array<std::string_view, 6> kNames{"single", "replicated", "rows", "heads", "kv_heads", "neurons"};
  return kNames.at(static_cast<std::size_t>(split));
}

std::vector<Operand> operands_of(Op op, Stage stage) {
  using enum Operand;
  switch (op) {
    case Op::embed: return {weight, runtime};
    case Op::rms_norm: return {activation, weight};
    case Op::matmul: return {weight, activation, bias};
    case Op::rope: return {activation, bias};
    case Op::kv_append: return {activation, activation, runtime};
    case Op::attention: return {activation, kv_pool, runtime};
    case Op::glu:
    case Op::add: return {activation, activation};
    case Op::gather: return {activation, stage == Stage::moe ? routing : runtime};
    case Op::route: return {activation};
    case Op::expert_sum: return {activation, routing, routing};
    case Op::reduce:
    case Op::copy: return {activation};
    case Op::sample: return {activation, runtime};
  }
  check_failed("op", __FILE__, __LINE__, "unknown operator");
}

std::vector<Input> inputs_of(const OperatorGraph& graph, OperatorId id) {
  std::vector<Input> inputs;
  const auto [first, last] = boost::in_edges(id, graph);
  for (auto edge = first; edge != last; ++edge) inputs.push_back({boost::source(*edge, graph), graph[*edge].operand});
  std::sort(inputs.begin(), inputs.end(), [](const Input& a, const Input& b) { return a.operand < b.operand; });
  return inputs;
}

std::vector<OperatorId> execution_order(const OperatorGraph& graph) {
  std::vector<OperatorId> order = ready_first(graph);
  VITRO_CHECK(order.size() == boost::num_vertices(graph), "the operator graph has a cycle");
  return order;
}

void validate(const OperatorGraph& graph) {
  const std::vector<OperatorId> order = ready_first(graph);
  const std::set<OperatorId> reached(order.begin(), order.end());
  std::set<std::string_view> names;
  for (OperatorId id = 0; id < boost::num_vertices(graph); ++id) {
    if (!reached.contains(id)) fail(graph[id], "it lies on or behind a cycle");
    if (!names.insert(graph[id].name).second) fail(graph[id], "another operator has the same name");
    check_operator(graph, id);
  }
}

OperatorGraph build_graph(const ModelConfig& config) {
  OperatorGraph graph = Builder(config).build();
  validate(graph);
  return graph;
}

std::string to_dot(const OperatorGraph& graph) {
  std::ostringstream out;
  const auto vertex = [&](std::ostream& to, OperatorId id) {
    const Operator& op = graph[id];
    const std::string shape = op.shape[1] > 0 ? fmt::format("\\n[{}, {}]", op.shape[0], op.shape[1])
                              : op.shape[0] > 0 ? fmt::format("\\n[{}]", op.shape[0]) : "";
    to << fmt::format("[label=\"{}\\n{}{} / {}{}\"]", op.name, to_string(op.op), op.per_expert ? " per expert" : "", to_string(op.split), shape);
  };
  const auto edge = [&](std::ostream& to, const auto& e) { to << fmt::format("[label=\"{}\"]", graph[e].operand); };
  const auto whole = [](std::ostream& to) { to << "node [shape=box, fontname=\"sans-serif\"];\n"; };
  boost::write_graphviz(out, graph, vertex, edge, whole);
  return out.str();
}

}  // namespace vitro
