// The operators of a model and the tensors between them, as a Boost.Graph graph. Families differ only in how it is
// built; schedulers lower it (engine/graph/lowering.hpp), `vitro graph MODEL --dot` draws it.
#pragma once
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_config.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

enum class BlockKind : std::uint8_t { embed, attention, ffn, head };

// How an operator may be cut over units.
enum class Split : std::uint8_t {
  replicated,  // every unit computes its own copy: cheaper than a barrier
  rows,        // output columns [0, width): each unit writes a range
  kv_heads,    // KV heads, each with its group of query heads
  single,      // one unit
};

// Which rows of the step an operator works on.
enum class RowSet : std::uint8_t {
  all,      // every (sequence, position) of the step
  sampled,  // those whose next token is wanted
  routed,   // those that chose the expert at hand
};

// How q, k, v and the result of attention lie in memory: [rows, heads, dim] or [heads, rows, dim].
enum class HeadOrder : std::uint8_t { rows_first, heads_first };
struct Movement {
  HeadOrder from{}, to{};
  friend auto operator<=>(const Movement&, const Movement&) = default;
};

struct Operator {
  Op op;             // what the step at hand sets stays as it is: pool_layers, Sample, Precompute
  std::string name;  // as the weight: "blk.3.attn_q"; unique
  std::int16_t layer = -1;
  BlockKind block{};
  Split split{};
  RowSet rows = RowSet::all;
  std::string output;       // tensor written; the same name in every layer, so buffers are shared
  std::uint32_t width = 0;  // elements of the output per row
  std::optional<Role> weight, bias;
  std::optional<Role> adapts;  // of a bypass: the matrix whose product it adds to (engine/graph/lora_pass.hpp)
  std::vector<Movement> path;  // of a Move: what it does, one after the other (engine/graph/geometry_pass.hpp)
  bool whole_ffn = false;      // an FfnBlock carries out all of gate, up, activation and down (engine/parts/ffn/ffn_block.hpp)

  template <class... T>
  bool is() const {
    return vitro::is<T...>(op);
  }
};

struct Operand {
  std::uint8_t index = 0;  // which input of the consumer; weights are not edges
};

using OperatorGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Operator, Operand>;
using OperatorId = OperatorGraph::vertex_descriptor;

// What passes make of the graph that a model is built as, in which each operator computes one thing or moves data.
enum class Fuse : std::uint8_t {
  none,      // it stays
  geometry,  // chains of moves become one, and what can be read where it is, is not moved
  all,       // and an RMSNorm is one operator
};
inline constexpr std::array<std::string_view, 3> kFuseNames{"none", "geometry", "all"};

struct GraphOptions {
  bool whole_ffns = false;  // each FFN is one operator, for a policy that carries it out by itself
  bool stages_kv = false;   // attention follows a kv_stage, for a unit that can not read keys and values as they are kept
  Fuse fuse = Fuse::all;
};
// Built unfused, then through the passes that `options` wants.
OperatorGraph build_graph(const ModelConfig& config, GraphOptions options = {});

// Producers before consumers, and the order of construction otherwise. Throws RunError on a cycle.
std::vector<OperatorId> execution_order(const OperatorGraph& graph);
// Producers of an operator's inputs, by operand index.
std::vector<OperatorId> inputs_of(const OperatorGraph& graph, OperatorId id);

void write_dot(std::ostream& out, const OperatorGraph& graph);

}  // namespace vitro
