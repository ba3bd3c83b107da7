#include "sim/energy_causes.hpp"

namespace vitro::sim {

Cause cause_of(const KernelCall& call) {
  const bool moves = call.is<ops::Gather, ops::ExpertSum, ops::KvAppend, ops::KvStage, ops::Copy, ops::Move, ops::Embed>();
  return moves ? Cause::rows : Cause::compute;
}

EnergyCauses::Split EnergyCauses::split(Picoseconds begin, Picoseconds end, const PowerMeter::Joules& parts) const {
  const auto drawn = [&](Cause cause) { return units_[static_cast<std::size_t>(cause)].sum(begin, end); };
  const double weights = weights_.sum(begin, end), moved = weights + others_.sum(begin, end);
  const double of_weights = moved > 0 ? parts.dram * weights / moved : 0;
  Split split;
  split.communication = {{"rows", drawn(Cause::rows)},
                         {"switches", drawn(Cause::switches)},
                         {"weights", of_weights},
                         {"activations", parts.dram - of_weights},
                         {"flash", parts.flash}};
  double communication = 0;
  for (const auto& [name, joules] : split.communication) communication += joules;
  const double compute = drawn(Cause::compute);
  split.causes = {{"compute", compute}, {"communication", communication}, {"rest", parts.sum() - compute - communication}};
  return split;
}

}  // namespace vitro::sim
