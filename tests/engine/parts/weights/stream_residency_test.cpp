#include "engine/parts/weights/stream_residency.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/rng.hpp"
#include "engine/parts/weights/phase_runner.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr Bytes kMatrix = 2560;  // bytes of one expert's matrix: most do not begin on a page
constexpr std::uint32_t kExperts = 3, kLayers = 4;

std::byte pattern(Bytes offset) { return static_cast<std::byte>((offset * 131 + offset / kPageSize) & 0xff); }

// Compares what each call reads with the file. A call's slice says where they begin.
class Compares final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ++calls;
    const auto at = static_cast<Bytes>(call.slice.first);
    for (const View& view : call.in) {
      for (Bytes b = 0; b < kMatrix; ++b) wrong += view.data()[b] != pattern(at + b);
    }
    return {};
  }
  int calls = 0, wrong = 0;
};

// A file of kLayers layers, each with a gate and a down weight of three experts (two pages each).
class StreamResidencyTest : public testing::Test {
 protected:
  StreamResidencyTest() : path_(std::filesystem::temp_directory_path() / ("vitro_stream_" + std::to_string(::getpid()))) {
    std::ofstream file(path_, std::ios::binary);
    for (Bytes i = 0; i < kLayers * 4 * kPageSize; ++i) file.put(static_cast<char>(pattern(i)));
  }
  ~StreamResidencyTest() override { std::filesystem::remove(path_); }

  void make(std::optional<double> ffn_in_dram, Bytes budget = MiB, Bytes keep_free = 0, std::uint64_t timing = 0, bool experts = false) {
    VirtualMachineSpec spec;
    for (const char* name : {"npu", "cpu0", "cpu1"}) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.kind = std::string_view(name) == "npu" ? UnitKind::npu : UnitKind::core;
      caps.name = name;
      spec.units.push_back(caps);
    }
    auto rng = std::make_shared<Rng>(timing);
    spec.shuffle = timing;
    if (timing > 0) spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1 + static_cast<int>(rng->below(1000))); };
    spec.memory_limits = {budget, 0, 0, 0};
    residency_.reset();
    host_.emplace(spec, function_, trace_);
    const FileId file = host_->machine().storage.open(path_.string()).value_or_throw();
    std::vector<Weight> all;
    for (std::uint32_t i = 0; i < 2 * kLayers; ++i) {
      Weight w;
      w.name = "w" + std::to_string(i);
      w.role = i % 2 == 0 ? Role::ffn_gate : Role::ffn_down;
      w.layer = static_cast<std::int16_t>(i / 2);
      w.experts = kExperts;
      w.rows = 8, w.columns = 80;
      w.extent = {file, i * 2 * kPageSize, kExperts * kMatrix};
      all.push_back(w);
    }
    weights_.emplace(std::move(all));
    residency_.emplace(host_->machine(), *weights_, StreamOptions{ffn_in_dram, keep_free, UnitId(0), experts});
    host_->run(residency_->load());
    loaded_ = host_->machine().storage.totals().bytes_read;
  }

  // Goes through the model for one expert per layer; false when a kernel would have seen other bytes than the file's.
  bool pass(std::uint32_t expert) {
    UnitQueues queues(1);
    for (const Weight& w : weights_->all()) queues[0].push_back({{}, {{&w, expert * kMatrix, kMatrix}}});
    residency_->plan(queues);
    bool right = true;
    for (std::size_t i = 0; i < queues[0].size(); ++i) {
      if (!residency_->ready(0, i)) host_->run(residency_->fetch(0, i, UnitId(0)));
      const Weight& w = weights_->all()[i];
      const View view = residency_->view(w, expert);
      for (Bytes b = 0; b < kMatrix; ++b) right = right && view.data()[b] == pattern(w.extent.offset + expert * kMatrix + b);
    }
    return right;
  }
  WorkItem item(std::size_t weight, std::uint32_t expert) {
    const Weight& w = weights_->all()[weight];
    KernelCall call;
    call.layer = w.layer;
    call.slice.first = static_cast<std::uint32_t>(w.extent.offset + expert * kMatrix);
    call.in = {residency_->view(w, expert)};
    return {{call}, {{&w, expert * kMatrix, kMatrix}}};
  }
  void run(UnitQueues queues) {
    Machine& machine = host_->machine();
    GraphCache graphs(machine);
    PhaseRunner runner(machine, *residency_, graphs);
    host_->run(ended(runner.run(std::move(queues), {machine.units[0], machine.units[1], machine.units[2]})));
  }
  static Task<void> ended(Task<std::vector<Outcome>> task) { co_await std::move(task); }
  Bytes streamed() const { return host_->machine().storage.totals().bytes_read - loaded_; }

  std::filesystem::path path_;
  Compares function_;
  NullTrace trace_;
  mutable std::optional<VirtualMachine> host_;
  std::optional<WeightStore> weights_;
  std::optional<StreamResidency> residency_;
  Bytes loaded_ = 0;
};

