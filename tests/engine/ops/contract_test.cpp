#include "engine/ops/contract.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/kernels/compute_function.hpp"
#include "tests/engine/kernels/call_kit.hpp"

namespace vitro {
namespace {

using namespace test;
using testing::HasSubstr;

std::string message_of(const KernelCall& call) {
  try {
    check_call(call);
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

IndexList list(std::vector<std::uint32_t> ids) { return std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)); }

KernelCall good_matmul() {
  Rng rng(1);
  return matmul_call(rng, Format::q4_0, Layout::tiled, variant::kInt8, {32, 64, 3});
}

TEST(Contract, random_calls_of_every_operator_are_accepted) {
  Rng rng(2);
  for (const Op& op : kAllOps) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(message_of(random_call(rng, op, i % 2 == 0 ? variant::kFloat : variant::kInt8)), "accepted");
  }
}

TEST(Contract, a_broken_matmul_is_named_by_operand_and_shape) {
  const auto broken = [](const std::function<void(KernelCall&)>& change) {
    KernelCall call = good_matmul();
    change(call);
    return message_of(call);
  };
  EXPECT_EQ(message_of(good_matmul()), "accepted");
  EXPECT_EQ(broken([](KernelCall& c) { c.in[1].shape[1] = 96; }), "matmul: operand x is f32 [3, 96]: dimension 1 has to be 64");
  EXPECT_EQ(broken([](KernelCall& c) { c.out[0].shape[0] = 2; }), "matmul: operand y is f32 [2, 32]: dimension 0 has to be 3");
  EXPECT_EQ(broken([](KernelCall& c) { c.variant = variant::kFloat; }),
            "matmul: operand W is q4_0 [32, 64] tiled: variant float does not take it");
  EXPECT_EQ(broken([](KernelCall& c) { c.slice = {8, 8}; }), "matmul: slice 8+8 cuts a tile of 16");
  EXPECT_EQ(broken([](KernelCall& c) { c.slice = {16, 32}; }), "matmul: slice 16+32 is outside [0, 32)");
  EXPECT_THAT(broken([](KernelCall& c) { c.in[0].offset = 1; }), HasSubstr("1152 bytes at offset 1 leave its lease of 1152"));
  EXPECT_THAT(broken([](KernelCall& c) { c.in[0].shape[1] = 72; }), HasSubstr("whole blocks of 32"));
  EXPECT_THAT(broken([](KernelCall& c) { c.in[0].shape[0] = 24; }), HasSubstr("dimension 1 has to be 24"));
  EXPECT_THAT(broken([](KernelCall& c) { c.in[1].offset = 2; }), HasSubstr("leave its lease"));
  EXPECT_EQ(broken([](KernelCall& c) { c.in.pop_back(); }), "matmul: 1 inputs (expected 2 to 3)");
  EXPECT_EQ(broken([](KernelCall& c) { c.rows = list({3, 3}); }), "matmul: row 3 is out of order or outside the slice");
  EXPECT_EQ(broken([](KernelCall& c) { c.in[0].memory = Lease(); }), "matmul: operand W is q4_0 [32, 64] tiled: it has no memory");
}

// Rows of 64 halves are 128 bytes; the lease holds 32 of them.
TEST(Contract, row_offsets_have_to_be_those_of_the_rows_and_inside_the_lease) {
  const auto placed = [](
                          IndexList rows, IndexList row_offsets, const std::function<void(KernelCall&)>& change = [](KernelCall&) {}) {
    Rng rng(1);
    KernelCall call = matmul_call(rng, Format::f16, Layout::rows, variant::kFloat, {32, 64, 1});
    call.rows = std::move(rows);
    call.row_offsets = std::move(row_offsets);
    change(call);
    return message_of(call);
  };
  EXPECT_EQ(placed(list({3, 7}), list({62, 0})), "accepted");
  EXPECT_EQ(placed(list({3, 7}), list({62, 0}), [](KernelCall& c) { c.in[0].shape[0] = c.out[0].shape[1] = 30; }), "accepted");
  EXPECT_EQ(placed(list({3, 7}), list({63, 0})), "matmul: operand W is f16 [32, 64]: 4160 bytes at offset 0 leave its lease of 4096");
  EXPECT_THAT(placed(list({3, 7}), list({62, 0}), [](KernelCall& c) { c.in[0].offset = 64; }), HasSubstr("4096 bytes at offset 64 leave"));
  EXPECT_EQ(placed(list({3, 7}), list({0})), "matmul: 1 row offsets for 2 rows");
  EXPECT_EQ(placed(nullptr, list({0})), "matmul: row offsets are given without their rows");
  EXPECT_EQ(placed(list({7, 3}), list({0, 2})), "matmul: row 3 is out of order or outside the slice");
  KernelCall tiled = good_matmul();
  tiled.rows = list({0});
  tiled.row_offsets = list({0});
  EXPECT_EQ(message_of(tiled), "matmul: operand W is q4_0 [32, 64] tiled: rows with offsets stand by themselves, not in tiles");
  Rng rng(2);
  KernelCall glu = random_call(rng, ops::Glu{}, variant::kFloat);
  glu.row_offsets = list({0});
  EXPECT_EQ(message_of(glu), "glu: takes no row offsets");
}

// Two rows of 32 floats, 128 bytes each, in leases of 1024.
TEST(Contract, a_copy_from_places_to_places_stays_inside_both_leases) {
  const auto copied = [](
                          IndexList from, IndexList to, const std::function<void(KernelCall&)>& change = [](KernelCall&) {}) {
    Rng rng(1);
    KernelCall call;
    call.op = ops::Copy{};
    call.in = {floats(rng, {8, 32, 0})};
    call.out = {make_view({8, 32, 0}, Format::f32)};
    call.in[0].shape[0] = call.out[0].shape[0] = 2;
    call.rows = std::move(from);
    call.row_offsets = std::move(to);
    change(call);
    return message_of(call);
  };
  EXPECT_EQ(copied(list({14, 3}), list({0, 14})), "accepted");
  EXPECT_EQ(copied(list({15, 3}), list({0, 14})), "copy: operand x is f32 [2, 32]: offset 15 leaves its lease of 1024");
  EXPECT_EQ(copied(list({14, 3}), list({15, 0})), "copy: operand y is f32 [2, 32]: offset 15 leaves its lease of 1024");
  EXPECT_EQ(copied(list({14}), list({0, 14})), "copy: operand x is f32 [2, 32]: expected an offset for each row");
  EXPECT_EQ(copied(list({14, 3}), nullptr), "copy: operand y is f32 [2, 32]: expected an offset for each row");
  EXPECT_EQ(copied(list({0, 1}), list({0, 2}), [](KernelCall& c) { c.out[0].format = Format::f16; }),
            "copy: operand y is f16 [2, 32]: expected f32");
  EXPECT_EQ(copied(list({0, 1}), list({0, 2}), [](KernelCall& c) { c.out[0].shape[1] = 16; }),
            "copy: operand y is f32 [2, 16]: expected the shape of x, f32 [2, 32]");
}

TEST(Contract, a_broken_staging_of_keys_and_values_is_named) {
  Rng rng(7);
  KernelCall good = random_call(rng, ops::KvStage{}, variant::kFloat);
  good.slice = {};
  const auto broken = [&](const std::function<void(KernelCall&)>& change) {
    KernelCall call = good;
    change(call);
    return message_of(call);
  };
  EXPECT_EQ(broken([](KernelCall&) {}), "accepted");
  EXPECT_THAT(broken([](KernelCall& c) { c.out[0].format = Format::f32; }), HasSubstr("expected f16"));
  EXPECT_THAT(broken([](KernelCall& c) { ++c.out[0].shape[2]; }), HasSubstr("dimension 2 has to be"));
  EXPECT_THAT(broken([](KernelCall& c) { c.in[1].shape = {c.in[1].shape[0], 0, 0}; }), HasSubstr("expected 2 dimensions"));
  EXPECT_THAT(broken([](KernelCall& c) { c.batch = nullptr; }), HasSubstr("the batch has 0 rows"));
  EXPECT_THAT(
      broken([](KernelCall& c) { c.batch = std::make_shared<const std::vector<SeqPos>>(c.in[1].shape[0], SeqPos{0, c.in[0].shape[1]}); }),
      HasSubstr("needs block 1"));
  EXPECT_THAT(broken([](KernelCall& c) { c.slice = {0, c.in[0].shape[0] + 1}; }), HasSubstr("is outside"));
  EXPECT_THAT(broken([](KernelCall& c) { c.out[0] = make_view({c.in[0].shape[0], c.in[0].shape[1], c.in[0].shape[2]}, Format::f16); }),
              HasSubstr("in room for 0"));
}

TEST(Contract, a_broken_select_or_accumulate_is_named) {
  Rng rng(6);
  KernelCall select = random_call(rng, ops::Select{}, variant::kFloat);
  select.op = ops::Select{.threshold = std::nanf("")};
  EXPECT_EQ(message_of(select), "select: parameter threshold is not a number");
  KernelCall sum;
  sum.op = ops::Accumulate{};
  sum.in = {weights(rng, 8, 64, Format::q8_0, Layout::rows), floats(rng, {2, 8, 0})};
  sum.out = {make_view({2, 64, 0}, Format::f32)};
  EXPECT_EQ(message_of(sum), "accepted");
  sum.in[1].shape[1] = 7;
  EXPECT_EQ(message_of(sum), "accumulate: operand h is f32 [2, 7]: dimension 1 has to be 8");
  sum.in[1].shape[1] = 8;
  sum.out[0].shape[1] = 32;
  EXPECT_EQ(message_of(sum), "accumulate: operand y is f32 [2, 32]: dimension 1 has to be 64");
  sum.in[0].layout = Layout::tiled;
  EXPECT_THAT(message_of(sum), HasSubstr("only matmul takes a tiled operand"));
}

TEST(Contract, nibbles_need_their_scales_and_nothing_else_takes_any) {
  Rng rng(5);
  const KernelCall apart = with_scales_apart(matmul_call(rng, Format::q4_0, Layout::rows, variant::kFloat, {8, 64, 1}, true));
  const auto changed = [&](const std::function<void(KernelCall&)>& change) {
    KernelCall call = apart;
    change(call);
    return message_of(call);
  };
  EXPECT_EQ(changed([](KernelCall&) {}), "accepted");
  EXPECT_EQ(changed([](KernelCall& c) { c.in.resize(2); }), "matmul: 2 inputs (expected 3 to 4)");
  EXPECT_EQ(changed([](KernelCall& c) { c.in[2].format = Format::f32; }), "matmul: operand scales is f32 [8, 2]: expected f16");
  EXPECT_EQ(changed([](KernelCall& c) { c.in[2].shape[1] = 1; }), "matmul: operand scales is f16 [8, 1]: dimension 1 has to be 2");
  EXPECT_EQ(changed([](KernelCall& c) { c.in[0].format = Format::q4_0; }), "matmul: 4 inputs (expected 2 to 3)");
  KernelCall q4_0 = matmul_call(rng, Format::q4_0, Layout::rows, variant::kFloat, {8, 64, 1}, true);
  q4_0.in.push_back(q4_0.in[2]);
  EXPECT_EQ(message_of(q4_0), "matmul: 4 inputs (expected 2 to 3)");
  KernelCall embed = random_call(rng, ops::Embed{}, variant::kFloat);
  embed.in[0] = apart.in[0];
  EXPECT_THAT(message_of(embed), HasSubstr("operand table is q4_nibbles [8, 64]: expected weights"));
}

TEST(Contract, positions_have_to_be_inside_the_block_table_and_the_pool) {
  Rng rng(3);
  KernelCall call = random_call(rng, ops::Attention{}, variant::kFloat);
  KernelCall beyond = call;
  beyond.batch = std::make_shared<std::vector<SeqPos>>(call.batch->size(), SeqPos{0, 64});
  EXPECT_THAT(message_of(beyond), HasSubstr("position 64 needs block"));
  KernelCall few = call;
  few.batch = std::make_shared<std::vector<SeqPos>>(call.batch->size(), SeqPos{0, 1});
  std::get<ops::Attention>(few.op).keys = 1;
  EXPECT_THAT(message_of(few), HasSubstr("position 1 is beyond the 1 keys of its graph"));
  for (std::uint32_t i = 0; i < elements(call.in[2]); ++i) call.in[2].as<std::uint32_t>()[i] = 1'000'000;
  EXPECT_THAT(message_of(call), HasSubstr("block 1000000 is outside a pool of"));
}

TEST(Contract, parts_of_attention_need_room_for_what_each_row_sees) {
  Rng rng(8);
  for (const Op& op : {Op(ops::AttentionScores{}), Op(ops::AttentionWeights{}), Op(ops::AttentionValues{})}) {
    KernelCall call = random_call(rng, op, variant::kFloat);
    std::visit(Overloaded{[](auto& part) requires requires { part.window; } { part.window = 0; }, [](auto&) {}}, call.op);
    call.batch = std::make_shared<std::vector<SeqPos>>(call.batch->size(), SeqPos{0, 63});
    EXPECT_EQ(message_of(call), "accepted");
    View& numbers = call.is<ops::AttentionScores>() ? call.out[0] : call.in[0];
    numbers.shape[2] = 63;
    if (call.is<ops::AttentionWeights>()) call.out = call.in;
    EXPECT_THAT(message_of(call), HasSubstr("position 63 sees 64 positions")) << to_string(op);
    numbers.shape[2] = 64;
    if (call.is<ops::AttentionWeights>()) continue;
    numbers.shape[1] += call.in[1].shape[0] > 1 ? 1 : 0;
    if (call.in[1].shape[0] > 1) {
      EXPECT_THAT(message_of(call), HasSubstr("leave its lease")) << to_string(op);
    }
  }
}

TEST(Contract, a_pool_has_a_whole_number_of_copies_of_each_head) {
  Rng rng(6);
  const KernelCall call = append_of_copies(rng, Format::f16);
  EXPECT_EQ(message_of(call), "accepted");
  KernelCall odd = call;
  odd.in[0] = odd.in[1] = floats(rng, {3, 4, 24});
  EXPECT_EQ(message_of(odd), "kv_append: operand k is f32 [3, 4, 24]: the pool's 6 heads have to be a multiple of its heads");
  KernelCall torn = call;
  torn.in[0] = torn.in[1] = floats(rng, {3, 1, 12});
  EXPECT_THAT(message_of(torn), HasSubstr("have to be a multiple of its heads"));
  KernelCall beyond = call;
  beyond.slice = {4, 3};
  EXPECT_THAT(message_of(beyond), HasSubstr("slice 4+3 is outside [0, 6)"));
}

TEST(Contract, parameters_out_of_range_are_refused) {
  Rng rng(4);
  KernelCall route = random_call(rng, ops::Route{}, variant::kFloat);
  route.op = ops::Route{.k = 0};
  EXPECT_THAT(message_of(route), HasSubstr("parameter k is 0 (expected from 1 to "));
  route.op = ops::Route{.k = 1, .scale = 0};
  EXPECT_EQ(message_of(route), "route: parameter scale has to be above 0");
  route.op = ops::Route{.k = 1, .renormalise = true, .scores = ops::Scores::sparse_mixer};
  EXPECT_EQ(message_of(route), "route: weights of a sparse mixer are not renormalised");
  KernelCall sample = random_call(rng, ops::Sample{}, variant::kFloat);
  sample.op = ops::Sample{.temperature = -1};
  EXPECT_THAT(message_of(sample), HasSubstr("temperature"));
  sample.op = ops::Sample{.temperature = 1, .top_p = 1.5f};
  EXPECT_EQ(message_of(sample), "sample: parameter top_p has to be in (0, 1]");
  KernelCall rope = random_call(rng, ops::Rope{}, variant::kFloat);
  rope.op = ops::Rope{.base = 10000, .dims = 3};
  EXPECT_THAT(message_of(rope), HasSubstr("rope: parameter rotary dims is"));
  KernelCall append = random_call(rng, ops::KvAppend{}, variant::kFloat);
  append.op = ops::KvAppend{.pool_layers = 0};
  EXPECT_EQ(message_of(append), "kv_append: parameter layers is 0 (expected from 1 to 32767)");
}

TEST(ComputeFunction, data_that_names_rows_outside_is_a_run_error) {
  Rng rng(5);
  KernelCall embed = random_call(rng, ops::Embed{}, variant::kFloat);
  embed.in[1].as<std::uint32_t>()[0] = 99;
  EXPECT_THROW(ComputeFunction().execute(embed), RunError);
  KernelCall sample = random_call(rng, ops::Sample{}, variant::kFloat);
  sample.in[0].as<float>()[0] = std::nanf("");
  EXPECT_THROW(ComputeFunction().execute(sample), RunError);
}

TEST(ComputeFunction, a_phantom_operand_is_a_run_error) {
  KernelCall call = good_matmul();
  call.in[0].memory = Lease(std::make_shared<Block>(Block{Placement::dram, Region::fixed, 1 << 20, nullptr, 0}));
  EXPECT_THROW(ComputeFunction().execute(call), RunError);
}

TEST(ComputeFunction, unknown_sets_are_the_users_mistake_and_the_message_lists_the_known) {
  try {
    ComputeFunction function({"sse9"});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"sse9\""));
    EXPECT_THAT(error.what(), HasSubstr("portable"));
  }
}

