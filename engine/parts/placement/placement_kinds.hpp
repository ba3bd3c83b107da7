// The placements that the engine brings.
#pragma once
#include "engine/base/registry.hpp"
#include "engine/parts/placement/placement.hpp"

namespace vitro {

void register_placements(Registry<PlacementKind>& kinds);

}  // namespace vitro
