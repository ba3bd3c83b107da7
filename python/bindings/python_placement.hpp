// Places of experts whose class is Python.
#pragma once
#include <string>

#include "engine/parts/register_parts.hpp"
#include "policy_calls.hpp"

namespace vitro {

// A rule whose answers are an object's of the class. What is no list of graphs ends the run as a RunError that names the class; whether the
// graphs are possible is asked of every rule (ExpertPlacer). It may be called and destroyed without the GIL.
PlaceRule python_placement(const PolicyClassPtr& type, const std::string& description);

}  // namespace vitro
