// Reads the `engine:` part of an experiment.
#pragma once
#include "engine/parts/engine_config.hpp"
#include "traces/draw.hpp"

namespace vitro {

// Requires: today's spelling, over the composition that it names (old_engine_keys.hpp).
// `profile`: the model's (`of_model`) or the default one; replaced by the part's own.
// Throws ConfigError.
EngineConfig read_engine(Reader reader, DrawProfile& profile, bool of_model);

}  // namespace vitro
