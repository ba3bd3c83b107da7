// Which experts a layer's router chooses, drawn from an activation profile.
#pragma once
#include <span>
#include <vector>

#include "engine/ops/kernel_call.hpp"
#include "traces/draw_profile.hpp"

namespace vitro {

// A pure function of (seed, layer, expert, sequence, position). Thread-safe.
class ExpertDraws {
 public:
  // Requires: the profile outlives it.
  ExpertDraws(const DrawProfile& profile, std::uint64_t seed) : profile_(profile), seed_(seed) {}

  struct Router {
    std::int16_t layer = -1;
    std::uint32_t experts = 0;  // to choose from
    ops::Route asked;
  };
  // Per row, asked.k experts by falling score. RunError where there are fewer.
  std::vector<ExpertChoice> choices(const Router& router, std::span<const SeqPos> rows) const;
  std::vector<double> popularity(std::int16_t layer, std::uint32_t experts) const;  // sums to 1

 private:
  std::uint64_t draw(std::uint64_t stream, std::uint32_t expert, SeqPos at) const;

  const DrawProfile& profile_;
  const std::uint64_t seed_;
};

}  // namespace vitro
