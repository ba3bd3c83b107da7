#include "engine/machine/compute_unit.hpp"

#include <optional>

namespace vitro {

Chain bind(const GraphSpec& spec, const Bindings& bindings) {
  const auto fill = [&](auto& views) {
    for (View& view : views) {
      if (view.slot == 0) continue;
      VITRO_CHECK(view.slot <= bindings.views.size(), "a graph was launched without one of its bindings");
      view = bindings.views[view.slot - 1];
    }
  };
  Chain chain = spec.calls;
  std::size_t choice = 0;
  std::optional<int> shift;
  for (KernelCall& call : chain) {
    fill(call.in);
    fill(call.out);
    if (bindings.batch) call.batch = bindings.batch;
    if (call.rows && !bindings.choices.empty()) {
      const Bindings::Choice& chosen = bindings.choices.at(choice++);
      VITRO_CHECK(chosen.rows->size() == call.rows->size() && !chosen.row_offsets == !call.row_offsets,
                  "other rows than the graph was made for");
      call.rows = chosen.rows;
      call.row_offsets = chosen.row_offsets;
    }
    if (call.layer >= 0) {
      if (bindings.layer >= 0 && !shift) shift = bindings.layer - call.layer;
      call.layer = static_cast<std::int16_t>(call.layer + shift.value_or(0));
    }
    if (bindings.expert >= 0 && call.expert >= 0) call.expert = bindings.expert;
    if (bindings.keys > 0 && call.is<ops::Attention>()) std::get<ops::Attention>(call.op).keys = bindings.keys;
  }
  return chain;
}

}  // namespace vitro
