#include "engine/host/opencl_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vitro {
namespace {

constexpr const char* kLoader = "libOpenCL.so.1";

struct Loaded {
  OpenclApi api;
  std::string why;
  Loaded() {
    void* const library = dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);  // never closed: drivers leave threads behind
    if (library == nullptr) {
      why = fmt::format("{} is not installed", kLoader);
      return;
    }
#define VITRO_OPENCL_FIND(name)                                           \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  if (api.name == nullptr) why = fmt::format("{} has no {}", kLoader, #name);
    VITRO_OPENCL_FUNCTIONS(VITRO_OPENCL_FIND)
#undef VITRO_OPENCL_FIND
  }
};

constexpr std::array<std::pair<cl_int, const char*>, 12> kErrors{{{CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
                                                                  {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
                                                                  {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
                                                                  {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
                                                                  {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
                                                                  {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
                                                                  {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
                                                                  {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
                                                                  {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
                                                                  {CL_INVALID_IMAGE_SIZE, "CL_INVALID_IMAGE_SIZE"},
                                                                  {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
                                                                  {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"}}};

}  // namespace

const OpenclApi* opencl_api(std::string& why) {
  static const Loaded loaded;
  why = loaded.why;
  return loaded.why.empty() ? &loaded.api : nullptr;
}

std::string opencl_error(cl_int code) {
  const auto known = std::ranges::find(kErrors, code, &std::pair<cl_int, const char*>::first);
  return known == kErrors.end() ? fmt::format("OpenCL error {}", code) : fmt::format("{} ({})", known->second, code);
}

}  // namespace vitro
