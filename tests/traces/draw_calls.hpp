// Calls that tests of DrawFunction make.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "engine/ops/contract.hpp"
#include "traces/draw.hpp"

namespace vitro {

using Ids = std::vector<std::uint32_t>;

inline KernelCall glu_call(std::uint32_t neurons, std::int16_t layer, std::vector<SeqPos> batch, Slice slice = {}) {
  KernelCall call;
  call.op = ops::Glu{.report_active = true};
  call.layer = layer;
  call.slice = slice;
  View view;
  view.shape = {static_cast<std::uint32_t>(batch.size()), neurons, 0};
  call.in.push_back(view);
  call.batch = std::make_shared<const std::vector<SeqPos>>(std::move(batch));
  return call;
}

inline KernelCall call_over(const Op& op, std::uint32_t n, std::vector<SeqPos> batch) {
  KernelCall call = glu_call(n, is<ops::Sample>(op) ? -1 : 2, std::move(batch));
  call.op = op;
  return call;
}

inline Ids fired(Function& function, const KernelCall& call, std::size_t row = 0) {
  return *std::get<ActiveSet>(function.execute(call)).rows[row];
}

inline DrawProfile skewed() {
  DrawProfile profile;
  profile.layers = {{0.1, 0.8}, {0.3, 0.0}};
  profile.persistence = profile.expert_persistence = 0.5;
  profile.expert_skew = 0.7;
  return profile;
}

inline KernelCall select_call(std::uint32_t neurons, std::int16_t layer, std::vector<SeqPos> batch, SelectOf of, Slice slice = {}) {
  KernelCall call = glu_call(neurons, layer, std::move(batch), slice);
  call.op = ops::Select{0, Activation::relu, of};
  return call;
}

}  // namespace vitro
