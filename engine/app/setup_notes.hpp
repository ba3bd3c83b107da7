// What a run's set-up costs or leaves unused without being wrong: notes of the result, for who did not choose it so.
#pragma once
#include <string>
#include <vector>

#include "engine/app/experiment.hpp"
#include "engine/app/loaded_model.hpp"

namespace vitro {

// One core that computes a model's matmuls in float32, where more cores would have work or an integer contract is there; a balance by rates
// where none are measured; a layout of neurons in flash of which a missing neuron takes more reads or more bytes than another's
// (docs/design/neuron-clusters.md, "Why two-phase loading loses here"). weights: the model's. flash_bytes: read while decoding; nothing is
// said of a layout that nothing was read from.
std::vector<std::string> setup_notes(const Experiment& experiment, const LoadedModel& model, const WeightStore& weights, Bytes flash_bytes);

}  // namespace vitro
