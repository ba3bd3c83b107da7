#include "sim/work.hpp"

#include <gmock/gmock.h>

#include "engine/kernels/bench_attention.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/sim/work_kit.hpp"

namespace vitro::sim {
namespace {

TEST(Work, activations_are_recent_and_weights_are_not) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kFloat;
  call.in.push_back(view_of(simulation.machine(), {64, 32, 0}, Format::f32, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {4, 32, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {4, 64, 0}, Format::f32, Region::activation));
  const hw::Work product = builder.build(call);
  EXPECT_EQ(product.weight_bytes, 64u * 32 * 4);
  EXPECT_EQ(product.recent_read_bytes, 4u * 32 * 4);
  EXPECT_EQ(product.recent_written_bytes, 4u * 64 * 4);
  EXPECT_EQ(product.read_bytes, product.weight_bytes + product.recent_read_bytes);

  call.out[0] = view_of(simulation.machine(), {4, 64, 0}, Format::f32, Region::kv);
  EXPECT_EQ(builder.build(call).recent_written_bytes, 0u);
}

TEST(Work, a_table_may_price_an_operator_apart_from_its_format) {
  Simulation simulation(round_options());
  FixedModel model;
  model.priced = "int8.q8_0.rows";
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {64, 32, 0}, Format::q8_0, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 32, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  EXPECT_EQ(builder.build(call).reused_bytes, 64u * 34);
  EXPECT_EQ(model.asked, std::vector<std::string>{"int8.q8_0.rows"});
  call.in[0].layout = Layout::tiled;
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.q8_0");
  call.in[0].format = Format::q4_0;
  call.in[0].layout = Layout::lut;
  model.priced = "int8.q4_0.lut";
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.q4_0.lut");
  EXPECT_EQ(builder.unpriced(), std::set<std::string>{"int8.q8_0 on big"});  // not there at all, and the result says so
}

// Some cores add products of float16 up without a conversion. A table without that loop has the price of converted weights.
TEST(Work, products_of_float16_with_float16_may_have_their_own_price) {
  Simulation simulation(round_options());
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  FixedModel known, unknown;
  known.priced = "float.f16.halves";
  unknown.priced = "float.f16";
  WorkBuilder priced(known, "big", counts), as_f16(unknown, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kFloat;
  call.in.push_back(view_of(simulation.machine(), {64, 32, 0}, Format::f16, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {4, 32, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {4, 64, 0}, Format::f32, Region::activation));
  const hw::Work single = as_f16.build(call);
  EXPECT_EQ(unknown.asked, std::vector<std::string>{"float.f16"});
  call.in[1].format = call.out[0].format = Format::f16;
  const hw::Work half = as_f16.build(call);
  EXPECT_EQ(unknown.asked.back(), "float.f16");
  EXPECT_EQ(half.read_bytes, single.read_bytes - 4u * 32 * 2);
  EXPECT_EQ(half.written_bytes, 4u * 64 * 2);
  EXPECT_EQ(priced.build(call).recent_read_bytes, 4u * 32 * 2);
  EXPECT_EQ(known.asked, std::vector<std::string>{"float.f16.halves"});
  EXPECT_TRUE(priced.unpriced().empty() && as_f16.unpriced().empty());
}

// Sums in float16 have a loop of their own. A table without it takes that of float32 sums, and the result says so.
TEST(Work, sums_in_float16_have_their_own_price) {
  Simulation simulation(round_options());
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kHalfSums;
  call.in = {view_of(simulation.machine(), {64, 32, 0}, Format::f16, Region::fixed),
             view_of(simulation.machine(), {4, 32, 0}, Format::f16, Region::activation)};
  call.out = {view_of(simulation.machine(), {4, 64, 0}, Format::f16, Region::activation)};
  FixedModel known, unknown;
  known.priced = "half_sums.f16";
  unknown.priced = "float.f16.halves";
  WorkBuilder priced(known, "big", counts), as_float(unknown, "big", counts);
  priced.build(call);
  EXPECT_EQ(known.asked.back(), "half_sums.f16");
  EXPECT_TRUE(priced.unpriced().empty());
  as_float.build(call);
  EXPECT_EQ(unknown.asked.back(), "float.f16.halves");
  EXPECT_EQ(as_float.unpriced(), std::set<std::string>{"half_sums.f16 on big (as float32 sums)"});
}

// A table that unpacks the format prices it; one that does not prices the attention of f16, with the format's own bytes, and says so.
TEST(Work, attention_has_the_price_of_its_keys_and_values) {
  Simulation simulation(round_options());
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  KernelCall call;
  call.op = ops::Attention{};
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(1, SeqPos{0, 9});
  for (const Format format : {Format::int8_fp8, Format::int4_e5m2}) {
    call.in = {view_of(simulation.machine(), {1, 8, 64}, Format::f32, Region::activation),
               view_of(simulation.machine(), {4, 16, 64}, format, Region::kv),
               view_of(simulation.machine(), {1, 1, 0}, Format::index32, Region::activation)};
    call.out = {view_of(simulation.machine(), {1, 8, 64}, Format::f32, Region::activation)};
    const std::string name = "float." + std::string(to_string(format)) + ".attention";
    FixedModel known, unknown;
    known.priced = name;
    unknown.priced = "float.f16.attention";
    WorkBuilder priced(known, "big", counts), as_f16(unknown, "big", counts);
    const hw::Work work = priced.build(call);
    EXPECT_EQ(work.conversions, 2u * 4 * 10 * 64) << "each key and value once for the queries that share it";
    EXPECT_EQ(work.read_bytes, 4u * 10 * kv_pair_bytes(format, 64) + 8 * 64 * 4 + 2 * 4 * 4) << "keys and values, queries, block tables";
    EXPECT_THAT(known.asked, testing::Contains(name));
    EXPECT_TRUE(priced.unpriced().empty());
    EXPECT_EQ(as_f16.build(call).read_bytes, work.read_bytes);
    EXPECT_THAT(unknown.asked, testing::Contains("float.f16.attention"));
    EXPECT_EQ(as_f16.unpriced(), std::set<std::string>{name + " on big (as f16)"});
  }
}

// The contract of the call says which exponential: 2^x by table or by a polynomial; `exact` is priced by that in float32. A table without
// either prices operations.
TEST(Work, scores_have_the_price_of_their_exponential) {
  Simulation simulation(round_options());
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  KernelCall call;
  call.op = ops::Attention{};
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(3, SeqPos{0, 9});
  call.in = {view_of(simulation.machine(), {3, 8, 64}, Format::f32, Region::activation),
             view_of(simulation.machine(), {4, 16, 64}, Format::f16, Region::kv),
             view_of(simulation.machine(), {3, 1, 0}, Format::index32, Region::activation)};
  call.out = {view_of(simulation.machine(), {3, 8, 64}, Format::f32, Region::activation)};
  for (const auto& [contract, entry] : {std::pair{variant::kLutExp, "softmax.exp_table"}, std::pair{variant::kExpF16, "softmax.exp_f16"},
                                        std::pair{variant::kExpF32, "softmax.exp_f32"}, std::pair{variant::kFloat, "softmax.exp_f32"}}) {
    call.variant = contract;
    FixedModel with, without;
    with.priced = entry;
    WorkBuilder priced(with, "npu", counts), general(without, "npu", counts);
    const hw::Work work = priced.build(call), plain = general.build(call);
    EXPECT_TRUE(work.has_own_softmax) << entry;
    EXPECT_EQ(work.elements, 3u * 8 * 10) << "a score for each row, head and position";
    EXPECT_EQ(plain.elementwise - work.elementwise, work.elements * work::kSoftmax);
    EXPECT_FALSE(plain.has_own_softmax);
  }
}

// Codes of eight bits run q8_0's loop, and a row's zero point is one of its blocks': their prices stand in, and the result says so.
TEST(Work, formats_without_a_price_take_that_of_the_same_loop) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {64, 64, 0}, Format::w(8, 64, 'z'), Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 64, 0}, Format::f32, Region::activation));
  call.in[0].layout = Layout::tiled;
  model.priced = "int8.q8_0";
  builder.build(call);
  EXPECT_EQ(model.asked, (std::vector<std::string>{"int8.w8g64z", "int8.q8_0"}));
  call.in[0].format = Format::w(4, 64, "zr");
  model.priced = "int8.w4g64z";
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "int8.w4g64z");
  call.in[0].format = Format::w4_outliers;
  model.priced = "int8.w4g32r";
  EXPECT_EQ(builder.build(call).weight_bytes, 64u * (8 + 32)) << "scales, an outlier for each row of 64, and nibbles";
  EXPECT_EQ(model.asked.back(), "int8.w4g32r");
  EXPECT_EQ(builder.unpriced(), (std::set<std::string>{"int8.w4_outliers on big (as w4g32r)", "int8.w4g64zr on big (as w4g64z)",
                                                       "int8.w8g64z on big (as q8_0)"}));
}