TEST_F(StreamResidencyTest, kernels_see_the_file_whatever_stays) {
  for (const double share : {0.0, 0.25, 0.6, 1.0}) {
    make(share);
    for (const std::uint32_t expert : {0u, 2u, 1u, 1u}) EXPECT_TRUE(pass(expert)) << share << ", expert " << expert;
  }
}

TEST_F(StreamResidencyTest, the_beginning_of_the_model_stays_and_the_rest_is_read_in_every_pass) {
  make(0.5);  // of eight weights of 7680 bytes, the first three in whole pages
  pass(0);
  EXPECT_EQ(residency_->stats().hits, 3u);
  EXPECT_EQ(residency_->stats().misses, 5u);
  EXPECT_EQ(streamed(), 5 * kPageSize) << "one page each: the first expert's";
  pass(1);  // from byte 2560 to 5120: two pages
  EXPECT_EQ(streamed(), (5 + 10) * kPageSize);
}

TEST_F(StreamResidencyTest, a_buffer_that_still_holds_the_matrix_is_not_filled_again) {
  make(0.0);
  UnitQueues queues(1);
  for (int i = 0; i < 2; ++i) queues[0].push_back({{}, {{&weights_->all()[2], 0, kMatrix}}});
  residency_->plan(queues);
  EXPECT_FALSE(residency_->ready(0, 0));
  EXPECT_TRUE(residency_->ready(0, 1));
}

// Whoever is faster: nobody reads over what another unit still computes with, and nobody computes before it is read.
TEST_F(StreamResidencyTest, units_share_a_buffer_and_read_a_matrix_once) {
  for (std::uint64_t timing = 1; timing <= 20; ++timing) {
    function_ = {};
    make(0.0, MiB, 0, timing);
    UnitQueues queues(3);
    for (std::size_t w = 0; w < weights_->all().size(); ++w) {
      for (std::size_t unit = 0; unit < 3; ++unit) {
        for (const std::uint32_t expert : {0u, 2u}) {
          if (w == 3 && unit == 1) continue;  // a unit without a share
          queues[unit].push_back(item(w, expert));
        }
      }
    }
    queues[2].insert(queues[2].begin(), WorkItem{});  // work of its own, so that its items come later than those of others
    run(std::move(queues));
    EXPECT_EQ(function_.wrong, 0) << timing;
    EXPECT_EQ(function_.calls, 8 * 2 * 3 - 2);
    EXPECT_EQ(residency_->stats().misses, 8u * 2) << "each matrix once, for all units";
  }
}

TEST_F(StreamResidencyTest, experts_of_one_graph_have_buffers_of_their_own) {
  make(0.0, MiB, 0, 1, true);
  UnitQueues queues(3);
  WorkItem both = item(0, 0);
  WorkItem second = item(0, 2);
  both.calls.push_back(second.calls.front());
  both.uses.push_back(second.uses.front());
  queues[0] = {both};
  run(std::move(queues));
  EXPECT_EQ(function_.wrong, 0);
  EXPECT_EQ(residency_->stats().misses, 2u);
}

TEST_F(StreamResidencyTest, under_a_budget_what_fits_beside_the_buffers_stays) {
  make(std::nullopt, 12 * kPageSize, 2 * kPageSize);  // two buffers of two pages, so three weights of two pages
  EXPECT_TRUE(pass(2));
  EXPECT_EQ(residency_->stats().misses, 5u);
  EXPECT_LE(host_->machine().memory.budget(Placement::dram).peak, 10 * kPageSize);
  make(std::nullopt, 16 * kPageSize);
  EXPECT_TRUE(pass(2));
  EXPECT_EQ(residency_->stats().misses, 0u) << "all of it fits, and no buffer is needed";
}

TEST_F(StreamResidencyTest, a_budget_without_room_for_the_buffers_is_a_clear_error) {
  try {
    make(std::nullopt, 4 * kPageSize, 2 * kPageSize);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()).find("memory.budget: "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace vitro
