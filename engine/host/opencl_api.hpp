// The functions of the OpenCL loader (libOpenCL.so.1), found at run time: a build runs where there is no OpenCL, and says so when asked.
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <string_view>
#include <utility>

#define VITRO_OPENCL_FUNCTIONS(F)                                                                                          \
  F(clGetPlatformIDs)                                                                                                      \
  F(clGetPlatformInfo) F(clGetDeviceIDs) F(clGetDeviceInfo) F(clCreateContext) F(clReleaseContext) F(clCreateCommandQueue) \
      F(clReleaseCommandQueue) F(clCreateProgramWithSource) F(clBuildProgram) F(clGetProgramBuildInfo) F(clReleaseProgram) \
          F(clCreateKernel) F(clReleaseKernel) F(clSetKernelArg) F(clCreateBuffer) F(clCreateImage) F(clReleaseMemObject)  \
              F(clGetKernelWorkGroupInfo) F(clEnqueueWriteBuffer) F(clEnqueueReadBuffer) F(clEnqueueNDRangeKernel) F(clFinish)

namespace vitro {

struct OpenclApi {
#define VITRO_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  VITRO_OPENCL_FUNCTIONS(VITRO_OPENCL_MEMBER)
#undef VITRO_OPENCL_MEMBER
};

// Null when the loader is not installed, or lacks one of the functions; `why` says which. Loaded once.
const OpenclApi* opencl_api(std::string& why);

std::string opencl_error(cl_int code);  // "CL_OUT_OF_RESOURCES (-5)"

// An OpenCL object that is released with its owner.
template <class T>
class OpenclObject {
 public:
  using Release = cl_int(CL_API_CALL*)(T);
  OpenclObject() = default;
  OpenclObject(T object, Release release) : object_(object), release_(release) {}
  OpenclObject(OpenclObject&& other) noexcept { *this = std::move(other); }
  OpenclObject& operator=(OpenclObject&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~OpenclObject() {
    if (object_ != nullptr) release_(object_);
  }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
  Release release_ = nullptr;
};

}  // namespace vitro
