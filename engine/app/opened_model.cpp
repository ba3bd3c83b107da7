#include "engine/app/opened_model.hpp"

#include "engine/app/expert_loads.hpp"
#include "engine/parts/register_parts.hpp"

namespace vitro {

OpenedModel::OpenedModel(const Experiment& experiment, const LoadedModel& model, Machine& machine)
    : experiment_(experiment), config_(model.config), machine_(machine), weights_(model.open(machine.storage)) {
  adapters_.all = model.open_adapters(machine.storage);
  if (model.packed) adapters_.neurons = &model.packed->order;
  if (placement_kinds().find(experiment.engine.placement.kind)->int8_copy) copy_ = model.open_int8_copy(machine.storage);
}

Decoder OpenedModel::make_decoder(const PolicyLimits& limits) const {
  EngineConfig engine = experiment_.engine;
  engine.ffn.experts = calibrated(experiment_, config_);
  return ::vitro::make_decoder(machine_, engine, experiment_.memory, config_, weights_, limits, copy_ ? &*copy_ : nullptr, adapters_);
}

}  // namespace vitro
