// A GPU as a unit of the host machine: what goes to the device, what does not, and what a lost device leaves behind.
#include "engine/host/gpu_unit.hpp"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/base/rng.hpp"
#include "engine/host/host_machine.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/quant/blocks.hpp"
#include "tests/engine/host/gpu_fakes.hpp"

namespace vitro::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class GpuUnitTest : public testing::Test {
 protected:
  GpuUnitTest() : function_(ComputeOptions{"portable"}) { make({}); }

  void make(PanelDeviceOptions options, std::uint64_t answers = 1000) {
    log_ = {};
    HostOptions host;
    host.units = 1;
    host.gpu = {"gpu", [=, this] { return std::make_unique<LostDevice>(std::make_unique<PanelDevice>(log_, options), answers); }};
    host_ = make_host_machine(host, function_, trace_);
  }

  ComputeUnit& unit() { return *host_->machine().units.back(); }

  View view(std::array<std::uint32_t, 3> shape, Format format, Region region = Region::fixed) {
    View view;
    view.shape = shape;
    view.format = format;
    view.memory = host_->machine().memory.lease(view_bytes(view), Placement::dram, region).value_or_throw();
    Rng rng(view.memory.id());
    std::vector<float> row(columns(view));
    for (std::uint64_t r = 0; r < elements(view) / row.size(); ++r) {
      for (float& x : row) x = static_cast<float>(rng.normal());
      quantise_row(format, row.data(), view.data() + r * row_bytes(format, row.size()), row.size());
    }
    return view;
  }

  KernelCall product(View weights, View x, Slice slice = {}) {
    KernelCall call;
    call.op = ops::Matmul{};
    call.variant = variant::kA16;
    call.slice = slice;
    call.out = {view({x.shape[0], weights.shape[0], 0}, Format::f32, Region::activation)};
    call.in = {std::move(weights), std::move(x)};
    return call;
  }
  View input(std::uint32_t batch, std::uint32_t columns) { return view({batch, columns, 0}, Format::f32, Region::activation); }

  static Task<void> run_chain(ComputeUnit* unit, Chain calls, Status* status) {
    const RunResult result = co_await unit->run(std::move(calls));
    *status = result.status;
  }
  static Task<void> run_graph(ComputeUnit* unit, Chain calls, Status* status) {
    GraphSpec spec;
    spec.calls = std::move(calls);
    const Result<Graph> graph = co_await unit->load(std::move(spec));
    Bindings bindings;
    const RunResult result = co_await unit->launch(graph.value(), std::move(bindings));
    unit->unload(graph.value());
    *status = result.status;
  }
  void run(Chain calls) {
    Status status;
    host_->run(run_chain(&unit(), std::move(calls), &status));
    ASSERT_TRUE(status.ok()) << status.message;
  }

  // What a core computes, over the same bytes of the output.
  std::vector<float> on_the_core(KernelCall call) {
    const View out = call.out[0];
    call.out[0] = view(out.shape, Format::f32);
    std::memcpy(call.out[0].data(), out.data(), view_bytes(out));
    function_.execute(call);
    return floats(call.out[0]);
  }
  static std::vector<float> floats(const View& v) { return {v.as<float>(), v.as<float>() + elements(v)}; }

  ComputeFunction function_;
  NullTrace trace_;
  GpuLog log_;
  std::unique_ptr<MachineHost> host_;
};

TEST_F(GpuUnitTest, stands_behind_the_cores_and_takes_any_chain) {
  EXPECT_EQ(host_->machine().units.size(), 2u);
  EXPECT_EQ(unit().caps().name, "gpu");
  EXPECT_EQ(unit().caps().kind, UnitKind::gpu);
  EXPECT_FALSE(unit().caps().static_graphs);
  const View x = input(2, 64);
  KernelCall first = product(view({96, 64, 0}, Format::q8_0), x), sum;
  sum.op = ops::Add{};
  sum.variant = variant::kFloat;
  sum.in = {first.out[0], first.out[0]};
  sum.out = {view({2, 96, 0}, Format::f32)};
  const std::vector<float> want = on_the_core(first);
  run({first, sum});
  EXPECT_EQ(floats(first.out[0]), want);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(sum.out[0].as<float>()[i], want[i] + want[i]);
}

