// A note for results of drawn neurons whose share nobody stated.
#pragma once
#include <string>

#include "engine/app/experiment.hpp"
#include "engine/model/model_config.hpp"

namespace vitro {

// What to say where a profile states no share for some layer: the default is nobody's measurement. Empty: nothing.
std::string unstated_share(const Experiment& experiment, const ModelConfig& model);

}  // namespace vitro
