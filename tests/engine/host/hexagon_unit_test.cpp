// The Hexagon as a unit of the host machine: what it loads, what it refuses, and what a launch computes.
#include "engine/host/hexagon_unit.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "engine/machine/task_scope.hpp"
#include "tests/engine/host/hexagon_unit_kit.hpp"

namespace vitro::test {
namespace {

using testing::HasSubstr;

class HexagonUnitBy : public HexagonUnitTest, public testing::WithParamInterface<Way> {
 protected:
  HexagonUnitBy() : HexagonUnitTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(all, HexagonUnitBy, testing::Values(Way::qemu, Way::fastrpc), testing::PrintToStringParamName());

TEST_P(HexagonUnitBy, stands_behind_the_cores_and_runs_graphs_alone) {
  VITRO_NEEDS_WAY(GetParam());
  EXPECT_EQ(host_->machine().units.size(), 2u);
  EXPECT_EQ(unit().caps().name, "hexagon");
  EXPECT_TRUE(unit().caps().static_graphs);
  Status status;
  Chain chain(1, product(view({32, 32, 0}, Format::q8_0), view({1, 32, 0}, Format::f32)));
  host_->run(run_chain(&unit(), std::move(chain), &status));
  EXPECT_EQ(status.code, Code::unsupported_shape);
}

TEST_P(HexagonUnitBy, a_chain_may_feed_itself_and_share_inputs) {
  VITRO_NEEDS_WAY(GetParam());
  const View x = view({3, 64, 0}, Format::f32);
  KernelCall first = product(view({96, 64, 0}, Format::q8_0), x), second = product(view({64, 64, 0}, Format::q4_0), x);
  KernelCall third = product(view({32, 96, 0}, Format::q4_0), first.out[0]);
  const auto a = on_the_core(first), b = on_the_core(second);
  Chain chain;
  for (const KernelCall& call : {first, second, third}) chain.push_back(call);
  EXPECT_TRUE(launch(std::move(chain)).ok());
  EXPECT_EQ(floats(first.out[0]), a);
  EXPECT_EQ(floats(second.out[0]), b);
  EXPECT_EQ(floats(third.out[0]), on_the_core(third));
  const auto counts = host_->report({}, {}).counts;
  EXPECT_THAT(counts, testing::Contains(std::pair<std::string, std::uint64_t>{"hexagon_operators", 3}));
  EXPECT_THAT(counts, testing::Contains(std::pair<std::string, std::uint64_t>{"hexagon_requests", 2}));  // the third waits for the first
}

// Views of one buffer that begin at the same place are not the same input.
TEST_P(HexagonUnitBy, tells_inputs_of_other_shapes_apart) {
  VITRO_NEEDS_WAY(GetParam());
  const View wide = view({2, 64, 0}, Format::f32);
  View narrow = wide;
  narrow.shape = {1, 32, 0};
  const KernelCall first = product(view({32, 64, 0}, Format::q8_0), wide), second = product(view({32, 32, 0}, Format::q8_0), narrow);
  const auto a = on_the_core(first), b = on_the_core(second);
  Chain chain;
  for (const KernelCall& call : {first, second}) chain.push_back(call);
  EXPECT_TRUE(launch(std::move(chain)).ok());
  EXPECT_EQ(floats(first.out[0]), a);
  EXPECT_EQ(floats(second.out[0]), b);
}

// 1 MiB of results is all that this session holds: larger products are the core's.
TEST_P(HexagonUnitBy, results_that_do_not_fit_are_computed_by_the_core) {
  VITRO_NEEDS_WAY(GetParam());
  const KernelCall large = product(view({1024, 32, 0}, Format::q8_0), view({300, 32, 0}, Format::f32));
  const auto expected = on_the_core(large);
  EXPECT_TRUE(launch(Chain(1, large)).ok());
  EXPECT_EQ(floats(large.out[0]), expected);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("1 operators ran on the CPU instead")));
}

TEST_P(HexagonUnitBy, writes_its_slice_and_nothing_else) {
  VITRO_NEEDS_WAY(GetParam());
  KernelCall call = product(view({96, 64, 0}, Format::q8_0), view({2, 64, 0}, Format::f32));
  call.slice = {48, 32};
  std::memset(call.out[0].data(), 0, view_bytes(call.out[0]));
  const auto expected = on_the_core(call);
  EXPECT_TRUE(launch(Chain(1, call)).ok());
  EXPECT_EQ(floats(call.out[0]), expected);
}

TEST_F(HexagonUnitTest, says_what_it_can_not_load) {
  VITRO_NEEDS_HEXAGON();
  const KernelCall good = product(view({32, 64, 0}, Format::q8_0), view({1, 64, 0}, Format::f32));
  const auto refused = [&](auto change, const char* why) {
    KernelCall call = good;
    change(call);
    const Status status = launch(Chain(1, call));
    EXPECT_EQ(status.code, Code::unsupported_shape) << why;
    EXPECT_THAT(status.message, HasSubstr(why));
  };
  refused([](KernelCall& call) { call.op = ops::Add{}; }, "it has no operator add");
  refused([](KernelCall& call) { call.variant = variant::kFloat; }, "fp16 activations only");
  refused([&](KernelCall& call) { call.in.push_back(view({32, 0, 0}, Format::f32)); }, "no bias");
  refused([](KernelCall& call) { call.rows = std::make_shared<const std::vector<std::uint32_t>>(1, 3); }, "dense rows only");
  refused([&](KernelCall& call) { call.in[0] = view({32, 64, 0}, Format::f16); }, "no kernel for f16");
  refused([](KernelCall& call) { call.in[0].memory = {}; }, "packs weights when a graph is loaded");
  refused(
      [&](KernelCall& call) {
        call = product(view({32, 80, 0}, Format::f16), view({1, 80, 0}, Format::f32));  // no whole tiles
        call.variant = variant::kHmx;
      },
      "no kernel for f16");
  EXPECT_TRUE(launch(Chain(1, good)).ok());
}

// A session here has room for 3.5 MiB of weights.
TEST_P(HexagonUnitBy, a_second_session_opens_when_one_is_too_small) {
  VITRO_NEEDS_WAY(GetParam());
  const View x = view({1, 2048, 0}, Format::f32);
  const KernelCall first = product(view({1024, 2048, 0}, Format::q8_0), x), second = product(view({1024, 2048, 0}, Format::q8_0), x);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(launch(Chain(1, first)).ok());  // its weights take room once
  EXPECT_THAT(host_->report({}, {}).notes, testing::Not(testing::Contains(HasSubstr("sessions"))));
  const auto a = on_the_core(first), b = on_the_core(second);
  EXPECT_TRUE(launch({first, second}).ok());  // one graph over both
  EXPECT_EQ(floats(first.out[0]), a);
  EXPECT_EQ(floats(second.out[0]), b);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("2 sessions")));
  EXPECT_EQ(launch(Chain(1, product(view({1024, 2048, 0}, Format::q8_0), x))).code, Code::over_budget);
  EXPECT_TRUE(launch(Chain(1, product(view({64, 2048, 0}, Format::q8_0), x))).ok());  // what fits still does
}