// Tables of int8 are their own kernel, on cores and, whichever way is named, on an NPU; tables are made in the call unless they are there.
TEST(Work, products_by_rounded_tables_have_a_price_of_their_own) {
  Simulation simulation(round_options());
  FixedModel model;
  model.priced = "int8_tables.w2g64z";
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8Tables;
  call.in.push_back(view_of(simulation.machine(), {64, 64, 0}, Format::w(2, 64, 'z'), Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {3, 64, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {3, 64, 0}, Format::f32, Region::activation));
  call.in[0].layout = Layout::lut;
  EXPECT_EQ(builder.build(call).table_inputs, 3u * 64);
  EXPECT_EQ(model.asked, (std::vector<std::string>{"int8_tables.w2g64z", "int8_activations.g64"}));
  call.method = Method::lut;
  call.op = ops::Matmul{.precomputed = true};
  EXPECT_EQ(builder.build(call).table_inputs, 0u);
  EXPECT_EQ(model.asked.back(), "int8_tables.w2g64z");
  call.variant = variant::kInt8;
  builder.build(call);
  EXPECT_EQ(model.asked.back(), "lut.w2g64z");
}

// Tables are sums of int8 activations: who makes the tables pays for making those, once, where its table has that kernel.
TEST(Work, activations_of_look_ups_are_rounded_at_a_price) {
  Simulation simulation(round_options());
  FixedModel model;
  model.priced = "int8_activations.g64";
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "npu", counts);
  KernelCall tables, product;
  tables.op = ops::Precompute{Format::w(2, 64, 'z')};
  tables.method = product.method = Method::lut;
  tables.in.push_back(view_of(simulation.machine(), {3, 128, 0}, Format::f32, Region::activation));
  product.op = ops::Matmul{.precomputed = true};
  product.variant = variant::kInt8;
  product.in.push_back(view_of(simulation.machine(), {64, 128, 0}, Format::w(2, 64, 'z'), Region::fixed));
  product.in.push_back(tables.in[0]);
  product.out.push_back(view_of(simulation.machine(), {3, 64, 0}, Format::f32, Region::activation));
  EXPECT_TRUE(builder.build(tables).rounds_activations);
  EXPECT_EQ(builder.build(tables).table_inputs, 3u * 128);
  EXPECT_FALSE(builder.build(product).rounds_activations) << "they have been";
  product.op = ops::Matmul{};
  EXPECT_TRUE(builder.build(product).rounds_activations);
  product.method = Method::fused;
  EXPECT_FALSE(builder.build(product).rounds_activations) << "the matrix unit takes fp16 tiles";
  EXPECT_FALSE(std::ranges::any_of(builder.unpriced(), [](const std::string& name) { return name.starts_with("int8_activations"); }));

  model.priced.clear();
  WorkBuilder other(model, "npu", counts);
  EXPECT_FALSE(other.build(tables).rounds_activations);
  EXPECT_TRUE(other.unpriced().contains("int8_activations.g64 on npu (as nothing)"));
}

