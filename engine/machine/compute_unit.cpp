#include "engine/machine/compute_unit.hpp"

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
  for (KernelCall& call : chain) {
    fill(call.in);
    fill(call.out);
    if (bindings.batch) call.batch = bindings.batch;
    if (bindings.layer >= 0 && call.layer >= 0) call.layer = bindings.layer;
    if (bindings.expert >= 0) call.expert = bindings.expert;
  }
  return chain;
}

}  // namespace vitro
