// The operators of one pass over a model, as a graph that a scheduler lowers vertex by vertex: every vertex is one kind of
// KernelCall, every edge an activation that one call writes and another reads. Families are data: build_graph() reads the
// configuration, nothing after it asks for a family's name.
#pragma once
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

// Part of the model that a vertex belongs to.
enum class Stage : std::uint8_t { embed, attention, ffn, moe, head };
std::string_view to_string(Stage stage);

// How an operator may be shared among units. A slice is KernelCall::slice, over the dimension that the contract marks.
enum class Split : std::uint8_t {
  single,      // one unit, once: it has an outcome, an effect or nothing worth cutting
  replicated,  // cheap and pure, not sliced: one unit, or every unit that needs the result for itself
  rows,        // slices of output rows
  heads,       // slices of query heads; for matmul head_dim rows each
  kv_heads,    // slices of KV heads, each with its query heads
  neurons,     // slices or sets of FFN neurons
};
std::string_view to_string(Split split);

// What each entry of KernelCall::in is, in contract order.
enum class Operand : std::uint8_t {
  activation,         // an in-edge carries it
  weight,             // Operator::weight
  bias,               // Operator::bias, always the last operand; absent when that is empty
  kv_pool,            // the layer's part of the KV pool; an in-edge from kv_append stands for it
  runtime,            // the scheduler supplies it: token ids, block tables, row lists, uniforms
  routing,            // made by the scheduler from the route's outcome; an in-edge from route stands for it
};
// The operands of an operator; for gather inside a MoE stage the row list is routing, not runtime.
std::vector<Operand> operands_of(Op op, Stage stage);

struct Operator {
  Op op{};
  std::string name;                // "blk.3.ffn_up", unique
  std::optional<Role> weight;
  std::optional<Role> bias;        // matmul: the bias; rope: the frequency divisors
  std::int16_t layer = -1;
  Stage stage{};
  Split split{};
  bool per_expert = false;         // one call per chosen expert, with KernelCall::expert set
  std::array<std::uint32_t, 2> shape{};  // of the output per batch row: {N, 0} or {heads, dim}; {0, 0}: no output
};

// An activation. `operand` is its index in the reader's KernelCall::in.
struct Flow {
  std::string tensor;
  std::uint8_t operand = 0;
};

using OperatorGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operator, Flow>;
using OperatorId = boost::graph_traits<OperatorGraph>::vertex_descriptor;

// From token ids to the sampled token. Ends in gather (the rows whose next token is wanted), norm, logits, sample.
// Already checked by validate().
OperatorGraph build_graph(const ModelConfig& config);

// A topological order: of the operators that are ready, always the one that was added first. Requires: acyclic.
std::vector<OperatorId> execution_order(const OperatorGraph& graph);

// The in-edges of an operator by ascending operand index.
struct Input {
  OperatorId from;
  std::uint8_t operand;
};
std::vector<Input> inputs_of(const OperatorGraph& graph, OperatorId id);

// Throws ConfigError naming the operator when the graph has a cycle, a name twice, an operator whose in-edges are not
// exactly the operands of its contract, or one without the weight that it needs.
void validate(const OperatorGraph& graph);

// Graphviz text: `vitro graph MODEL --dot`.
std::string to_dot(const OperatorGraph& graph);

}  // namespace vitro
