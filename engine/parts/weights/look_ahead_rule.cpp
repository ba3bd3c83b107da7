#include "engine/parts/weights/look_ahead_rule.hpp"

namespace vitro {
namespace {

class Router final : public LookAheadRule {
 public:
  void want(std::int16_t, const std::vector<ExpertChoice>& guess, std::vector<bool>& wanted) override {
    for (const ExpertChoice& choice : guess) {
      for (const std::uint16_t expert : choice.ids) wanted.at(expert) = true;
    }
  }
};

Registry<LookAheadKind> own_look_ahead_rules() {
  Registry<LookAheadKind> rules;
  rules.add({"router", "experts that the next layer's router names on this layer's input",
             [](const LookAheadOptions&) -> std::unique_ptr<LookAheadRule> { return std::make_unique<Router>(); }});
  return rules;
}

}  // namespace

Registry<LookAheadKind>& look_ahead_rules() {
  static Registry<LookAheadKind> rules = own_look_ahead_rules();
  return rules;
}

}  // namespace vitro
