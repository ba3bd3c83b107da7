#include "engine/host/opencl_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "engine/host/opencl_api.hpp"
#include "engine/kernels/opencl/matmul_source.hpp"

namespace vitro {
namespace {

using opencl::Limits;
using opencl::Panels;
using opencl::Piece;
using opencl::WeightPlan;
using opencl::WorkSize;
using Memory = OpenclObject<cl_mem>;

struct Failure {
  const char* call;
  cl_int code;
};

void check(cl_int code, const char* call) {
  if (code != CL_SUCCESS) throw Failure{call, code};
}

// Of clGet...Info functions, which answer in bytes.
template <class Get>
std::string text_of(Get get) {
  std::size_t size = 0;
  if (get(0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != CL_SUCCESS) return "";
  return text.c_str();  // without the zero at its end
}

template <class T>
T number_of(const OpenclApi& api, cl_device_id device, cl_device_info what) {
  T value{};
  api.clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

struct Found {
  cl_device_id device = nullptr;
  bool gpu = false;
  std::string name;
};

std::vector<Found> find_devices(const OpenclApi& api) {
  cl_uint count = 0;
  if (api.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> platforms(count);
  api.clGetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<Found> all;
  for (const cl_platform_id platform : platforms) {
    const std::string of = text_of([&](auto... out) { return api.clGetPlatformInfo(platform, CL_PLATFORM_NAME, out...); });
    if (api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    api.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    for (const cl_device_id device : devices) {
      const std::string name = text_of([&](auto... out) { return api.clGetDeviceInfo(device, CL_DEVICE_NAME, out...); });
      const bool gpu = (number_of<cl_device_type>(api, device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0;
      all.push_back({device, gpu, fmt::format("{} ({})", name, of)});
    }
  }
  std::ranges::stable_partition(all, &Found::gpu);
  return all;
}

Limits limits_of(const OpenclApi& api, cl_device_id device, const Limits& most) {
  const bool images = number_of<cl_bool>(api, device, CL_DEVICE_IMAGE_SUPPORT) != 0;
  const auto size = [&](cl_device_info what) { return static_cast<std::uint32_t>(number_of<std::size_t>(api, device, what)); };
  const auto below = [](auto own, auto limit) { return limit != 0 ? std::min(own, limit) : own; };
  Limits limits;
  limits.image_width = below(images ? size(CL_DEVICE_IMAGE2D_MAX_WIDTH) : 0, most.image_width);
  limits.image_height = below(images ? size(CL_DEVICE_IMAGE2D_MAX_HEIGHT) : 0, most.image_height);
  limits.most_bytes = below(Bytes{number_of<cl_ulong>(api, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE)}, most.most_bytes);
  limits.work_group = size(CL_DEVICE_MAX_WORK_GROUP_SIZE);
  limits.compute_units = below(number_of<cl_uint>(api, device, CL_DEVICE_MAX_COMPUTE_UNITS), most.compute_units);
  return limits;
}

// The kernels of a form of weights.
struct Program {
  OpenclObject<cl_program> program;
  std::array<OpenclObject<cl_kernel>, 3> decode;  // by one, two and four work items for a row
  OpenclObject<cl_kernel> prefill;
  Limits limits;  // the device's, with the work groups that all of these take
};

struct Placed {
  const Program* program = nullptr;
  WeightPlan plan;
  std::vector<Memory> pieces;
  Memory scales, zeros;
  std::uint32_t rows = 0, columns = 0, chunks = 0;  // chunks with one scale
};

// One for each of what a request brings or takes away; grows with the largest request.
struct Slot {
  Memory memory;
  Bytes size = 0;
};

class OpenclDevice final : public GpuDevice {
 public:
  OpenclDevice(const OpenclApi& api, const Found& found, const Limits& most)
      : api_(api), device_(found.device), name_(found.name), limits_(limits_of(api, found.device, most)) {
    cl_int code = CL_SUCCESS;
    context_ = {api_.clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code), api_.clReleaseContext};
    if (code == CL_SUCCESS) queue_ = {api_.clCreateCommandQueue(context_.get(), device_, 0, &code), api_.clReleaseCommandQueue};
    if (code != CL_SUCCESS)
      throw ConfigError(fmt::format("engine.units: the OpenCL device {} does not open: {}", name_, opencl_error(code)));
  }

  const std::string& name() const override { return name_; }
  bool has_images() const override { return limits_.image_width > 0; }
  std::uint64_t launches() const override { return launches_; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes{fmt::format("gpu: {}, {} matrices in {} memory objects", name_, placed_.size(), objects_)};
    if (cut_ > 0) notes.push_back(fmt::format("gpu: {} matrices exceed the largest {}, and are split", cut_, "image or buffer"));
    return notes;
  }

  Result<Weights> place(const Panels& panels, bool image) override {
    const Result<WeightPlan> plan = (image ? opencl::plan_image : opencl::plan_buffer)(panels.rows, panels.lines(), limits_);
    if (!plan.ok()) return plan.status();
    try {
      Placed placed{&program_for(panels.form, image, plan.value().height < panels.lines()), plan.value(), {}, {}, {}, 0, 0, 0};
      for (const Piece& piece : placed.plan.pieces) placed.pieces.push_back(copy(panels, placed.plan, piece, image));
      placed.scales = buffer(panels.scales.size() * sizeof(panels.scales[0]), panels.scales.data());
      if (panels.form.zero_points) placed.zeros = buffer(panels.zeros.size(), panels.zeros.data());
      placed.rows = panels.rows;
      placed.columns = panels.columns;
      placed.chunks = panels.form.group / opencl::kColumns;
      objects_ += placed.pieces.size();
      cut_ += placed.pieces.size() > 1;
      placed_.push_back(std::move(placed));
      return static_cast<Weights>(placed_.size() - 1);
    } catch (const Failure& failure) {
      const bool full = failure.code == CL_MEM_OBJECT_ALLOCATION_FAILURE || failure.code == CL_INVALID_BUFFER_SIZE ||
                        failure.code == CL_INVALID_IMAGE_SIZE || failure.code == CL_OUT_OF_HOST_MEMORY;
      return full ? Status{Code::over_budget, said(failure)} : lose(failure);
    }
  }

  Status multiply(std::span<const Product> products) override {
    if (!lost_.ok()) return lost_;
    try {
      std::map<const std::uint16_t*, cl_mem> inputs;
      results_.resize(products.size());
      for (std::size_t i = 0; i < products.size(); ++i) {
        const Product& product = products[i];
        cl_mem& x = inputs[product.x.data()];
        if (x == nullptr) {
          x = slot(inputs_, inputs.size() - 1, product.x.size_bytes(), CL_MEM_READ_ONLY);
          check(api_.clEnqueueWriteBuffer(queue_.get(), x, CL_FALSE, 0, product.x.size_bytes(), product.x.data(), 0, nullptr, nullptr),
                "clEnqueueWriteBuffer");
        }
        const Placed& placed = placed_.at(product.weights);
        results_[i].resize(std::size_t{product.batch} * placed.rows);
        const Bytes size = results_[i].size() * sizeof(float);
        const cl_mem y = slot(outputs_, i, size, CL_MEM_WRITE_ONLY);
        for (std::size_t p = 0; p < placed.pieces.size(); ++p) launch(placed, p, x, y, product.batch);
        check(api_.clEnqueueReadBuffer(queue_.get(), y, CL_FALSE, 0, size, results_[i].data(), 0, nullptr, nullptr), "clEnqueueReadBuffer");
      }
      check(api_.clFinish(queue_.get()), "clFinish");
    } catch (const Failure& failure) {
      return lose(failure);
    }
    for (std::size_t i = 0; i < products.size(); ++i) std::memcpy(products[i].y, results_[i].data(), results_[i].size() * sizeof(float));
    return {};
  }

 private:
  std::string said(const Failure& failure) const { return fmt::format("{}: {}: {}", name_, failure.call, opencl_error(failure.code)); }
  Status lose(const Failure& failure) { return lost_ = {Code::unit_lost, said(failure)}; }

  Memory buffer(Bytes size, const void* bytes) {
    cl_int code = CL_SUCCESS;
    // The flag says that bytes are copied from there, which the type does not.
    const cl_mem memory =
        api_.clCreateBuffer(context_.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, const_cast<void*>(bytes), &code);
    check(code, "clCreateBuffer");
    return {memory, api_.clReleaseMemObject};
  }

  Memory copy(const Panels& panels, const WeightPlan& plan, const Piece& piece, bool image) {
    const std::uint32_t width = plan.width(piece, panels.lines());
    constexpr std::size_t kWords = opencl::kTexelBytes / sizeof(std::uint32_t);
    std::vector<std::uint32_t> texels(std::size_t{width} * plan.height * kWords);
    for (std::uint32_t i = 0; i < panels.lines(); ++i) {
      const std::size_t to = std::size_t{i % plan.height} * width + i / plan.height * piece.count;
      const std::size_t from = std::size_t{i} * panels.rows + piece.first;
      std::memcpy(&texels[to * kWords], &panels.codes[from * kWords], Bytes{piece.count} * opencl::kTexelBytes);
    }
    if (!image) return buffer(texels.size() * sizeof(texels[0]), texels.data());
    const cl_image_format format{CL_RGBA, CL_UNSIGNED_INT32};
    cl_image_desc shape{};
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = width;
    shape.image_height = plan.height;
    cl_int code = CL_SUCCESS;
    const cl_mem memory =
        api_.clCreateImage(context_.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &shape, texels.data(), &code);
    check(code, "clCreateImage");
    return {memory, api_.clReleaseMemObject};
  }

  cl_mem slot(std::deque<Slot>& slots, std::size_t i, Bytes size, cl_mem_flags flags) {
    if (i >= slots.size()) slots.resize(i + 1);
    if (slots[i].size < size) {
      cl_int code = CL_SUCCESS;
      slots[i] = {{api_.clCreateBuffer(context_.get(), flags, size, nullptr, &code), api_.clReleaseMemObject}, size};
      check(code, "clCreateBuffer");
    }
    return slots[i].memory.get();
  }

  const Program& program_for(const opencl::PanelForm& form, bool image, bool folded) {
    const std::string options = fmt::format("-cl-std=CL1.2 -DBITS={} -DZERO_POINTS={:d} -DZERO={} -DIMAGES={:d} -DFOLDED={:d} -DTILE={}",
                                            form.bits, form.zero_points, form.zero, image, folded, opencl::kTile);
    if (const auto known = programs_.find(options); known != programs_.end()) return known->second;
    Program program;
    const char* source = opencl::kMatmulSource;
    cl_int code = CL_SUCCESS;
    program.program = {api_.clCreateProgramWithSource(context_.get(), 1, &source, nullptr, &code), api_.clReleaseProgram};
    check(code, "clCreateProgramWithSource");
    check(api_.clBuildProgram(program.program.get(), 1, &device_, options.c_str(), nullptr, nullptr), "clBuildProgram");
    program.limits = limits_;
    for (std::size_t i = 0; i < program.decode.size(); ++i) {
      constexpr const char* kNames[] = {"decode_1", "decode_2", "decode_4"};
      program.decode[i] = kernel(program, kNames[i]);
    }
    program.prefill = kernel(program, "prefill");
    return programs_.emplace(options, std::move(program)).first->second;
  }

  OpenclObject<cl_kernel> kernel(Program& program, const char* name) {
    cl_int code = CL_SUCCESS;
    OpenclObject<cl_kernel> kernel{api_.clCreateKernel(program.program.get(), name, &code), api_.clReleaseKernel};
    check(code, "clCreateKernel");
    std::size_t most = 0;
    check(api_.clGetKernelWorkGroupInfo(kernel.get(), device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr),
          "clGetKernelWorkGroupInfo");
    program.limits.work_group = std::min(program.limits.work_group, static_cast<std::uint32_t>(most));
    return kernel;
  }

  template <class... T>
  void set_arguments(cl_kernel kernel, const T&... arguments) {
    cl_uint i = 0;
    (check(api_.clSetKernelArg(kernel, i++, sizeof arguments, &arguments), "clSetKernelArg"), ...);
  }

  void launch(const Placed& placed, std::size_t p, cl_mem x, cl_mem y, std::uint32_t batch) {
    const Program& program = *placed.program;
    const Piece& piece = placed.plan.pieces[p];
    const bool one = batch == 1;
    const WorkSize work = one ? opencl::decode_work(piece.count, program.limits) : opencl::prefill_work(piece.count, batch, program.limits);
    const cl_kernel kernel = one ? program.decode[work.local[1] / 2].get() : program.prefill.get();
    const cl_mem weights = placed.pieces[p].get(), scales = placed.scales.get();
    const cl_mem zeros = placed.zeros.get() != nullptr ? placed.zeros.get() : scales;  // of a form without, never read
    set_arguments(kernel, weights, scales, zeros, x, y, placed.columns, placed.chunks, placed.rows, piece.first, piece.count,
                  placed.plan.height);
    constexpr cl_uint kLast = 11;
    if (one) {
      check(api_.clSetKernelArg(kernel, kLast, std::size_t{work.local[0]} * 16 * sizeof(float), nullptr), "clSetKernelArg");
    } else {
      check(api_.clSetKernelArg(kernel, kLast, sizeof batch, &batch), "clSetKernelArg");
    }
    const std::size_t global[] = {work.global[0], work.global[1]}, local[] = {work.local[0], work.local[1]};
    check(api_.clEnqueueNDRangeKernel(queue_.get(), kernel, 2, nullptr, global, local, 0, nullptr, nullptr), "clEnqueueNDRangeKernel");
    ++launches_;
  }

  const OpenclApi& api_;
  const cl_device_id device_;
  const std::string name_;
  const Limits limits_;
  OpenclObject<cl_context> context_;
  OpenclObject<cl_command_queue> queue_;
  std::map<std::string, Program> programs_;  // by options
  std::vector<Placed> placed_;
  std::deque<Slot> inputs_, outputs_;
  std::vector<std::vector<float>> results_;
  std::uint64_t launches_ = 0, objects_ = 0, cut_ = 0;
  Status lost_;
};

}  // namespace

std::vector<std::string> opencl_devices(std::string& why) {
  const OpenclApi* const api = opencl_api(why);
  std::vector<std::string> names;
  for (const Found& found : api != nullptr ? find_devices(*api) : std::vector<Found>{}) names.push_back(found.name);
  if (api != nullptr && names.empty()) why = "no driver brings a device";
  return names;
}

std::unique_ptr<GpuDevice> make_opencl_device(const OpenclOptions& options) {
  std::string why;
  const std::vector<std::string> names = opencl_devices(why);
  if (names.empty()) {
    throw ConfigError(
        fmt::format("engine.units: gpu needs an OpenCL device: {} (expected a driver, such as Debian's pocl-opencl-icd)", why));
  }
  if (options.index >= names.size()) {
    throw ConfigError(fmt::format("engine.units: there is no gpu{} (expected gpu0 to gpu{}: {})", options.index, names.size() - 1,
                                  fmt::join(names, ", ")));
  }
  const OpenclApi& api = *opencl_api(why);
  return std::make_unique<OpenclDevice>(api, find_devices(api)[options.index], options.most);
}

}  // namespace vitro