TEST(Work, rows_of_a_prompt_pass_over_keys_together_where_the_unit_has_tiles) {
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder core(model, "big", counts, {.tiles_queries = true}), plain(model, "npu", counts);
  KernelCall prompt = bench_attention({2, 2, 16, 16, 64}, Format::int8_fp8);
  for (View* view : {&prompt.in[0], &prompt.in[1], &prompt.in[2], &prompt.out[0]}) ASSERT_EQ(view->memory.placement(), Placement::dram);
  const hw::Work together = core.build(prompt), apart = plain.build(prompt);
  EXPECT_EQ(together.macs, apart.macs);
  EXPECT_EQ(together.tile_queries, 32u);
  EXPECT_GT(together.shared_macs, apart.macs / 2);
  EXPECT_LT(together.read_bytes, apart.read_bytes);
  EXPECT_LT(together.reused_bytes, apart.reused_bytes);
  EXPECT_LT(together.conversions, apart.conversions);
  EXPECT_LT(together.row_runs, apart.row_runs);
  EXPECT_EQ(apart.shared_macs, 0u);

  prompt.variant = variant::kLutExp;
  EXPECT_EQ(core.build(prompt).read_bytes, plain.build(prompt).read_bytes);
  EXPECT_EQ(core.build(prompt).shared_macs, 0u);
}

