// Which experts of a layer are read before its router has chosen, as a part that can be exchanged. Asked only where a step has so few rows
// that they do not choose nearly all of them. Pure bookkeeping, deterministic.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/registry.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {

// Whether so many pairs of a row and an expert leave hardly an expert of a layer out: at two for each, if all are chosen alike, seven of
// eight are chosen (1 - exp(-2)).
constexpr bool chooses_nearly_all(std::uint64_t pairs, std::uint64_t experts) { return pairs >= 2 * experts; }

class LookAheadRule {
 public:
  virtual ~LookAheadRule() = default;
  // The router of `layer` chose these for the rows of a step.
  virtual void chose(std::int16_t /*layer*/, const std::vector<ExpertChoice>& /*choices*/) {}
  // guess: what the router of `layer` says, by row, to the input of the layer before it. Sets those of `wanted`, by expert and all false,
  // that are to be read ahead.
  virtual void want(std::int16_t layer, const std::vector<ExpertChoice>& guess, std::vector<bool>& wanted) = 0;
};

struct LookAheadOptions {
  std::uint32_t experts = 0;  // of a layer
  std::uint32_t used = 0;     // of them, by a row
};

struct LookAheadKind {
  std::string name, description;
  std::function<std::unique_ptr<LookAheadRule>(const LookAheadOptions&)> make;
};

// "router": what the next layer's router names (Eliseev and Mazur 2023, arXiv 2312.17238). All of them; a plug-in may add to it before a
// run.
Registry<LookAheadKind>& look_ahead_rules();

}  // namespace vitro