TEST_P(HexagonUnitBy, a_matrix_larger_than_a_session_opens_none) {
  VITRO_NEEDS_WAY(GetParam());
  const KernelCall call = product(view({4096, 2048, 0}, Format::q8_0), view({1, 2048, 0}, Format::f32));
  EXPECT_EQ(launch(Chain(1, call)).code, Code::over_budget);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Not(testing::Contains(HasSubstr("sessions"))));
}

// A launch whose request does not end until another graph has been loaded.
TEST_F(HexagonUnitTest, loading_does_not_wait_behind_a_launch) {
  VITRO_NEEDS_HEXAGON();
  // Between a request and its answer: the worker's answer is looked at only once the gate is open.
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool posted = false, open = false, timed_out = false;
  } gate;
  class GatedTransport final : public HexagonTransport {
   public:
    GatedTransport(std::unique_ptr<HexagonTransport> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {}
    std::string name() const override { return inner_->name(); }
    std::span<std::byte> inbound() override { return inner_->inbound(); }
    std::span<std::byte> outbound() override { return inner_->outbound(); }
    Status start() override { return inner_->start(); }
    bool alive() override { return inner_->alive(); }
    void stop() override { inner_->stop(); }
    void clean(const void* begin, Bytes length) override { inner_->clean(begin, length); }
    void invalidate(const void* begin, Bytes length) override {
      inner_->invalidate(begin, length);
      if (reinterpret_cast<const hexagon::Request*>(inbound().data())->sequence == 0) return;
      std::unique_lock lock(gate_.mutex);
      gate_.posted = true;
      gate_.changed.notify_all();
      gate_.timed_out = gate_.timed_out || !gate_.changed.wait_for(lock, std::chrono::seconds(20), [&] { return gate_.open; });
    }

   private:
    std::unique_ptr<HexagonTransport> inner_;
    Gate& gate_;
  };
  HostOptions options;
  options.units = 1;
  options.hexagon.transport = [&] { return std::make_unique<GatedTransport>(make_qemu_hexagon({{}, {}, 4 * MiB, MiB}), gate); };
  host_ = make_host_machine(options, function_, trace_);
  const View x = view({2, 256, 0}, Format::f32);
  const KernelCall first = product(view({64, 256, 0}, Format::q8_0), x), second = product(view({96, 256, 0}, Format::q4_0), x);
  Status launched, loaded;
  const auto load = [](ComputeUnit* unit, KernelCall call, Gate* gate, Status* status) -> Task<void> {
    {
      std::unique_lock lock(gate->mutex);
      gate->changed.wait_for(lock, std::chrono::seconds(20), [&] { return gate->posted; });
    }
    GraphSpec spec;
    spec.name = "second";
    spec.calls.push_back(std::move(call));
    const Result<Graph> graph = co_await unit->load(std::move(spec));
    *status = graph.ok() ? Status{} : graph.status();
    const std::scoped_lock lock(gate->mutex);
    gate->open = true;
    gate->changed.notify_all();
  };
  const auto both = [](ComputeUnit* unit, Executor* executor, KernelCall one, Task<void> other, Status* status) -> Task<void> {
    TaskScope scope(*executor);
    Chain chain(1, std::move(one));
    scope.spawn(run(unit, std::move(chain), status));
    scope.spawn(std::move(other));
    co_await scope.join();
  };
  host_->run(both(&unit(), &unit().executor(), first, load(&unit(), second, &gate, &loaded), &launched));
  EXPECT_TRUE(launched.ok()) << launched.message;
  EXPECT_TRUE(loaded.ok()) << loaded.message;
  EXPECT_TRUE(gate.posted);
  EXPECT_FALSE(gate.timed_out);
  EXPECT_EQ(floats(first.out[0]), on_the_core(first));
}

