#include "engine/app/unstated_share.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vitro {

std::string unstated_share(const Experiment& experiment, const ModelConfig& model) {
  const bool draws = experiment.engine.function == FunctionKind::draw && experiment.engine.ffn.kind == "clusters";
  const auto unstated = [](const FiringProfile& firing) { return !firing.stated; };
  if (!draws || std::ranges::none_of(experiment.profile.layers, unstated)) return {};
  const bool rectified = model.activation == Activation::relu || model.activation == Activation::relu_squared;
  return fmt::format("the activation profile states no share of active neurons, so {:g} % were drawn per token{} (state fraction or curve)",
                     100 * FiringProfile{}.fraction,
                     rectified ? "" : fmt::format("; of {}, whose gates are never zero, no share is usual", to_string(model.activation)));
}

}  // namespace vitro