TEST(Variants, names_lead_back_and_layouts_are_those_of_the_header) {
  for (const VariantId id : {variant::kFloat, variant::kInt8, variant::kReference}) EXPECT_EQ(variant::by_name(variant::name(id)), id);
  EXPECT_EQ(variant::by_name("float64"), VariantId::none);
  EXPECT_EQ(variant::by_key("fp16"), variant::kHmx);
  EXPECT_EQ(variant::by_key("int8_rows"), variant::kInt8Rows);
  EXPECT_EQ(variant::by_key("same"), VariantId::none);
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q4_0, Layout::tiled));
  EXPECT_FALSE(variant::supports(variant::kInt8, Format::f16, Layout::rows));
  EXPECT_FALSE(variant::supports(variant::kFloat, Format::q4_0, Layout::tiled));
  EXPECT_TRUE(variant::supports(variant::kFloat, Format::q6_k, Layout::rows));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q6_k, Layout::tiled));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q4_k, Layout::rows));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q5_k, Layout::tiled));
  EXPECT_FALSE(variant::supports(variant::kInt8, Format::nf4, Layout::rows));
  EXPECT_FALSE(variant::supports(variant::kInt8Rows, Format::q4_k, Layout::tiled));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q4_nibbles, Layout::rows));
  EXPECT_FALSE(variant::supports(variant::kInt8, Format::q4_nibbles, Layout::tiled));
  EXPECT_TRUE(variant::supports(variant::kHmx, Format::q4_nibbles, Layout::rows));
  for (const VariantId codes : {variant::kInt8Tables, variant::kInt16Tables, variant::kInt8Rows}) {
    EXPECT_FALSE(variant::supports(codes, Format::q4_nibbles, Layout::rows)) << "they read whole blocks";
  }
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::w(3, 128, 'z'), Layout::lut));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::q4_0, Layout::lut));
  EXPECT_FALSE(variant::supports(variant::kInt8, Format::q8_0, Layout::lut));
  EXPECT_FALSE(variant::supports(variant::kFloat, Format::w(2, 64), Layout::lut));
  EXPECT_TRUE(variant::supports(variant::kInt8, Format::fp4, Layout::tiled));
  EXPECT_FALSE(variant::supports(variant::kInt8, Format::nf4, Layout::rows));
  EXPECT_TRUE(variant::supports(variant::kFloat, Format::nf4, Layout::rows));
}

}  // namespace
}  // namespace vitro
