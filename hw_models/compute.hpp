// ComputeModel: the contract of everything that computes: a CPU core, an NPU, a GPU. It prices work; it computes nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/exponential.hpp"
#include "engine/base/units.hpp"
#include "hw_models/callback.hpp"

namespace vitro::hw {

// A model's number for (kernel variant, weight format), asked for once and then used per call.
struct KernelCost {
  std::uint16_t id = 0;
  bool from_table = false;   // false: priced by the model's general rate, and the result says so
  bool per_element = false;  // the table prices Work::elements
};

// One kernel call in numbers.
struct Work {
  std::uint16_t kernel = 0;        // KernelCost::id
  std::uint32_t rows = 1;          // batch rows; matrix units pad them to whole tiles
  std::uint32_t columns = 0;       // of a product's output (the slice of it); 0: no product
  std::uint32_t depth = 0;         // what a product sums over
  bool transposed = false;         // of a product: the first operand's rows are what is summed over
  Bytes read_bytes = 0;            // from DRAM
  Bytes weight_bytes = 0;          // of these, the first operand of a product
  Bytes written_bytes = 0;         // to DRAM
  Bytes recent_read_bytes = 0;     // of those read, activations that a call before this one has just written
  Bytes recent_written_bytes = 0;  // of those written, activations that the next calls read
  Bytes tcm_bytes = 0;             // read from and written to the unit's own memory
  std::uint64_t macs = 0;          // multiply-adds on weights and KV
  std::uint64_t elementwise = 0;   // other arithmetic, scalar operations
  bool has_own_rate = false;       // without multiply-adds: `kernel` is the table's entry for the operator itself
  std::uint64_t elements = 0;      // of an operator that the table may price by element (has_own_rate); scores of attention
  std::uint64_t lookups = 0, conversions = 0;
  std::uint32_t group = 0;          // weights that share a scale; 0: not said
  std::uint32_t weight_bits = 0;    // of a product's weight, without its share of scales
  bool zero_points = false;         // weights have a zero point for each group, to be taken off
  std::uint64_t table_inputs = 0;   // activations that look-up tables are made of in this call
  bool rounds_activations = false;  // they come as floats and become int8 first
  std::uint16_t rounding = 0;       // KernelCost::id of the price for that
  Bytes table_bytes = 0;            // of a product: tables that the unit's own memory holds meanwhile, whoever made them
  std::uint32_t row_runs = 0;       // contiguous runs of weight bytes
  bool in_places = false;           // of a product: each row of weights lies in a place of its own
  std::uint32_t sequence_rows = 1;  // attention: batch rows that share their sequence's keys and values
  std::uint32_t query_heads = 1;    // attention: heads of one batch row that share keys and values
  // Attention on a core: products of queries with keys and values that several rows of the batch meet in one pass, and how many queries
  // pass together. The rest passes with the query heads of one row.
  std::uint64_t shared_macs = 0;
  std::uint32_t tile_queries = 1;
  bool has_own_softmax = false;     // attention: the softmax of its scores has a price of its own, and `elementwise` is the rest
  std::uint16_t softmax = 0;        // KernelCost::id of that price
  // Attention as one call: heads of keys and values that it computes, and their columns. in_blocks: `softmax` is the price of a block of
  // keys with all that its step does, and `quotient` (KernelCost::id) that of the results.
  std::uint32_t kv_heads = 0, head_columns = 0;
  bool in_blocks = false;
  std::uint16_t quotient = 0;
  Exponential exponential = Exponential::table;  // in blocks: a table takes room
  // Of the bytes read, those of the operand that outlives a step (weights, keys and values), and what has moved since a call
  // read them last: through this unit, and through all units. Never read before: kNever.
  static constexpr Bytes kNever = ~Bytes{0};
  Bytes reused_bytes = 0, moved_here = kNever, moved_anywhere = kNever;
  std::optional<double> cycles;  // what prepare() has found
  bool operator==(const Work&) const = default;
};

// What it costs to hand work over, apart from the work.
struct DispatchCosts {
  Picoseconds wake_up{0};       // an idle unit: from submission to its first instruction
  Picoseconds spin{0};          // how long it polls for more after its last instruction, and needs no wake-up
  Picoseconds hand_back{0};     // from its last instruction to whoever waits
  Picoseconds build{0};         // of one graph that was not built ahead of time
  Picoseconds load{0};          // one graph, apart from moving its bytes
  Picoseconds switch_graph{0};  // before a launch of another graph than the last
  double switch_activity = 0;   // share of the unit's dynamic power that it draws meanwhile
  Bytes session_limit = 0;      // bytes that it can map; 0: no limit of its own
  bool static_graphs = false;
  bool fixed_batch = false;  // a graph runs with the batch that it was built for, and with no rows chosen at run time
  // Beyond these the system runs a graph on the CPU instead; 0: no limit.
  Bytes graph_weights = 0;           // of one graph
  std::uint32_t graph_axis = 0;      // longest dimension of an operand, elements
  std::uint32_t graph_count = 0;     // graphs that are loaded at a time
  std::uint32_t shape_multiple = 1;  // sizes that suit it; others are padded to one
};

class ComputeModel {
 public:
  virtual ~ComputeModel() = default;

  virtual const DispatchCosts& dispatch() const = 0;
  virtual KernelCost kernel(std::string_view variant, std::string_view format) = 0;
  // Why the unit can not run an operator on operands of a format at all, such as "layernorm runs on the CPU"; empty: it can.
  virtual std::string objection(std::string_view /*op*/, std::string_view /*format*/) const { return {}; }
  // Of a work that is submitted many times, each time with other row_runs: what it costs apart from them. Nothing else of it may
  // change then.
  virtual void prepare(Work& /*work*/) const {}
  // `done` runs as an event at the time when the call ends. Requires: no call is in progress.
  virtual void submit(const Work& work, Callback done) = 0;
  // System work (drivers, the policy) takes the unit for `duration`: a call in progress ends that much later.
  virtual void preempt(Picoseconds duration) = 0;
  // Calls submitted from now on run at this share of the full clock, and clock() says so; one in progress keeps the clock
  // that it began with. What is clocked apart from the unit (DMA, the link to memory) stays as it is.
  virtual void set_clock_scale(double /*share*/) {}
  // The time that the call which ended last would have taken had memory answered at once, system work apart. What it took beyond
  // that it waited, and drew less (power/power.hpp). A model that does not say never waits. Requires: a call has ended.
  virtual Picoseconds computed() const { return Picoseconds::max(); }
  // What a call takes follows from its work, from the clock, and from what memory gives: nothing is remembered from one call to the next.
  virtual bool stateless() const { return false; }
  virtual Hertz clock() const = 0;  // what system work on this unit is priced with; 0 of an accelerator, which runs none
};

}  // namespace vitro::hw
