// Columns in an order of their own: what is read, what is refused, and that packing, quantising and merging keep their meaning.
#include "engine/model/input_order.hpp"

#include <gmock/gmock.h>

#include <cstring>

#include "engine/model/lora_merge.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "tests/engine/model/lora_support.hpp"
#include "tests/engine/model/order_support.hpp"

namespace vitro {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t kWidth = 64, kFfn = 96;  // SmallModel's
const std::string kQ = "blk.0.attn_q.weight", kK = "blk.0.attn_k.weight", kV = "blk.0.attn_v.weight", kDown = "blk.1.ffn_down.weight";

class InputOrderTest : public testing::Test {
 protected:
  InputOrderTest() {
    SmallModel model;
    model.matrices = Format::f32;
    model.write(plain());
  }
  std::string plain() const { return folder_ / "plain.gguf"; }
  std::string path() const { return folder_ / "ordered.gguf"; }
  Gguf with(const Orders& orders) const {
    write_reordered(plain(), path(), orders);
    return Gguf::open(path());
  }
  // Of a tensor that is no order.
  std::string message(const Orders& orders) const {
    return message_of([&] { config_from_gguf(with(orders)); });
  }

  ScratchFolder folder_;
};

TEST_F(InputOrderTest, a_product_shares_the_order_of_one_before_it_that_reads_the_same) {
  const std::vector<std::uint32_t> a = random_order(kWidth, 1), b = random_order(kWidth, 2), c = random_order(kFfn, 3);
  const Gguf gguf = with({{kQ, a}, {kK, b}, {kV, a}, {"blk.0.attn_output.weight", a}, {"blk.0.ffn_up.weight", a}, {kDown, c},
                          {"output.weight", b}});
  const std::vector<InputOrder> orders = config_from_gguf(gguf).orders;
  std::vector<std::tuple<int, Role, Role>> found;
  for (const InputOrder& order : orders) found.emplace_back(order.layer, order.product, order.same_as);
  EXPECT_EQ(found, (std::vector<std::tuple<int, Role, Role>>{{0, Role::attn_q, Role::attn_q},
                                                             {0, Role::attn_k, Role::attn_k},
                                                             {0, Role::attn_v, Role::attn_q},
                                                             {0, Role::attn_output, Role::attn_output},
                                                             {0, Role::ffn_up, Role::ffn_up},
                                                             {1, Role::ffn_down, Role::ffn_down},
                                                             {-1, Role::output, Role::output}}));
  EXPECT_EQ(read_input_order(gguf, kDown), c);
  EXPECT_TRUE(read_input_order(gguf, "blk.1.ffn_up.weight").empty());
  EXPECT_TRUE(config_from_gguf(Gguf::open(plain())).orders.empty());
}

TEST_F(InputOrderTest, what_is_no_permutation_of_the_columns_is_refused) {
  std::vector<std::uint32_t> twice = random_order(kWidth, 1), beyond = twice, negative = twice;
  twice[7] = twice[3];
  beyond[9] = kWidth;
  negative[2] = ~0u;
  EXPECT_THAT(message({{kQ, twice}}), AllOf(HasSubstr(path()), HasSubstr("blk.0.attn_q.order"), HasSubstr("entry 7 is"),
                                            HasSubstr("which is there already")));
  EXPECT_THAT(message({{kQ, beyond}}), HasSubstr("entry 9 is 64 (expected 0 to 63)"));
  EXPECT_THAT(message({{kQ, negative}}), HasSubstr("entry 2 is -1 (expected 0 to 63)"));
}

TEST_F(InputOrderTest, an_order_of_another_length_or_type_or_of_nothing_is_refused) {
  const auto added = [&](const std::string& name, std::uint64_t n, Format format) {
    write_file(folder_ / "bytes", std::string(n * block_bytes(format), '\0'));
    std::filesystem::remove(path());
    GgufWriter out(path());
    const Gguf in = Gguf::open(plain());
    for (const auto& [key, value] : in.values()) out.add(key, value);
    for (const TensorInfo& tensor : in.tensors()) out.add_tensor(tensor.name, tensor.dims, tensor.format);
    out.add_tensor(name, {n}, format);
    for (const TensorInfo& tensor : in.tensors()) out.write(std::vector<std::byte>(tensor.size));
    out.write(std::vector<std::byte>(n * block_bytes(format)));
    out.commit();
    return message_of([&] { config_from_gguf(Gguf::open(path())); });
  };
  EXPECT_THAT(added("blk.0.attn_q.order", 63, Format::index32), HasSubstr("blk.0.attn_q.order: has 63 entries (expected 64"));
  EXPECT_THAT(added("blk.0.attn_q.order", 64, Format::f32), HasSubstr("is in f32 (expected int32"));
  EXPECT_THAT(added("blk.0.attn_norm.order", 64, Format::index32), HasSubstr("no such tensor"));
  EXPECT_THAT(added("blk.0.extra", 64, Format::index32), HasSubstr("type 26 is not supported"));
}

TEST_F(InputOrderTest, an_order_with_rows_is_refused_by_whatever_reads_the_file) {
  const Gguf in = Gguf::open(plain());
  const auto written = [&](const std::string& name, const std::vector<std::uint64_t>& dims) {
    std::filesystem::remove(path());
    GgufWriter out(path());
    for (const auto& [key, value] : in.values()) out.add(key, value);
    for (const TensorInfo& tensor : in.tensors()) out.add_tensor(tensor.name, tensor.dims, tensor.format);
    out.add_tensor(name, dims, Format::index32);
    for (const TensorInfo& tensor : in.tensors()) out.write(std::vector<std::byte>(tensor.size));
    out.write(std::vector<std::byte>(dims[0] * dims[1] * sizeof(std::uint32_t)));
    out.commit();
  };
  SmallAdapter().write(folder_ / "lora.gguf");
  SmallAdapter of_order;
  of_order.tensors = {{"blk.7.extra.order.lora_a", {64, 4}}, {"blk.7.extra.order.lora_b", {4, 2}}};
  of_order.write(folder_ / "of_order.gguf");
  for (const std::uint64_t rows : {2u, 1u}) {
    for (const std::string name : {"blk.0.attn_q.order", "blk.7.extra.order"}) {
      written(name, {64, rows});
      const auto refusal = AllOf(HasSubstr(path()), HasSubstr(name), HasSubstr("2 dimensions (expected one"));
      EXPECT_THAT(message_of([&] { config_from_gguf(Gguf::open(path())); }), refusal);
      EXPECT_THAT(message_of([&] { quantize(path(), folder_ / "out.gguf", "q8_0"); }), refusal);
      EXPECT_THAT(message_of([&] { weight_error(path(), plain()); }), refusal);
      EXPECT_THAT(message_of([&] { weight_error(plain(), path()); }), refusal);
      for (const std::string adapter : {"lora.gguf", "of_order.gguf"}) {
        EXPECT_THAT(message_of([&] { merge_lora({path(), folder_ / adapter, folder_ / "out.gguf", 1, {}}); }), refusal);
      }
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out.gguf"));
    }
  }
}

TEST_F(InputOrderTest, an_adapter_of_an_order_is_refused) {
  with({{kQ, random_order(kWidth, 1)}});
  SmallAdapter adapter;
  adapter.tensors = {{"blk.0.attn_q.order.lora_a", {64, 4}}, {"blk.0.attn_q.order.lora_b", {4, 1}}};
  adapter.write(folder_ / "lora.gguf");
  EXPECT_THAT(message_of([&] { merge_lora({path(), folder_ / "lora.gguf", folder_ / "out.gguf", 1, {}}); }),
              AllOf(HasSubstr("lora.gguf"), HasSubstr("blk.0.attn_q.order.lora_a"), HasSubstr("adapts an order of columns")));
}

TEST_F(InputOrderTest, orders_go_into_packed_files_as_they_are) {
  const std::vector<std::uint32_t> order = random_order(kFfn, 5);
  const PackedModel packed = pack(with({{kDown, order}}), {}, folder_ / "cache");
  const WeightStore store = packed.store(FileId{});
  const Weight& weight = store.get(Role::ffn_down_order, 1);
  EXPECT_EQ(weight.format, Format::index32);
  std::vector<std::uint32_t> there(order.size());
  InputFile(packed.path).read_at(weight.extent.offset, std::as_writable_bytes(std::span(there)));
  EXPECT_EQ(there, order);
}

// Neurons have their elements as the inputs stand, so bundles are those of the model without orders.
TEST_F(InputOrderTest, bundles_are_those_of_the_model_whose_columns_stand_as_their_inputs_do) {
  Orders orders;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    orders[layer + "ffn_gate.weight"] = random_order(kWidth, 11);
    orders[layer + "ffn_up.weight"] = random_order(kWidth, 12);
    orders[layer + "ffn_down.weight"] = random_order(kFfn, 13);
  }
  const PackOptions options{.bundles = BundleForm::one_read};
  const PackedModel expected = pack(Gguf::open(plain()), options, folder_ / "cache"), got = pack(with(orders), options, folder_ / "cache");
  for (int layer = 0; layer < 2; ++layer) {
    const auto bytes_of = [&](const PackedModel& packed) {
      const WeightStore store = packed.store(FileId{});
      const Weight& bundles = store.get(Role::ffn_bundle, layer);
      std::vector<std::byte> bytes(bundles.extent.length);
      InputFile(packed.path).read_at(bundles.extent.offset, bytes);
      EXPECT_EQ(store.find(Role::ffn_down_order, layer), nullptr);
      return bytes;
    };
    EXPECT_EQ(bytes_of(got), bytes_of(expected)) << layer;
  }
  // A row of blocks is rounded anew when its elements change places, so it gets eight bits.
  quantize(path(), folder_ / "q4.gguf", "q4_0");
  const PackedModel of_q4 = pack(Gguf::open(folder_ / "q4.gguf"), options, folder_ / "cache");
  EXPECT_EQ(of_q4.store(FileId{}).get(Role::ffn_bundle, 0).format, Format::q8_0);
}

