// GPUs for tests: one that computes from panels in plain C++, and one that is lost at a chosen request.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "engine/host/gpu_device.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::test {

struct PanelDeviceOptions {
  bool images = true;
  std::size_t room = 1000;  // matrices
};

// What was asked of a device, which outlives it.
struct GpuLog {
  std::vector<bool> placed;           // by matrix, whether in images
  std::vector<std::size_t> requests;  // products of each
};

class PanelDevice final : public GpuDevice {
 public:
  explicit PanelDevice(GpuLog& log, PanelDeviceOptions options = {}) : log_(log), options_(options) {}
  const std::string& name() const override { return name_; }
  bool has_images() const override { return options_.images; }
  std::uint64_t launches() const override { return launches_; }
  std::vector<std::string> notes() const override { return {"gpu: " + name_}; }

  Result<Weights> place(const opencl::Panels& panels, bool image) override {
    if (image && !options_.images) return Status{Code::unsupported_shape, "it has no images"};
    if (placed_.size() == options_.room) return Status{Code::over_budget, name_ + ": no room"};
    log_.placed.push_back(image);
    placed_.push_back(panels);
    return static_cast<Weights>(placed_.size() - 1);
  }

  Status multiply(std::span<const Product> products) override {
    log_.requests.push_back(products.size());
    for (const Product& product : products) {
      ++launches_;
      const opencl::Panels& panels = placed_.at(product.weights);
      for (std::uint32_t m = 0; m < product.batch; ++m) {
        for (std::uint32_t r = 0; r < panels.rows; ++r)
          product.y[std::size_t{m} * panels.rows + r] = dot(panels, r, &product.x[m * panels.columns]);
      }
    }
    return {};
  }

 private:
  static float dot(const opencl::Panels& panels, std::uint32_t row, const std::uint16_t* x) {
    const opencl::PanelForm& form = panels.form;
    float lanes[16] = {};
    for (std::uint32_t k = 0; k < panels.columns; ++k) {
      const std::uint32_t per_texel = 128 / form.bits, in_texel = k % per_texel;
      const std::uint32_t word = panels.codes[(std::size_t{k / per_texel} * panels.rows + row) * 4 + in_texel % 4];
      const std::uint32_t field = word >> (in_texel / 4 * form.bits);
      const std::int32_t code = form.bits == 4 ? static_cast<std::int32_t>(field & 15) : static_cast<std::int8_t>(field & 255);
      const std::size_t at = std::size_t{k / form.group} * panels.rows + row;
      const std::int32_t zero = form.zero_points ? panels.zeros[at] : form.zero;
      const float weight = half_to_float(panels.scales[at]) * static_cast<float>(code - zero);
      lanes[k % 16] = std::fma(weight, half_to_float(x[k]), lanes[k % 16]);
    }
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
      for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
  }

  GpuLog& log_;
  const PanelDeviceOptions options_;
  const std::string name_ = "Panel GPU";
  std::vector<opencl::Panels> placed_;
  std::uint64_t launches_ = 0;
};

// Answers `requests` times, and is lost in the middle of the next one, when half of the results have been written where only the device
// looks.
class LostDevice final : public GpuDevice {
 public:
  LostDevice(std::unique_ptr<GpuDevice> inner, std::uint64_t requests) : inner_(std::move(inner)), left_(requests) {}
  const std::string& name() const override { return inner_->name(); }
  bool has_images() const override { return inner_->has_images(); }
  std::uint64_t launches() const override { return inner_->launches(); }
  std::vector<std::string> notes() const override { return inner_->notes(); }
  Result<Weights> place(const opencl::Panels& panels, bool image) override { return inner_->place(panels, image); }
  Status multiply(std::span<const Product> products) override {
    if (left_ == 0) return {Code::unit_lost, name() + ": clFinish: CL_OUT_OF_RESOURCES (-5)"};
    --left_;
    return inner_->multiply(products);
  }

 private:
  std::unique_ptr<GpuDevice> inner_;
  std::uint64_t left_;
};

}  // namespace vitro::test
