// A Python callable that judges samples (python/vitro/scaling.py), asked with the GIL held.
#pragma once
#include <pybind11/pybind11.h>

#include "engine/app/scaling/scorer.hpp"

namespace vitro {

// `scorer`: called with the fields of a sample as keywords, answers a number; None: no function. The result may be called and
// destroyed without the GIL. An exception ends the run as a RunError with the Python traceback.
ScoreFunction python_scorer(const pybind11::object& scorer);

}  // namespace vitro
