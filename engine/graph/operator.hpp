// One operator of a model's graph: what it computes, how it may be cut, and where its operands come from. The graph itself is in
// engine/graph/operator_graph.hpp; whoever only passes it on needs no more than this.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

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
// What a Move does. A slice of columns, rows first: of each `row` elements of the source, those from `first` on; 0: there are no others.
struct Movement {
  HeadOrder from{}, to{};
  std::uint32_t first = 0, row = 0;
  bool is_slice() const { return row > 0; }
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
  Slice part;                  // of the weight's rows, and the bias's, those of a product that has not all (engine/graph/product_pass.hpp)
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

struct OperatorGraph;
using OperatorId = std::size_t;  // numbers without gaps, in the order of construction

}  // namespace vitro
