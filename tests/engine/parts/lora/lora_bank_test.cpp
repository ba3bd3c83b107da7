#include "engine/parts/lora/lora_bank.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "engine/kernels/compute_function.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using testing::HasSubstr;

ModelConfig small(bool joined = false) {
  ModelConfig config = SmallModel().config;
  config.joined_gate_up = joined;
  return config;
}

VirtualMachineSpec one_core() {
  VirtualMachineSpec spec;
  spec.units.resize(1);
  spec.units[0].name = "cpu0";
  return spec;
}

// Adapters of a small model with random numbers in a file; the first byte is somewhere in a page.
class LoraBankTest : public testing::Test {
 protected:
  LoraAdapter made(const LoraShape& shape, std::uint64_t seed, Machine& machine, bool joined = false) {
    LoraAdapter adapter = phantom_adapter("a" + std::to_string(seed), 1, shape, small(joined));
    std::string bytes(kAhead + adapter.extent().length, 0);
    Rng rng(seed);
    for (auto& [key, pair] : adapter.matrices) {
      for (Weight* matrix : {&pair.a, &pair.b}) {
        matrix->extent.offset += kAhead;
        std::vector<float> values(std::size_t{matrix->rows} * matrix->columns);
        for (float& x : values) x = static_cast<float>(rng.normal());
        quantise_row(matrix->format, values.data(), reinterpret_cast<std::byte*>(bytes.data()) + matrix->extent.offset, values.size());
        written_[matrix->name] = values;
      }
    }
    const std::string path = folder_ / (adapter.name + ".bin");
    write_file(path, bytes);
    adapter.set_file(machine.storage.open(path).value_or_throw());
    return adapter;
  }

  std::vector<float> values_of(const View& view) const {
    std::vector<float> values(std::size_t{view.shape[0]} * view.shape[1]);
    dequantise_row(view.format, view.data(), values.data(), values.size());
    return values;
  }

  static constexpr Bytes kAhead = 96;
  ScratchFolder folder_;
  ComputeFunction function_;
  NullTrace trace_;
  std::map<std::string, std::vector<float>> written_;
};

TEST(AdapterRuns, are_rows_that_stand_together_and_have_one_adapter) {
  const std::vector<AdapterRun> runs = adapter_runs({2, 2, 0, 1, 2, 0});
  EXPECT_EQ(runs, (std::vector<AdapterRun>{{2, 0, 2}, {1, 3, 1}, {2, 4, 1}}))
      << "the last of an adapter that came before, but not beside it";
  EXPECT_TRUE(adapter_runs({0, 0}).empty());
  View x;
  x.shape = {6, 10, 0};
  x.offset = 40;
  EXPECT_EQ(rows_of_run(x, runs[1]).offset, 40u + 3 * 10 * 4);
  EXPECT_EQ(rows_of_run(x, runs[1], 4).shape, (std::array<std::uint32_t, 3>{1, 4, 0}));
}

TEST_F(LoraBankTest, every_matrix_is_where_its_view_says) {
  VirtualMachine host(one_core(), function_, trace_);
  const LoraShape shape{4, 8, {Role::attn_q, Role::ffn_down}, Format::f32};
  LoraBank bank(host.machine(), {made(shape, 1, host.machine())}, {});
  host.run(bank.load());
  EXPECT_EQ(bank.find(1, Role::attn_k, 0), nullptr);
  for (const int layer : {0, 1}) {
    const LoraBank::Pair* pair = bank.find(1, Role::ffn_down, layer);
    ASSERT_NE(pair, nullptr);
    EXPECT_EQ(pair->scale, 2);
    EXPECT_EQ(pair->a.shape, (std::array<std::uint32_t, 3>{4, 96, 0}));
    EXPECT_EQ(values_of(pair->a), written_[fmt::format("blk.{}.ffn_down.weight.lora_a", layer)]);
    EXPECT_EQ(values_of(pair->b), written_[fmt::format("blk.{}.ffn_down.weight.lora_b", layer)]);
  }
  EXPECT_EQ(bank.rank(Role::attn_q, 1), 4u);
  EXPECT_EQ(bank.rank(Role::attn_q, -1), 0u);
}

TEST_F(LoraBankTest, memory_of_adapters_is_a_region_of_its_own_and_has_to_be_there) {
  const LoraShape shape{4, 8, {Role::attn_q}, Format::f32};
  VirtualMachine host(one_core(), function_, trace_);
  std::vector<LoraAdapter> adapters{made(shape, 1, host.machine()), made(shape, 2, host.machine())};
  const auto region = [&] { return host.machine().memory.budget(Placement::dram).region_used[std::size_t(Region::adapter)]; };
  {
    const LoraBank bank(host.machine(), adapters, {});
    EXPECT_GE(region(), adapters[0].extent().length + adapters[1].extent().length);
  }
  EXPECT_EQ(region(), 0u);
  VirtualMachineSpec little = one_core();
  little.memory_limits[0] = kPageSize;
  VirtualMachine narrow(little, function_, trace_);
  EXPECT_THAT(message_of([&] { LoraBank(narrow.machine(), adapters, {}); }), HasSubstr("memory.budget: no room for adapter a1"));
}

