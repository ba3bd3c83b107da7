// All operators: a new one is a file pair of its own, and its line in Op.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "engine/ops/accumulate.hpp"
#include "engine/ops/add.hpp"
#include "engine/ops/add_gated.hpp"
#include "engine/ops/add_product.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/attention_scores.hpp"
#include "engine/ops/attention_values.hpp"
#include "engine/ops/attention_weights.hpp"
#include "engine/ops/copy.hpp"
#include "engine/ops/embed.hpp"
#include "engine/ops/expert_sum.hpp"
#include "engine/ops/gather.hpp"
#include "engine/ops/glu.hpp"
#include "engine/ops/inverse_rms.hpp"
#include "engine/ops/kv_append.hpp"
#include "engine/ops/kv_stage.hpp"
#include "engine/ops/layer_norm.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/move.hpp"
#include "engine/ops/precompute.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/rms_norm.hpp"
#include "engine/ops/rope.hpp"
#include "engine/ops/route.hpp"
#include "engine/ops/sample.hpp"
#include "engine/ops/scale_rows.hpp"
#include "engine/ops/select.hpp"
#include "engine/ops/softmax.hpp"

namespace vitro {

// An operator with its parameters. Traces, price tables and messages call it by its name, to_string().
using Op = std::variant<  //
    ops::Embed, ops::RmsNorm, ops::Matmul, ops::Rope, ops::KvAppend, ops::Attention, ops::Glu, ops::Add, ops::Gather, ops::Route,
    ops::ExpertSum, ops::Reduce, ops::Sample, ops::Copy, ops::Select, ops::Accumulate, ops::Precompute, ops::Softmax, ops::KvStage,
    ops::AddProduct, ops::Move, ops::InverseRms, ops::ScaleRows, ops::LayerNorm, ops::AddGated,
    ops::AttentionScores, ops::AttentionWeights, ops::AttentionValues>;

// Which of them, whatever its parameters: a key.
enum class OpKind : std::uint8_t {};
inline OpKind kind_of(const Op& op) { return static_cast<OpKind>(op.index()); }

template <class... T>
bool is(const Op& op) {
  return (std::holds_alternative<T>(op) || ...);
}

std::string_view to_string(const Op& op);

// The cases of a std::visit: overloads, and one for `const auto&` where most operators are alike.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

// What a function has for an outcome: its own, or none where it returns nothing.
template <class F>
Outcome outcome_of(F f) {
  if constexpr (std::is_void_v<decltype(f())>) {
    f();
    return {};
  } else {
    return f();
  }
}

}  // namespace vitro
