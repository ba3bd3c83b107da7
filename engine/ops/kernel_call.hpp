// A KernelCall says what to compute and where its operands are. It carries no cost: count(call) derives the work, and
// the device model prices it.
#pragma once
#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/ops/operators.hpp"
#include "engine/ops/region.hpp"
#include "engine/tensor/view.hpp"

namespace vitro {

// A registered kernel implementation's numeric contract: format and accumulation order, whatever instruction set runs
// it. Also the key of a device's price table. Names are in engine/ops/variants.hpp.
enum class VariantId : std::uint16_t { none = 0 };

// How an accelerator carries a product out, where its price table knows several ways for one format: the table's name of it.
// The result is the variant's, whatever way is taken. docs/design/npu.md and docs/design/gpu.md say what each of them does.
enum class Method : std::uint8_t {
  automatic, lut, fused, two_level, scaled_tables, convert, convert_in_halves, copy, scatter, uncoalesced, native, image, buffer, file
};
std::string_view to_string(Method method);

struct SeqPos {
  std::uint32_t sequence = 0, position = 0;
  friend auto operator<=>(const SeqPos&, const SeqPos&) = default;
};
// The rows of a step, shared by all its calls. They are also the identity of the work: the key of draws, recordings and
// the decision log.
using Batch = std::shared_ptr<const std::vector<SeqPos>>;

inline constexpr Bytes kRowOffsetUnit = 64;  // of KernelCall::row_offsets: a cache line

struct Slice {
  std::uint32_t first = 0, count = ~0u;  // ~0: to the end
  friend bool operator==(const Slice&, const Slice&) = default;
};

// In KernelCall::expert of a route: the router of `layer` is asked ahead, on another layer's input; its outcome is a guess.
inline constexpr std::int16_t kForeseen = 0x7ffe;

struct KernelCall {
  Op op;
  VariantId variant{};
  std::int16_t layer = -1;
  std::int16_t expert = -1;
  // matmul: a number for what its activations hold; products with the same one have the same activations, bit for bit. 0: none.
  std::uint32_t activations = 0;
  // An earlier product on this unit had them, in the same contract: variant::kInt8 and kInt8Tables keep what they made.
  bool quantised_before = false;
  Method method = Method::automatic;  // matmul, precompute
  Slice slice;
  IndexList rows;  // matmul, glu, select, accumulate: only these rows of the slice, ascending; null means all
  // matmul, accumulate: where each of `rows` lies, in kRowOffsetUnit from the first operand's offset: neurons in a cache stand
  // in any order. Null: row r lies behind r others. Requires: as many as rows; Layout::rows. copy: engine/ops/copy.hpp.
  IndexList row_offsets;
  CopyRegionList regions;  // move: what goes where
  boost::container::static_vector<View, 4> in;
  boost::container::static_vector<View, 1> out;
  Batch batch;

  template <class... T>
  bool is() const {
    return vitro::is<T...>(op);
  }
  // Requires: is<T>().
  template <class T>
  const T& get() const {
    return std::get<T>(op);
  }
};

// A number for KernelCall::activations that no activations of this process have yet.
std::uint32_t number_activations();

// Pure: bytes by placement, arithmetic and memory runs that a call needs. Tested against the reference kernels' tallies.
struct WorkCounts {
  std::array<Bytes, kPlacements> read{}, written{};
  std::uint64_t macs = 0;         // multiply-adds on weights and KV
  std::uint64_t elementwise = 0;  // other arithmetic, in scalar operations (exp counts as 8)
  std::uint64_t lookups = 0, conversions = 0;
  std::uint32_t row_runs = 0;  // contiguous runs of weight bytes
};
WorkCounts count(const KernelCall& call);

struct RunResult {
  Status status;
  // One entry per call of the chain that had an outcome, in chain order.
  std::vector<Outcome> outcomes;
  std::exception_ptr error;  // a kernel threw: run() and launch() rethrow it in the awaiting coroutine
};

// Whether run() returns the neurons that are active: a glu that is asked to, and every select.
bool reports_active(const KernelCall& call);

// What a trace says of a call beside its operator: "layer 3, expert 1, 0+128". The same on all machines.
std::string describe(const KernelCall& call);

}  // namespace vitro
