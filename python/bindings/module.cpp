// vitro._vitro: the C++ side as plain functions on text and JSON. python/vitro/base/native.py is its only caller.
#include "module.hpp"

#include "engine/base/check.hpp"
#include "engine/base/out_of_memory.hpp"
#include "engine/base/path.hpp"

extern "C" __attribute__((visibility("default"))) int sc_main(int, char**) { return 1; }  // the SystemC library asks for one

PYBIND11_MODULE(_vitro, m) {
  using namespace vitro;
  m.doc() = "The engine and its two machines. Use the vitro package; this module is its calling convention.";
  pybind11::register_exception<ConfigError>(m, "ConfigError");
  pybind11::register_exception<RunError>(m, "RunError");
  m.def("set_data_folder", &set_data_folder);
  m.def("exit_when_memory_ends", &exit_when_memory_ends);
  bind_devices(m);
  bind_experiments(m);
  bind_models(m);
  bind_quantities(m);
  bind_recordings(m);
  bind_torture(m);
}