TEST_F(InputOrderTest, quantising_rounds_the_columns_as_they_stand_and_keeps_their_order) {
  const std::vector<std::uint32_t> order = random_order(kFfn, 5);
  with({{kDown, order}});
  quantize(path(), folder_ / "q8.gguf", "q8_0");
  const Gguf made = Gguf::open(folder_ / "q8.gguf");
  EXPECT_EQ(read_input_order(made, kDown), order);
  EXPECT_EQ(made.find_tensor(kDown)->format, Format::q8_0);
  const std::vector<float> got = floats_of(made, kDown), values = floats_of(Gguf::open(plain()), kDown);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], values[i / kFfn * kFfn + order[i % kFfn]], 0.02f) << i;
}

// An adapter is one of the matrix as it was.
TEST_F(InputOrderTest, merging_an_adapter_gives_what_it_gives_without_the_order) {
  const std::vector<std::uint32_t> q = random_order(kWidth, 5), down = random_order(kFfn, 6);
  with({{kQ, q}, {kDown, down}});
  SmallAdapter().write(folder_ / "lora.gguf");
  merge_lora({path(), folder_ / "lora.gguf", folder_ / "merged.gguf", 1, {}});
  merge_lora({plain(), folder_ / "lora.gguf", folder_ / "expected.gguf", 1, {}});
  const Gguf merged = Gguf::open(folder_ / "merged.gguf"), expected = Gguf::open(folder_ / "expected.gguf");
  for (const auto& [name, order] : {std::pair(kQ, q), std::pair(kDown, down)}) {
    EXPECT_EQ(read_input_order(merged, name), order);
    const std::vector<float> got = floats_of(merged, name), values = floats_of(expected, name);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i / order.size() * order.size() + order[i % order.size()]]) << i;
  }
}

}  // namespace
}  // namespace vitro
