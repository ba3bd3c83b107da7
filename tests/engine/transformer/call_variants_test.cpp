// The numeric contract and the method that each call asks for.
#include <set>

#include "tests/engine/transformer/call_kit.hpp"

namespace vitro {
namespace {

using CallVariantsTest = CallBuilderTest;

bool is_product(const Call& c) { return c.call.is<ops::Matmul>(); }

TEST_F(CallVariantsTest, products_have_the_variant_that_is_asked_for_and_float_where_weights_lack_it) {
  for (const ModelConfig& config : {tiny_dense(), tiny_mixture()}) {
    for (const Format format : {Format::f16, Format::q4_0, Format::q8_0, Format::w(2, 32)}) {
      for (const VariantId wanted : {variant::kFloat, variant::kInt8, variant::kHmx, variant::kInt8Rows}) {
        start(config, 3, 2, {wanted}, format);
        std::size_t in_variant = 0;
        for (const Call& c : calls()) {
          const bool takes = is_product(c) && variant::supports(wanted, c.call.in[0].format, c.call.in[0].layout);
          EXPECT_EQ(c.call.variant, takes ? wanted : variant::kFloat) << describe(c.call);
          in_variant += takes ? 1 : 0;
        }
        EXPECT_EQ(in_variant > 0, variant::supports(wanted, format, Layout::rows));
      }
    }
  }
}

TEST_F(CallVariantsTest, the_reference_is_every_operators_variant) {
  for (const ModelConfig& config : families()) {
    start(config, 3, 2, {variant::kReference}, Format::q4_0);
    for (const Call& c : calls()) EXPECT_EQ(c.call.variant, variant::kReference) << to_string(c.call.op);
  }
}

TEST_F(CallVariantsTest, prompts_and_attention_may_have_variants_of_their_own) {
  CallOptions options{variant::kInt8};
  options.prefill_matmul = variant::kHmx;
  options.attention = variant::kLutExp;
  options.products.decode_rows = 2;
  for (const std::uint32_t rows : {1u, 2u, 3u}) {
    start(tiny_dense(), rows, 1, options, Format::q8_0);
    for (const Call& c : calls()) {
      const VariantId product = rows <= 2 ? variant::kInt8 : variant::kHmx;
      const VariantId expected = is_product(c) ? product : c.call.is<ops::Attention>() ? variant::kLutExp : variant::kFloat;
      EXPECT_EQ(c.call.variant, expected) << to_string(c.call.op) << ", " << rows << " rows";
    }
  }
}

TEST_F(CallVariantsTest, a_prompts_variant_that_weights_lack_is_that_of_decoding) {
  CallOptions options{variant::kFloat};
  options.prefill_matmul = variant::kInt8;
  start(tiny_dense(), 4, 1, options, Format::f16);
  for (const Call& c : calls()) EXPECT_EQ(c.call.variant, variant::kFloat);
}

// W4A16 on the accelerator, int8 on the cores: a unit's contract, not the engine's. A core that hands layers' products over keeps the
// output matrix.
TEST_F(CallVariantsTest, accelerators_may_have_activations_of_their_own) {
  for (const OwnContract own : {OwnContract::of_all, OwnContract::of_layers}) {
    CallOptions options{variant::kInt8};
    options.own = {OwnContract::none, own};
    options.accelerator_matmul = variant::kHmx;
    start(tiny_dense(), 1, 2, options, Format::q4_0);
    std::set<std::pair<std::size_t, bool>> seen;
    for (const Call& c : calls()) {
      if (!is_product(c)) continue;
      const bool of_layer = c.call.layer >= 0, theirs = c.unit == 1 && (of_layer || own == OwnContract::of_all);
      EXPECT_EQ(c.call.variant, theirs ? variant::kHmx : variant::kInt8) << describe(c.call);
      seen.emplace(c.unit, of_layer);
    }
    EXPECT_EQ(seen.size(), 4u) << "both units had products of both kinds";
  }
}

TEST_F(CallVariantsTest, a_contract_that_an_accelerators_weights_lack_is_that_of_the_cores) {
  CallOptions options{variant::kInt8};
  options.own = {OwnContract::none, OwnContract::of_all};
  options.accelerator_matmul = variant::kInt8Tables;
  start(tiny_dense(), 1, 2, options, Format::q8_0);
  for (const Call& c : calls()) {
    if (is_product(c)) {
      EXPECT_EQ(c.call.variant, variant::kInt8) << describe(c.call);
    }
  }
}

TEST_F(CallVariantsTest, accelerators_alone_get_the_method_and_only_where_it_applies) {
  CallOptions options{variant::kFloat};
  options.accelerators = {false, true};
  options.products.decode = Method::fused;
  options.products.prefill = Method::convert;
  options.products.decode_rows = 2;
  for (const Format format : {Format::q4_0, Format::q8_0, Format::f16}) {
    for (const std::uint32_t rows : {1u, 5u}) {
      start(tiny_dense(), rows, 2, options, format);
      std::set<std::size_t> units;
      for (const Call& c : calls()) {
        const std::size_t own_rows = c.call.batch->size();  // of the head fewer than of the step
        const Method wanted = own_rows <= 2 ? Method::fused : Method::convert;
        const bool has_it = is_product(c) && c.unit == 1 && applies(wanted, format);
        EXPECT_EQ(c.call.method, has_it ? wanted : Method::automatic) << describe(c.call);
        if (is_product(c)) units.insert(c.unit);
      }
      EXPECT_EQ(units.size(), 2u);
    }
  }
}

TEST_F(CallVariantsTest, which_methods_apply_to_which_formats) {
  const std::vector<Format> few_bits{Format::q4_0, Format::w(2, 64)}, bytes{Format::q8_0}, plain{Format::f16, Format::f32, Format::bf16};
  const auto all = [](const std::vector<Format>& formats, Method method, bool expected) {
    for (const Format format : formats) EXPECT_EQ(applies(method, format), expected) << to_string(method) << " " << to_string(format);
  };
  for (const Method method : {Method::automatic, Method::lut, Method::fused, Method::convert, Method::native}) {
    all(few_bits, method, true);
    all(bytes, method, method != Method::lut && method != Method::fused);
    all(plain, method, method == Method::automatic);
  }
}

// A second form of the layers' products is one unit's, and there for good: nothing is waited for.
TEST_F(CallVariantsTest, the_unit_of_a_copy_reads_its_products_there) {
  start(tiny_dense(), 3, 2, {variant::kInt8}, Format::q4_0);
  const WeightStore copy = phantom_products(config_, Format::q8_0, host_->machine().storage.open_phantom(GiB).value_or_throw());
  Resident copied(host_->machine(), copy);
  host_->run(copied.load());
  CallOptions options{variant::kInt8};
  options.copy = {&copy, &copied, 1};
  builder_ = std::make_unique<CallBuilder>(graph_, config_, weights_, *residency_, *buffers_, *kv_, options);
  std::size_t products = 0;
  for (const Call& c : calls()) {
    if (!is_product(c)) continue;
    ++products;
    EXPECT_EQ(c.call.in[0].format, c.unit == 1 && c.call.layer >= 0 ? Format::q8_0 : Format::q4_0) << describe(c.call);
    EXPECT_NO_THROW(check_call(c.call));
  }
  EXPECT_EQ(products, 2u * (2 * 7 + 1));
  for (const UnitQueues& phase : queues()) {
    for (const WorkItem& item : phase.at(1)) {
      for (const WeightUse& use : item.uses) EXPECT_TRUE(is_vector(use.weight->role) || use.weight->layer < 0) << use.weight->name;
    }
  }
}

TEST_F(CallVariantsTest, recorders_ask_for_the_neurons_that_fire) {
  for (const bool report : {false, true}) {
    CallOptions options{variant::kFloat};
    options.report_active = report;
    start(tiny_dense(), 2, 1, options);
    for (const Call& c : calls()) EXPECT_EQ(reports_active(c.call), report && c.call.is<ops::Glu>());
  }
}

}  // namespace
}  // namespace vitro
