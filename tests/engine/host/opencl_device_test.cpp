// The OpenCL kernels have the bits of the contract on every device of this machine, whatever holds the weights.
#include "engine/host/opencl_device.hpp"

#include <gmock/gmock.h>

#include "engine/kernels/compute_function.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro::test {
namespace {

using testing::HasSubstr;

std::string why_none() {
  std::string why;
  return opencl_devices(why).empty() ? why : "";
}

#define VITRO_NEEDS_OPENCL() \
  if (const std::string why = why_none(); !why.empty()) GTEST_SKIP() << "no OpenCL device: " << why

struct Case {
  Format format = Format::q4_0;
  std::uint32_t rows = 48, columns = 256, batch = 1;
};

// The device's result of a matmul, and the core's.
struct Results {
  std::vector<float> device, core;
};

Results multiply(GpuDevice& device, const Case& the, bool image) {
  Rng rng(the.rows * 31 + the.columns + the.batch);
  const KernelCall call = matmul_call(rng, the.format, Layout::rows, variant::kA16, {the.rows, the.columns, the.batch});
  ComputeFunction().execute(call);
  Results results;
  results.core.assign(call.out[0].as<float>(), call.out[0].as<float>() + elements(call.out[0]));
  std::vector<std::uint16_t> x;
  for (std::size_t i = 0; i < elements(call.in[1]); ++i) x.push_back(float_to_half(call.in[1].as<float>()[i]));
  const auto weights = device.place(opencl::pack_panels(call.in[0], {0, the.rows}), image);
  EXPECT_TRUE(weights.ok()) << weights.status().message;
  results.device.resize(results.core.size());
  const GpuDevice::Product product{weights.value(), x, the.batch, results.device.data()};
  const Status status = device.multiply({&product, 1});
  EXPECT_TRUE(status.ok()) << status.message;
  return results;
}

TEST(OpenclDevice, has_the_bits_of_the_core_in_every_form_of_weights) {
  VITRO_NEEDS_OPENCL();
  const auto device = make_opencl_device({});
  for (const Format format :
       {Format::q8_0, Format::q4_0, Format::w(4, 64, 'z'), Format::w(3, 128, 'z'), Format::w(2, 64), Format::w(1, 32)}) {
    for (const bool image : {false, true}) {
      if (image && !device->has_images()) continue;
      for (const std::uint32_t batch : {1u, 4u, 7u}) {
        const Results results = multiply(*device, {format, 50, 256, batch}, image);
        EXPECT_EQ(results.device, results.core) << to_string(format) << (image ? " image " : " buffer ") << batch;
      }
    }
  }
}

TEST(OpenclDevice, splits_a_row_between_one_two_and_four_work_items_with_the_same_bits) {
  VITRO_NEEDS_OPENCL();
  for (const std::uint32_t compute_units : {1u, 2u}) {
    const auto device = make_opencl_device({0, {.compute_units = compute_units}});
    for (const std::uint32_t rows : {1u, 63u, 130u, 300u, 600u}) {
      const Results results = multiply(*device, {Format::q8_0, rows, 96, 1}, device->has_images());
      EXPECT_EQ(results.device, results.core) << rows << " " << compute_units;
    }
  }
}

TEST(OpenclDevice, splits_what_is_wider_or_higher_than_the_largest_image) {
  VITRO_NEEDS_OPENCL();
  const auto device = make_opencl_device({0, {.image_width = 64, .image_height = 4}});
  if (!device->has_images()) GTEST_SKIP() << device->name() << " has no images";
  for (const Format format : {Format::q8_0, Format::q4_0}) {
    for (const std::uint32_t batch : {1u, 5u}) {
      const Results results = multiply(*device, {format, 100, 288, batch}, true);  // 18 lines of 8 bits: five columns, of 12 rows
      EXPECT_EQ(results.device, results.core) << to_string(format) << " " << batch;
    }
  }
  EXPECT_THAT(device->notes(), testing::Contains(HasSubstr("are split")));
}

TEST(OpenclDevice, splits_what_exceeds_the_largest_buffer) {
  VITRO_NEEDS_OPENCL();
  const auto device = make_opencl_device({0, {.most_bytes = 4096}});
  const Results results = multiply(*device, {Format::w(4, 32, 'z'), 100, 256, 3}, false);
  EXPECT_EQ(results.device, results.core);
  EXPECT_GT(device->launches(), 1u);
  const Results whole = multiply(*device, {Format::q4_0, 4, 32, 1}, false);
  EXPECT_EQ(whole.device, whole.core);
}

TEST(OpenclDevice, products_of_one_request_may_share_their_input) {
  VITRO_NEEDS_OPENCL();
  const auto device = make_opencl_device({});
  Rng rng(5);
  const KernelCall a = matmul_call(rng, Format::q4_0, Layout::rows, variant::kA16, {40, 64, 2});
  KernelCall b = matmul_call(rng, Format::q8_0, Layout::rows, variant::kA16, {24, 64, 2});
  b.in[1] = a.in[1];
  std::vector<std::uint16_t> x;
  for (std::size_t i = 0; i < elements(a.in[1]); ++i) x.push_back(float_to_half(a.in[1].as<float>()[i]));
  std::vector<float> of_a(80), of_b(48);
  const auto product = [&](const KernelCall& call, std::vector<float>& y) {
    ComputeFunction().execute(call);
    const auto weights = device->place(opencl::pack_panels(call.in[0], {0, call.in[0].shape[0]}), false);
    return GpuDevice::Product{weights.value(), x, 2, y.data()};
  };
  const std::vector<GpuDevice::Product> products{product(a, of_a), product(b, of_b)};
  ASSERT_TRUE(device->multiply(products).ok());
  for (std::size_t i = 0; i < of_a.size(); ++i) ASSERT_EQ(of_a[i], a.out[0].as<float>()[i]);
  for (std::size_t i = 0; i < of_b.size(); ++i) ASSERT_EQ(of_b[i], b.out[0].as<float>()[i]);
}

TEST(OpenclDevice, a_missing_device_is_a_message_that_lists_those_that_are_there) {
  try {
    make_opencl_device({99, {}});
    FAIL() << "a hundred devices";
  } catch (const ConfigError& error) {
    const std::string why = why_none();
    EXPECT_THAT(error.what(), HasSubstr("engine.units: "));
    EXPECT_THAT(error.what(), HasSubstr(why.empty() ? "there is no gpu99 (expected gpu0 to gpu" : why));
  }
}

}  // namespace
}  // namespace vitro::test
