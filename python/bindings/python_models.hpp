// Device models written in Python (python/vitro/device/models.py): each class becomes an entry of the registry, and each
// of its objects one model that is asked with the GIL held.
#pragma once
#include <pybind11/pybind11.h>

#include "hw_models/plugin_loader.hpp"

namespace vitro {

// The types that a model's methods see.
void bind_model_types(pybind11::module_& m);

// `models`: [(class, description)] as device_models.described() makes them. The result may be called and destroyed without
// the GIL. An exception in a model ends the run as a RunError with the Python traceback, one of vitro.ConfigError as that.
hw::AddModels add_python_models(const pybind11::list& models);

}  // namespace vitro
