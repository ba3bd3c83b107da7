// Weights in memory that the worker maps are read where they lie if their bytes are its own; all others are copied, and paid for.
#include "engine/host/hexagon_weights.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "tests/engine/host/hexagon_faults.hpp"
#include "tests/engine/host/hexagon_unit_kit.hpp"

namespace vitro::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HexagonWeightsTest : public HexagonUnitTest {
 protected:
  // Memory of 64 MiB sessions, under a budget.
  void make_machine(Bytes budget, std::map<std::uint32_t, Fault> faults = {}) {
    HostOptions options;
    options.units = 1;
    options.memory_limits = {budget, 0, 0, 0};
    options.hexagon.transport = [faults] {
      return std::make_unique<FaultyTransport>(make_qemu_hexagon({{}, {}, 64 * MiB, MiB}), faults);
    };
    host_ = make_host_machine(options, function_, trace_);
  }
  const Budget& budget(Placement where = Placement::dram) { return host_->machine().memory.budget(where); }
  // Loads and launches a matmul in the matrix unit's contract, and compares its bits with the core's.
  void expect_bits_of_the_core(const KernelCall& call) {
    const Status status = launch(Chain(1, call));
    ASSERT_TRUE(status.ok()) << status.message;
    const std::vector<float> expected = on_the_core(call), computed = floats(call.out[0]);
    const Range rows = sliced(call, call.in[0].shape[0]);
    for (std::uint32_t b = 0; b < call.in[1].shape[0]; ++b) {
      for (std::uint32_t r = rows.first; r < rows.end(); ++r) {
        const std::size_t i = std::size_t{b} * call.in[0].shape[0] + r;
        ASSERT_EQ(computed[i], expected[i]) << b << " " << r;
      }
    }
  }
};

// Resident memory of this process that it shares with workers, by the kernel's account.
Bytes resident_in_sessions() {
  std::ifstream smaps("/proc/self/smaps");
  Bytes sum = 0;
  bool counts = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) counts = line.find("vitro-hexagon-in") != std::string::npos;
    if (counts && line.starts_with("Rss:")) sum += std::stoull(line.substr(4)) * KiB;
  }
  return sum;
}

TEST_F(HexagonWeightsTest, weights_in_mapped_memory_are_read_where_they_lie) {
  VITRO_NEEDS_HEXAGON();
  make_machine(GiB);
  for (const Format format : {Format::q4_0_tile, Format::f16}) {
    const Bytes before = resident_in_sessions(), shared = counted("hexagon_shared_bytes");
    KernelCall call = product(view({2048, 1024, 0}, format, Placement::npu_mapped), view({3, 1024, 0}, Format::f32), variant::kHmx);
    const Bytes bytes = view_bytes(call.in[0]), used = budget().used;
    expect_bits_of_the_core(call);
    EXPECT_EQ(counted("hexagon_copied_bytes"), 0u) << to_string(format);
    EXPECT_EQ(counted("hexagon_shared_bytes"), shared + bytes) << to_string(format);
    EXPECT_LT(resident_in_sessions(), before + bytes + bytes / 4) << "once, and activations";
    EXPECT_GT(resident_in_sessions(), before + bytes - bytes / 4) << "these are the weights";
    EXPECT_EQ(budget().used, used);
    call.slice = {64, 96};  // a part of it lies there, too
    expect_bits_of_the_core(call);
    EXPECT_EQ(counted("hexagon_copied_bytes"), 0u);
  }
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("of weights are read where they lie, 0 B from copies")));
}

// The same weights in memory of the engine's own: twice resident, and the second time is charged, as it is for every other format.
TEST_F(HexagonWeightsTest, copies_are_charged_to_the_budget) {
  VITRO_NEEDS_HEXAGON();
  make_machine(GiB);
  const View x = view({2, 1024, 0}, Format::f32);
  const std::tuple<Format, Placement, VariantId> kCopied[] = {{Format::q4_0_tile, Placement::dram, variant::kHmx},
                                                              {Format::f16, Placement::dram, variant::kHmx},
                                                              {Format::q4_0, Placement::npu_mapped, variant::kHmx},
                                                              {Format::q4_0, Placement::npu_mapped, variant::kInt8},
                                                              {Format::q8_0, Placement::npu_mapped, variant::kInt8},
                                                              {Format::w(2, 64), Placement::npu_mapped, variant::kInt8}};
  for (const auto& [format, where, contract] : kCopied) {
    const KernelCall call = product(view({512, 1024, 0}, format, where), x, contract);
    const KernelCall again = product(call.in[0], x, contract);  // its result is leased before the budget is looked at
    const KernelCall core = product(call.in[0], x, contract);
    const Bytes used = budget().used, mapped = budget(Placement::npu_mapped).used, copied = counted("hexagon_copied_bytes");
    const Bytes resident = resident_in_sessions();
    ASSERT_TRUE(launch(Chain(1, call)).ok());
    function_.execute(core);
    EXPECT_EQ(floats(call.out[0]), floats(core.out[0])) << to_string(format);
    const Bytes copy = counted("hexagon_copied_bytes") - copied;
    EXPECT_GE(copy, view_bytes(call.in[0])) << to_string(format);
    EXPECT_EQ(budget().used, used + round_up(copy, kPageSize)) << to_string(format);
    EXPECT_EQ(budget(Placement::npu_mapped).used, mapped + round_up(copy, kPageSize));
    EXPECT_GE(resident_in_sessions(), resident + copy);
    ASSERT_TRUE(launch(Chain(1, again)).ok());
    EXPECT_EQ(counted("hexagon_copied_bytes"), copied + copy) << "once";
  }
  EXPECT_EQ(counted("hexagon_shared_bytes"), 0u);
}

