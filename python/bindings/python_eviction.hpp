// Evictions whose class or data is Python.
#pragma once
#include <string>

#include "engine/parts/weights/eviction.hpp"
#include "policy_calls.hpp"

namespace vitro {

// What a class calls `held`.
void bind_held(pybind11::module_& m);

// A rule whose decisions are an object's of the class. An answer that is no resident block, or one that the layer at hand uses, ends the
// run as a RunError that names the class. It may be called and destroyed without the GIL.
EvictionRule python_eviction(const PolicyClassPtr& type, const std::string& description);

// Belady's rule in two runs (engine/parts/weights/belady.hpp). log->type(number, ends, blocks) gets the accesses of the number-th cache
// that `rule` served; future->type(number) gives them back: numpy arrays, uint64 ends of runs of a layer in the uint32 blocks.
EvictionRule logged_eviction(const PolicyClassPtr& log, const std::string& rule);
EvictionRule foresighted_eviction(const PolicyClassPtr& future);

}  // namespace vitro
