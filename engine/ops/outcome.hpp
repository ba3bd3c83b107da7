// What depends on data comes back from run() as an outcome, and in no other way.
#pragma once
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace vitro {

using IndexList = std::shared_ptr<const std::vector<std::uint32_t>>;
using IndexBits = std::shared_ptr<const std::vector<std::uint64_t>>;  // index n is bit n % 64 of word n / 64

struct ActiveSet {
  std::vector<IndexList> rows;  // per batch row, ascending neuron ids of the whole layer or expert
  // Per batch row, where who answers has them; else empty. All active neurons of the layer or expert, whichever of them the call asked for.
  std::vector<IndexBits> bits;
};
struct ExpertChoice {
  std::vector<std::uint16_t> ids;  // by descending logit
  std::vector<float> weights;
};
struct TokenChoice {
  std::vector<std::int32_t> tokens;  // per batch row
};
using Outcome = std::variant<std::monostate, ActiveSet, std::vector<ExpertChoice>, TokenChoice>;

}  // namespace vitro
