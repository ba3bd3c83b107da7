// Execution plans (PowerInfer-2, section 5): what `vitro plan` chose for one device, model and memory, as a file that a run
// names with `engine.plan`. docs/design/planner.md has the format.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/config.hpp"

namespace vitro {

inline constexpr std::int64_t kPlanVersion = 1;

// Of a device tree as composed: every value, unit and source, not the file's layout or comments, and not `cpu.phases`.
std::string device_fingerprint(const Node& device);

// Of `model:` as composed: a file's header and size, or shapes and format. Not the name of the file.
std::string model_fingerprint(const Node& model);

// Puts the engine keys of the plan that `engine.plan` names, if it names one, under those that the experiment has itself, and the graphs
// that it lists under engine.placement.graphs, unless the experiment says itself when graphs are loaded. Checks that the plan is of this
// version, made for this device and model, that its fixed part fits into the experiment's memory, and that each graph fits the splits and
// the accelerator that the run will have.
// Throws ConfigError at the plan's file and line, or at the experiment's where it has splits of its own, or states numeric contracts that
// come to others than those of the plan.
void apply_plan(Node& experiment);

// What a planner has to know of a composed experiment's model, in bytes and elements: shapes, formats by role, the bundles of
// each layout, and what is not FFN. Fingerprints of device and model.
nlohmann::ordered_json plan_facts(const Node& experiment);

}  // namespace vitro
