// Compute units written in Python: cores and accelerators whose class says how long a call takes (python/vitro/device/models.py).
#pragma once
#include <pybind11/pybind11.h>

#include <memory>

#include "hw_models/registry.hpp"
#include "served_model.hpp"

namespace vitro {

void bind_compute_types(pybind11::module_& m);

// A call takes what the class says, and its bytes move meanwhile through the DRAM of the device, whichever takes longer. core: it has a
// port already, a clock, and system work that interrupts it; else it has parameters `bandwidth`, `launch` and `synchronise`.
std::unique_ptr<hw::ComputeModel> make_python_compute(const hw::Site& site, const hw::Params& params, ModelClassPtr type, bool core);

}  // namespace vitro