TEST_F(GpuUnitTest, products_have_the_bits_of_the_core_in_every_form_slice_and_batch) {
  for (const Format format :
       {Format::q8_0, Format::q4_0, Format::w(4, 64, 'z'), Format::w(2, 128), Format::w(1, 32), Format::w(3, 32, 'r')}) {
    for (const std::uint32_t batch : {1u, 3u}) {
      KernelCall call = product(view({40, 256, 0}, format), input(batch, 256), batch == 1 ? Slice{} : Slice{7, 20});
      if (batch == 3) call.in.push_back(view({40, 0, 0}, Format::f32));  // a bias
      const std::vector<float> want = on_the_core(call);
      run({call});
      EXPECT_EQ(floats(call.out[0]), want) << to_string(format) << " " << batch;
    }
  }
  EXPECT_THAT(log_.requests, testing::SizeIs(12));
}

TEST_F(GpuUnitTest, neighbours_are_one_request_unless_one_feeds_the_other) {
  const View x = input(1, 64);
  const KernelCall a = product(view({96, 64, 0}, Format::q8_0), x), b = product(view({64, 64, 0}, Format::q4_0), x);
  const KernelCall c = product(view({32, 96, 0}, Format::q4_0), a.out[0]);
  run({a, b, c});
  EXPECT_THAT(log_.requests, ElementsAre(2, 1));
  EXPECT_EQ(floats(c.out[0]), on_the_core(c));
}

TEST_F(GpuUnitTest, weights_are_copied_once_for_each_layout) {
  const View weights = view({32, 64, 0}, Format::q4_0);
  KernelCall call = product(weights, input(1, 64));
  run({call});
  run({call});
  EXPECT_THAT(log_.placed, ElementsAre(true));
  call.method = Method::buffer;
  run({call});
  call.method = Method::image;
  run({call});
  EXPECT_THAT(log_.placed, ElementsAre(true, false));
}

TEST_F(GpuUnitTest, without_images_weights_are_in_buffers) {
  make({.images = false});
  run({product(view({32, 64, 0}, Format::q4_0), input(1, 64))});
  EXPECT_THAT(log_.placed, ElementsAre(false));
}

TEST_F(GpuUnitTest, what_is_no_product_of_its_contract_runs_on_the_core) {
  KernelCall in_float = product(view({32, 64, 0}, Format::q4_0), input(1, 64));
  in_float.variant = variant::kFloat;
  const KernelCall half = product(view({32, 64, 0}, Format::f16), input(1, 64));
  const KernelCall staged = product(view({32, 64, 0}, Format::q4_0, Region::staging), input(1, 64));  // bytes that are read anew
  for (const KernelCall& call : {in_float, half, staged}) {
    const std::vector<float> want = on_the_core(call);
    run({call});
    EXPECT_EQ(floats(call.out[0]), want);
  }
  EXPECT_TRUE(log_.requests.empty());
}

TEST_F(GpuUnitTest, a_full_device_leaves_the_rest_to_the_core_and_the_report_says_so) {
  make({.room = 1});
  const KernelCall a = product(view({32, 64, 0}, Format::q4_0), input(1, 64)), b = product(view({32, 64, 0}, Format::q8_0), input(1, 64));
  run({a, b});
  EXPECT_EQ(floats(b.out[0]), on_the_core(b));
  EXPECT_THAT(host_->report({}, {}).notes, Contains(HasSubstr("1 matmuls ran on the CPU instead, since Panel GPU: no room")));
}

TEST_F(GpuUnitTest, a_lost_device_ends_the_run_names_itself_and_writes_nothing) {
  make({}, 1);
  const KernelCall a = product(view({32, 64, 0}, Format::q4_0), input(1, 64)), b = product(view({32, 64, 0}, Format::q8_0), input(1, 64));
  run({a});
  const std::vector<float> before = floats(b.out[0]);
  Status status;
  try {
    host_->run(run_chain(&unit(), {b}, &status));
    FAIL() << "the device is lost";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(), "gpu: the device was lost: Panel GPU: clFinish: CL_OUT_OF_RESOURCES (-5)");
  }
  EXPECT_EQ(floats(b.out[0]), before);
}

TEST_F(GpuUnitTest, a_graph_is_a_prepared_chain) {
  const KernelCall call = product(view({32, 64, 0}, Format::q4_0), input(2, 64));
  Status status;
  host_->run(run_graph(&unit(), {call}, &status));
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(floats(call.out[0]), on_the_core(call));
  EXPECT_THAT(log_.requests, ElementsAre(1));
}

}  // namespace
}  // namespace vitro::test
