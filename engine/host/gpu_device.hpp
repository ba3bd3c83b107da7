// What the GPU unit needs of a GPU: weights that stay, and products with them. OpenCL is behind it (opencl_device.hpp).
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.hpp"
#include "engine/kernels/opencl/panels.hpp"

namespace vitro {

// Used from one thread at a time.
class GpuDevice {
 public:
  using Weights = std::uint32_t;
  struct Product {
    Weights weights = 0;
    std::span<const std::uint16_t> x;  // binary16 [batch, columns]; products with the same address share one copy on the device
    std::uint32_t batch = 0;
    float* y = nullptr;  // [batch, rows], written only when all products of a request have succeeded
  };

  virtual ~GpuDevice() = default;
  virtual const std::string& name() const = 0;  // of the device, for messages
  virtual bool has_images() const = 0;

  // Copies weights to the device, where they stay as long as it does. Code::over_budget when it has no room for them,
  // Code::unsupported_shape when it can not hold a row of them, Code::unit_lost when it does not answer.
  virtual Result<Weights> place(const opencl::Panels& panels, bool image) = 0;
  // In the contract variant::kA16. Code::unit_lost when the device fails, and from then on.
  virtual Status multiply(std::span<const Product> products) = 0;

  virtual std::uint64_t launches() const = 0;          // of kernels
  virtual std::vector<std::string> notes() const = 0;  // for the report
};

// Throws ConfigError when there is no such device.
using GpuFactory = std::function<std::unique_ptr<GpuDevice>()>;

}  // namespace vitro
