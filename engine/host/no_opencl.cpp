// For builds without the headers of OpenCL.
#include "engine/host/opencl_device.hpp"

namespace vitro {

std::vector<std::string> opencl_devices(std::string& why) {
  why = "this build has no OpenCL";
  return {};
}

std::unique_ptr<GpuDevice> make_opencl_device(const OpenclOptions&) {
  throw ConfigError("engine.units: gpu: this build has no OpenCL (expected its headers where vitro is built: Debian's opencl-c-headers)");
}

}  // namespace vitro