// Group formats in the int8 contract, in blocks of the weights' own size; the order and the roundings are the contract's.
TEST_P(HexagonUnitBy, group_formats_follow_the_int8_contract) {
  VITRO_NEEDS_WAY(GetParam());
  for (const Format format : all_formats()) {
    if (!format.is_group()) continue;
    const std::uint32_t group = format.block, k = 256;
    const KernelCall call = product(view({40, k, 0}, format), view({2, k, 0}, Format::f32));
    EXPECT_EQ(launch(Chain(1, call)).ok(), has_look_ups(format)) << to_string(format);
    if (!has_look_ups(format)) continue;  // refused: no kernel of the worker takes them
    std::vector<std::uint8_t> codes(k);
    for (std::uint32_t b = 0; b < 2; ++b) {
      const float* x = call.in[1].as<float>() + std::size_t{b} * k;
      for (std::uint32_t row = 0; row < 40; ++row) {
        const std::byte* w = call.in[0].data() + row * row_bytes(format, k);
        unpack_codes(format, w, k, codes.data());
        float acc = 0;
        for (std::uint32_t first = 0; first < k; first += group) {
          const BlockScale scale = block_scale(format, w + first / group * block_bytes(format));
          const float most =
              std::abs(*std::max_element(x + first, x + first + group, [](float p, float q) { return std::abs(p) < std::abs(q); }));
          std::int32_t dot = 0;
          for (std::uint32_t i = first; i < first + group; ++i) {
            dot += (scale.step * codes[i] - scale.zero) * static_cast<std::int32_t>(std::nearbyint(x[i] * (127 / most)));
          }
          acc = std::fma(static_cast<float>(dot), scale.scale * (most / 127), acc);
        }
        ASSERT_EQ(call.out[0].as<float>()[b * 40 + row], acc) << to_string(format) << " " << b << " " << row;
      }
    }
  }
}

}  // namespace
}  // namespace vitro::test