// Strips serve prompts in fp16 and decoding in int8.
TEST_F(HexagonWeightsTest, one_copy_serves_both_contracts_of_the_matrix_unit) {
  VITRO_NEEDS_HEXAGON();
  make_machine(GiB);
  const View x = view({2, 1024, 0}, Format::f32);
  for (const Format format : {Format::q8_0, Format::q4_0}) {
    const View weights = view({256, 1024, 0}, format);
    const Bytes before = counted("hexagon_copied_bytes");
    ASSERT_TRUE(launch(Chain(1, product(weights, x, variant::kHmx))).ok());
    const Bytes copied = counted("hexagon_copied_bytes");
    EXPECT_GT(copied, before);
    expect_bits_of_the_core(product(weights, x, variant::kInt8));
    EXPECT_EQ(counted("hexagon_copied_bytes"), copied) << to_string(format);
  }
}

TEST_F(HexagonWeightsTest, a_budget_without_room_for_a_copy_is_refused_by_name) {
  VITRO_NEEDS_HEXAGON();
  make_machine(2 * MiB);
  const View x = view({1, 1024, 0}, Format::f32);
  const KernelCall copied = product(view({2048, 1024, 0}, Format::q4_0), x, variant::kHmx);  // 1.1 MiB, and twice
  try {
    (void)launch(Chain(1, copied));
    FAIL() << "there was room";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("memory.budget"), HasSubstr("a copy in an order of its own"), HasSubstr("q4_0"),
                                    HasSubstr("more for fixed in npu_mapped do not fit"), HasSubstr("2.00 MiB"), HasSubstr("expected")));
  }
  EXPECT_EQ(counted("hexagon_copied_bytes"), 0u);
  // In this budget a matrix that is shared fits.
  make_machine(2 * MiB);
  expect_bits_of_the_core(product(view({2048, 1024, 0}, Format::q4_0_tile, Placement::npu_mapped), view({1, 1024, 0}, Format::f32),
                                  variant::kHmx));
  EXPECT_LT(budget().peak, 2 * MiB);
}

// Weights are in memory that outlives workers.
TEST_F(HexagonWeightsTest, a_worker_that_died_finds_them_again) {
  VITRO_NEEDS_HEXAGON();
  make_machine(GiB, {{2, Fault::die}, {4, Fault::die_in_transfer}});
  const KernelCall call =
      product(view({512, 1024, 0}, Format::q4_0_tile, Placement::npu_mapped), view({2, 1024, 0}, Format::f32), variant::kHmx);
  for (int i = 0; i < 2; ++i) expect_bits_of_the_core(call);
  EXPECT_THAT(host_->report({}, {}).notes, testing::Contains(HasSubstr("started again")));
  EXPECT_EQ(counted("hexagon_operators"), 2u);
  EXPECT_EQ(counted("hexagon_copied_bytes"), 0u);
}

// An expert's matrix within a lease, and one whose rows begin off a vector.
TEST_F(HexagonWeightsTest, a_matrix_within_a_lease_is_shared_where_its_rows_are_aligned) {
  VITRO_NEEDS_HEXAGON();
  make_machine(GiB);
  const View experts = view({192, 64, 0}, Format::f16, Placement::npu_mapped), x = view({1, 64, 0}, Format::f32);
  View one = experts;
  one.shape = {96, 64, 0};
  one.offset = 96 * 64 * 2;
  expect_bits_of_the_core(product(one, x, variant::kHmx));
  EXPECT_EQ(counted("hexagon_copied_bytes"), 0u);
  one.shape = {32, 64, 0};
  one.offset = 32;  // elements of two rows: no file has that, and the worker's DMA takes no such places
  expect_bits_of_the_core(product(one, x, variant::kHmx));
  EXPECT_GT(counted("hexagon_copied_bytes"), 0u);
}

}  // namespace
}  // namespace vitro::test
