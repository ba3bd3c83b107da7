// A GPU behind OpenCL 1.2 (MNN-LLM 5.1).
#pragma once
#include "engine/host/gpu_device.hpp"
#include "engine/kernels/opencl/launch_plan.hpp"

namespace vitro {

struct OpenclOptions {
  std::uint32_t index = 0;   // among the devices: those of kind GPU come first, then all others, each in the order of its platform
  opencl::Limits most = {};  // below the device's own where they are not 0: for tests of what large models need
};

// Names of the devices, by index; empty without OpenCL. `why` says why there are none.
std::vector<std::string> opencl_devices(std::string& why);

// Throws ConfigError, with the devices that exist or the reason why there are none.
std::unique_ptr<GpuDevice> make_opencl_device(const OpenclOptions& options);

}  // namespace vitro
