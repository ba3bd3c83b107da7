// From a KernelCall to the numbers that a compute model prices.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "hw_models/compute.hpp"
#include "sim/call_form.hpp"

namespace vitro::sim {

// From shapes, formats and numbers of rows alone, as count() does.
using CountFunction = std::function<WorkCounts(const KernelCall&)>;

// What a kind of unit does in ways of its own.
struct UnitWays {
  bool lays_out = false;       // it has weights in panels of its own, which its graph was loaded with (engine/kernels/hexagon/panels.hpp)
  bool tiles_queries = false;  // rows of a batch pass over keys and values together, as cores' kernels do (sim/query_tiles.hpp)
};

// One per unit: looks the kernel's rate up once per (variant, weight format) and remembers what had none. A table may price an
// operator apart from the rest of its format: "int8.q4_0.rows" for products whose weights are not tiled, "int8.w2g64.lut" for
// look-ups, "float.q4_0.accumulate", "float.f32.attention", "float.f16.halves" for weights and activations in float16 (attention:
// "float.f16.halves_attention"); "lut.w4g64" for products that the call has carried out that way; "op.rope" and its like in
// elementwise operations per cycle; "softmax.exp_table", "softmax.exp_f32" for the scores of attention, or "attention.exp_table"
// and its like and "attention.quotient" for its steps and results; and "int8_activations.g64" for
// rounding the floats that look-up tables are made of, by blocks of 64.
class WorkBuilder {
 public:
  WorkBuilder(hw::ComputeModel& model, std::string core_class, const CountFunction& count, UnitWays ways = {})
      : model_(model), core_class_(std::move(core_class)), count_(count), ways_(ways) {}

  const hw::Work& build(const KernelCall& call);  // valid until the next call
  const std::set<std::string>& unpriced() const { return unpriced_; }  // "int8.q6_k on mid"

 private:
  struct Known {
    VariantId variant{};
    Format format{};
    OpKind op{};
    Layout layout{};
    Method method{};
    bool halves = false;
    hw::KernelCost price;
  };
  hw::Work work_of(const KernelCall& call);
  const hw::KernelCost& price(const KernelCall& call);
  const hw::KernelCost& operator_price(const Op& op);
  const hw::KernelCost& softmax_price(std::string_view of, Exponential exponential);  // of: "softmax" alone, or in "attention"
  const hw::KernelCost& quotient_price();
  void price_scores(const KernelCall& call, const WorkCounts& counts, hw::Work& work);
  void price_tables(const KernelCall& call, hw::Work& work) const;
  void price_rounding(const KernelCall& call, hw::Work& work);
  void take_own_layout(const KernelCall& call, hw::Work& work) const;

  hw::ComputeModel& model_;
  std::string core_class_;
  const CountFunction& count_;
  UnitWays ways_;
  std::vector<Known> known_;
  KnownWorks works_;
  hw::Work single_;  // of the last call without a form
  std::vector<std::pair<OpKind, hw::KernelCost>> operators_;
  std::vector<std::pair<std::pair<std::string_view, Exponential>, hw::KernelCost>> softmaxes_;
  std::optional<hw::KernelCost> quotient_;  // of attention's results
  std::vector<std::pair<std::pair<std::string_view, std::uint32_t>, hw::KernelCost>> roundings_;  // by kind and block
  std::set<std::string> unpriced_;
};

}  // namespace vitro::sim