TEST_F(LoraBankTest, for_whole_products_b_is_f32_and_there_is_room_for_them) {
  VirtualMachine host(one_core(), function_, trace_);
  const LoraShape shape{4, 8, {Role::attn_k}, Format::f16};
  LoraBank bank(host.machine(), {made(shape, 1, host.machine())}, {LoraOrder::ab_x, false, nullptr});
  host.run(bank.load());
  const LoraBank::Pair* pair = bank.find(1, Role::attn_k, 1);
  EXPECT_EQ(pair->a.format, Format::f16);
  EXPECT_EQ(pair->b.format, Format::f32);
  const std::vector<float> written = written_["blk.1.attn_k.weight.lora_b"], got = values_of(pair->b);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], written[i], std::abs(written[i]) * 0x1p-11);
  EXPECT_EQ(bank.product(Role::attn_k, 1).shape, (std::array<std::uint32_t, 3>{32, 64, 0}));
}

// Down is transposed, and rows that belong to neurons go where these lie.
TEST_F(LoraBankTest, by_neuron_matrices_follow_the_order_of_the_neurons) {
  std::vector<std::uint32_t> reversed(96);
  std::iota(reversed.rbegin(), reversed.rend(), 0u);
  const NeuronOrder order({reversed, reversed}, small(), "test");
  const LoraShape shape{4, 8, {Role::ffn_gate, Role::ffn_down}, Format::f32};
  for (const NeuronOrder* neurons : {static_cast<const NeuronOrder*>(nullptr), &order}) {
    VirtualMachine host(one_core(), function_, trace_);
    LoraBank bank(host.machine(), {made(shape, 1, host.machine())}, {LoraOrder::a_bx, true, neurons});
    host.run(bank.load());
    const View a = bank.find(1, Role::ffn_down, 1)->a, b = bank.find(1, Role::ffn_gate, 1)->b;
    ASSERT_EQ(a.shape, (std::array<std::uint32_t, 3>{96, 4, 0}));
    const std::vector<float>&wa = written_["blk.1.ffn_down.weight.lora_a"], &wb = written_["blk.1.ffn_gate.weight.lora_b"];
    for (std::uint32_t place = 0; place < 96; ++place) {
      const std::uint32_t id = neurons == nullptr ? place : reversed[place];
      for (std::uint32_t r = 0; r < 4; ++r) {
        EXPECT_EQ(a.as<float>()[place * 4 + r], wa[r * 96 + id]);
        EXPECT_EQ(b.as<float>()[place * 4 + r], wb[id * 4 + r]);
      }
    }
  }
}

TEST_F(LoraBankTest, by_neuron_gate_and_up_as_one_are_a_pair_each) {
  std::vector<std::uint32_t> reversed(96);
  std::iota(reversed.rbegin(), reversed.rend(), 0u);
  const NeuronOrder order({reversed, reversed}, small(), "test");
  VirtualMachine host(one_core(), function_, trace_);
  const LoraShape shape{4, 8, {Role::ffn_gate_up}, Format::f32};
  LoraBank bank(host.machine(), {made(shape, 1, host.machine(), true)}, {LoraOrder::a_bx, true, &order});
  host.run(bank.load());
  EXPECT_EQ(bank.rank(Role::ffn_gate_up), 0u);
  const LoraBank::Pair *gate = bank.find(1, Role::ffn_gate, 1), *up = bank.find(1, Role::ffn_up, 1);
  ASSERT_TRUE(gate != nullptr && up != nullptr);
  EXPECT_EQ(gate->a.offset, up->a.offset);
  EXPECT_EQ(values_of(up->a), written_["blk.1.ffn_up.weight.lora_a"]);
  const std::vector<float>& written = written_["blk.1.ffn_up.weight.lora_b"];
  for (std::uint32_t place = 0; place < 96; ++place) {
    for (std::uint32_t r = 0; r < 4; ++r) {
      EXPECT_EQ(gate->b.as<float>()[place * 4 + r], written[reversed[place] * 4 + r]);
      EXPECT_EQ(up->b.as<float>()[place * 4 + r], written[(96 + reversed[place]) * 4 + r]);
    }
  }
}

// So that B A is added up neuron by neuron: rows of B, turned and with the scale in it, weighted by the neuron's row of A.
TEST_F(LoraBankTest, by_neuron_whole_products_have_downs_b_turned_with_the_scale_in_it) {
  VirtualMachine host(one_core(), function_, trace_);
  const LoraShape shape{4, 8, {Role::ffn_up, Role::ffn_down}, Format::f16};
  LoraBank bank(host.machine(), {made(shape, 1, host.machine())}, {LoraOrder::ab_x, true, nullptr});
  host.run(bank.load());
  const LoraBank::Pair* down = bank.find(1, Role::ffn_down, 0);
  EXPECT_EQ(down->scale, 1);
  ASSERT_EQ(down->a.shape, (std::array<std::uint32_t, 3>{96, 4, 0}));
  ASSERT_EQ(down->b.shape, (std::array<std::uint32_t, 3>{4, 64, 0}));
  const std::vector<float>& written = written_["blk.0.ffn_down.weight.lora_b"];
  for (std::uint32_t r = 0; r < 4; ++r) {
    for (std::uint32_t n = 0; n < 64; ++n) {
      const float wanted = 2 * written[n * 4 + r];
      EXPECT_NEAR(down->b.as<float>()[r * 64 + n], wanted, std::abs(wanted) * 0x1p-11);
    }
  }
  EXPECT_EQ(bank.find(1, Role::ffn_up, 0)->scale, 2);
  EXPECT_EQ(bank.product(Role::ffn_up, 0).shape, (std::array<std::uint32_t, 3>{96, 64, 0}));
  EXPECT_EQ(bank.product(Role::ffn_down, 0).shape, (std::array<std::uint32_t, 3>{96, 64, 0}));
}

}  // namespace
}  // namespace vitro
