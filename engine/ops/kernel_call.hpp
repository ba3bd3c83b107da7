// A KernelCall says what to compute and where its operands are. It carries no cost: count(call) derives the work, and
// the device model prices it.
#pragma once
#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/tensor/view.hpp"

namespace vitro {

// Operand lists are given in the order in which `in` and `out` hold them. B is the number of (sequence, position) rows
// of the call's batch; activations are float32, row-major. [slice] marks the dimension that KernelCall::slice cuts:
// kernels get whole operands and touch only their slice of it. engine/ops/contract.hpp has the details.
enum class Op : std::uint8_t {
  embed,       // in: table [V, D], tokens index32 [B]                 out: [B, D]
  rms_norm,    // in: x [B, D] or [B, heads, D] [slice heads], weight  out: as x; params: eps; weight f32 [D]
  matmul,      // in: W [N, K] [slice N], x [B, K], scales?, bias?     out: [B, N]; scales of q4_nibbles, bias f32 [N]
  rope,        // in: x [B, heads*dim] [slice heads], factors f32?     out: x rotated; params: base, rotary dims, style
  kv_append,   // in: k [B, KVH*dim], v, block table [B, blocks]       out: pool [slice its heads]
  attention,   // in: q [B, H*dim], pool, block table [B, blocks]      out: [B, H*dim] [slice pool's heads]; params: scale, window
  glu,         // in: gate [B, N], up [B, N] [slice N]                 out: act(gate) * up; params: activation
  add,         // in: a [B, N], b [B, N] [slice N]                     out: a + b
  gather,      // in: x [B, D], index32 [R]                            out: [R, D]
  route,       // in: logits [B, E]                                    out: -; outcome: experts; params: top-k, renormalise
  expert_sum,  // in: partial [S, N], then row table, weights          out: [B, N] [slice N]; ascending expert order
  reduce,      // in: partials [P, B, N] [slice N]                     out: [B, N]; ascending partial order
  sample,      // in: logits [B, V], uniforms f32 [B]                  out: -; outcome: tokens; params: temperature, k, p
  copy,        // in: x [R, N]                                         out: x, converted to the format of the output view; or, with
               //                                                      places, its rows from anywhere to anywhere
  select,      // in: scores [B, N] [slice N]                          out: -; outcome: active neurons; params: threshold, activation
  accumulate,  // in: W transposed [N, D] [slice N], h [B, N], scales? out: [B, D] = sum over n of h_n * W_n
  precompute,  // in: x [B, K]; params: Format of the weights       out: -; tables that the unit keeps for products with this x
  softmax,     // in: x [B, N]                                      out: [B, N]; params: Exponential, times it is done over
};
std::string_view to_string(Op op);

// A registered kernel implementation's numeric contract: format and accumulation order, whatever instruction set runs
// it. Also the key of a device's price table. Names are in engine/ops/variants.hpp.
enum class VariantId : std::uint16_t { none = 0 };

// How an accelerator carries a product out, where its price table knows several ways for one format: the table's name of it.
// The result is the variant's, whatever way is taken. docs/design/npu.md says what each of them does.
enum class Method : std::uint8_t { automatic, lut, fused, convert, copy, scatter, uncoalesced, native };
std::string_view to_string(Method method);

// How an accelerator makes exp of a softmax that stands alone: its price table's name is `softmax.exp_table` and its like
// (TTS-NPU 5.2.1). Numbers are exp's, whatever way is taken.
enum class Exponential : std::uint8_t { table, f16, f32 };
std::string_view to_string(Exponential exponential);

struct SeqPos {
  std::uint32_t sequence = 0, position = 0;
  friend auto operator<=>(const SeqPos&, const SeqPos&) = default;
};
// The rows of a step, shared by all its calls. They are also the identity of the work: the key of draws, recordings and
// the decision log.
using Batch = std::shared_ptr<const std::vector<SeqPos>>;

using IndexList = std::shared_ptr<const std::vector<std::uint32_t>>;

inline constexpr Bytes kPlaceUnit = 64;  // of KernelCall::places: a cache line

struct Slice {
  std::uint32_t first = 0, count = ~0u;  // ~0: to the end
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct KernelCall {
  Op op{};
  VariantId variant{};
  std::int16_t layer = -1;
  std::int16_t expert = -1;
  Method method = Method::automatic;  // matmul, precompute
  bool precomputed = false;           // matmul by look-up: a `precompute` of the same x came before it on this unit
  bool report_active = false;         // glu: return the neurons whose gate is not zero as ActiveSet (for recorders and policies)
  Slice slice;
  IndexList rows;  // matmul, glu, select, accumulate: only these rows of the slice, ascending; null means all
  // matmul, accumulate: where each of `rows` lies, in kPlaceUnit from the first operand's offset: neurons in a cache stand
  // in any order. Null: row r lies behind r others. Requires: as many as rows; Layout::rows. copy: contract.hpp.
  IndexList places;
  boost::container::static_vector<View, 4> in;
  boost::container::static_vector<View, 1> out;
  Batch batch;
  std::array<float, 4> params{};
};

// Pure: bytes by placement, arithmetic and memory runs that a call needs. Tested against the reference kernels' tallies.
struct WorkCounts {
  std::array<Bytes, kPlacements> read{}, written{};
  std::uint64_t macs = 0;         // multiply-adds on weights and KV
  std::uint64_t elementwise = 0;  // other arithmetic, in scalar operations (exp counts as 8)
  std::uint64_t lookups = 0, conversions = 0;
  std::uint32_t row_runs = 0;  // contiguous runs of weight bytes
};
WorkCounts count(const KernelCall& call);  // engine/kernels

// What depends on data comes back from run(), and nowhere else.
struct ActiveSet {
  std::vector<IndexList> rows;  // per batch row, ascending neuron ids of the whole layer or expert
};
struct ExpertChoice {
  std::vector<std::uint16_t> ids;  // by descending weight
  std::vector<float> weights;
};
struct TokenChoice {
  std::vector<std::int32_t> tokens;  // per batch row
};
using Outcome = std::variant<std::monostate, ActiveSet, std::vector<ExpertChoice>, TokenChoice>;

struct RunResult {
  Status status;
  // One entry per call of the chain that had an outcome, in chain order.
  std::vector<Outcome> outcomes;
  std::exception_ptr error;  // a kernel threw: run() and launch() rethrow it in the awaiting coroutine
};

// What a trace says of a call beside its operator: "layer 3, expert 1, 0+128". The same on all machines.
std::string describe(const KernelCall& call);

}  // namespace vitro
