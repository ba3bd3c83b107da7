// What the extension module is made of: each part adds its functions.
#pragma once
#include <pybind11/pybind11.h>

namespace vitro {

void bind_devices(pybind11::module_& m);
void bind_experiments(pybind11::module_& m);
void bind_models(pybind11::module_& m);
void bind_quantities(pybind11::module_& m);
void bind_recordings(pybind11::module_& m);
void bind_torture(pybind11::module_& m);

}  // namespace vitro