// What a product reads is what the host has in memory: tiles of the cores, panels of the Hexagon, rows of the file.
TEST(Work, weights_are_as_many_bytes_as_where_they_lie) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder core(model, "big", counts), npu(model, "npu", counts, {.lays_out = true});
  KernelCall call;
  call.op = ops::Matmul{};
  call.variant = variant::kInt8;
  call.in.push_back(view_of(simulation.machine(), {1536, 640, 0}, Format::f32, Region::fixed));
  call.in.push_back(view_of(simulation.machine(), {1, 640, 0}, Format::f32, Region::activation));
  call.out.push_back(view_of(simulation.machine(), {1, 1536, 0}, Format::f32, Region::activation));
  View& w = call.in[0];
  for (const Format format : formats_with(Layout::lut)) {
    for (const Layout layout : {Layout::rows, Layout::tiled, Layout::lut}) {
      w.format = format;
      w.layout = layout;
      const Bytes panels = hexagon::lut_panels_bytes(hexagon::plane_form(w).value(), 1536, 640);
      EXPECT_EQ(core.build(call).weight_bytes, view_bytes(w)) << to_string(format);
      EXPECT_EQ(core.build(call).reused_bytes, view_bytes(w)) << to_string(format);
      EXPECT_EQ(npu.build(call).weight_bytes, panels) << to_string(format);
      EXPECT_EQ(npu.build(call).reused_bytes, panels) << to_string(format);
      EXPECT_EQ(npu.build(call).read_bytes, panels + 640 * 4) << to_string(format);
    }
  }
  w.format = Format::w(2, 128, 'r');
  w.layout = Layout::tiled;
  EXPECT_EQ(core.build(call).weight_bytes, 1536u * (2 + 640 * 2 / 8));
  w.format = Format::w(4, 128);  // a vendor's graph has one scale per row, whatever stands for it
  call.method = Method::native;
  EXPECT_EQ(npu.build(call).weight_bytes, 1536u * (2 + 640 * 4 / 8));
}

TEST(Work, a_slice_is_never_more_recent_than_what_it_reads) {
  Simulation simulation(round_options());
  FixedModel model;
  const CountFunction counts = [](const KernelCall& call) { return count(call); };
  WorkBuilder builder(model, "big", counts);
  KernelCall add;
  add.op = ops::Add{};
  for (int i = 0; i < 2; ++i) add.in.push_back(view_of(simulation.machine(), {2, 64, 0}, Format::f32, Region::activation));
  add.out.push_back(view_of(simulation.machine(), {2, 64, 0}, Format::f32, Region::activation));
  add.slice = {0, 16};
  const hw::Work work = builder.build(add);
  EXPECT_EQ(work.recent_read_bytes, work.read_bytes);
  EXPECT_EQ(work.recent_written_bytes, work.written_bytes);
  EXPECT_LT(work.read_bytes, 2u * 2 * 64 * 4);
}

}  // namespace
}  // namespace vitro::sim
