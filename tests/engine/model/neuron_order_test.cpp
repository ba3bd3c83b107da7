#include "engine/model/neuron_order.hpp"

#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

using Lists = std::vector<std::vector<std::int32_t>>;

// A file as PowerInfer's exporter writes it: its magic over that of a GGUF file, int32 tensors under the id 18.
void write_gpuidx(const std::string& path, const Lists& hot, const Lists& buckets, const std::string& architecture = "generic.gpu_index") {
  std::string header, data;
  const auto put = [](std::string& to, auto value) { to.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto text = [&](const std::string& value) { put(header, std::uint64_t{value.size()}), header += value; };
  header = "PWRI";
  put(header, std::uint32_t{3});
  put(header, std::uint64_t{hot.size() + buckets.size()});
  put(header, std::uint64_t{1});
  text("general.architecture");
  put(header, std::uint32_t{8});
  text(architecture);
  const auto tensor = [&](const std::string& name, const std::vector<std::int32_t>& values) {
    text(name);
    put(header, std::uint32_t{1});
    put(header, std::uint64_t{values.size()});
    put(header, std::uint32_t{18});
    put(header, std::uint64_t{data.size()});
    for (const std::int32_t v : values) put(data, v);
    data.resize(round_up(data.size(), 32), '\0');
  };
  for (std::size_t i = 0; i < hot.size(); ++i) tensor("blk." + std::to_string(i) + ".gpu_idx", hot[i]);
  for (std::size_t i = 0; i < buckets.size(); ++i) tensor("blk." + std::to_string(i) + ".gpu_bucket", buckets[i]);
  header.resize(round_up(header.size(), 32), '\0');
  write_file(path, header + data);
}

ModelConfig tiny() {
  ModelConfig config;
  config.layers = 2, config.ffn = 6;
  return config;
}

TEST(NeuronOrder, gpuidx_puts_hot_neurons_first) {
  const ScratchFolder folder;
  write_gpuidx(folder / "m.gpuidx", {{0, 1, 0, 0, 1, 1}, {1, 0, 0, 0, 0, 0}}, {{1, 4, 5}, {0}});
  const NeuronOrder order = read_gpuidx(folder / "m.gpuidx", tiny());
  EXPECT_TRUE(std::ranges::equal(order.of(0, 0), std::vector<std::uint32_t>{1, 4, 5, 0, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(order.of(1, 0), std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(NeuronOrder().of(0, 0).empty());
  write_gpuidx(folder / "cold.gpuidx", Lists(2, std::vector<std::int32_t>(6)), {{}, {}});
  EXPECT_EQ(read_gpuidx(folder / "cold.gpuidx", tiny()).of(1, 0)[5], 5u);
}

TEST(NeuronOrder, a_gpuidx_of_another_model_or_one_that_contradicts_itself_is_refused) {
  const ScratchFolder folder;
  const std::string path = folder / "m.gpuidx";
  const Lists hot{{0, 1, 0, 0, 1, 1}, {1, 0, 0, 0, 0, 0}}, buckets{{1, 4, 5}, {0}};
  const auto refused = [&](std::string_view why, const ModelConfig& config = tiny()) {
    const std::string message = message_of([&] { read_gpuidx(path, config); });
    EXPECT_TRUE(message.starts_with(path)) << message;
    EXPECT_NE(message.find(why), std::string::npos) << message;
  };
  write_gpuidx(path, {hot[0]}, {buckets[0]});
  refused("blk.1.gpu_idx: the tensor is missing");
  write_gpuidx(path, {hot[0], {1, 0}}, buckets);
  refused("2 neurons (expected the model's 6)");
  write_gpuidx(path, {hot[0], {1, 0, 0, 7, 0, 0}}, buckets);
  refused("entry 3 is 7");
  write_gpuidx(path, hot, {{1, 4}, {0}});
  refused("blk.0.gpu_bucket: has other neurons");
  write_gpuidx(path, hot, {{1, 4, -5}, {0}});
  refused("blk.0.gpu_bucket: has other neurons");
  write_gpuidx(path, {hot[0], hot[1], hot[1]}, buckets);
  refused("the model has only 2 layers");
  write_gpuidx(path, hot, buckets, "llama");
  refused("expected generic.gpu_index");
  // As a model it is refused, too: type 18 is int32 in it, not iq3_xxs.
  EXPECT_NE(message_of([&] { Gguf::open(path); }).find("a PowerInfer index of neurons, not a model"), std::string::npos);
  write_gpuidx(path, hot, buckets);
  ModelConfig moe = tiny();
  moe.experts = 4;
  refused("the model has experts", moe);
}

TEST(NeuronOrder, a_gpuidx_cut_or_flipped_anywhere_is_a_message_or_an_order) {
  const ScratchFolder folder;
  const std::string path = folder / "m.gpuidx";
  write_gpuidx(path, {{0, 1, 0, 0, 1, 1}, {1, 0, 0, 0, 0, 0}}, {{1, 4, 5}, {0}});
  const std::string whole = read_file(path);
  const auto read = [&] { message_of([&] { EXPECT_EQ(read_gpuidx(path, tiny()).of(1, 0).size(), 6u); }); };
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(path, whole.substr(0, length));
    read();
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ (1 << at * 5 % 8));
    write_file(path, bent);
    read();
  }
}

TEST(NeuronOrder, index_files_and_models_are_not_taken_for_one_another) {
  const ScratchFolder folder;
  write_gpuidx(folder / "m.gpuidx", {{0}}, {{}});
  EXPECT_NE(message_of([&] { Gguf::open(folder / "m.gpuidx"); }).find("PowerInfer"), std::string::npos);
  SmallModel().write(folder / "m.gguf");
  EXPECT_NE(message_of([&] { read_gpuidx(folder / "m.gguf", tiny()); }).find("expected I32"), std::string::npos);
}

TEST(NeuronOrder, only_permutations_are_orders) {
  const auto refused = [](std::vector<std::vector<std::uint32_t>> places) {
    return message_of([&] { NeuronOrder(std::move(places), tiny(), "plan.yaml"); });
  };
  EXPECT_EQ(refused({{5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5}}), "");
  EXPECT_EQ(refused({{5, 4, 3, 2, 1, 0}}), "plan.yaml: orders for 1 FFNs (expected 2)");
  EXPECT_EQ(refused({{5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 4}}), "plan.yaml: layer 1, expert 0: neuron 4 is listed twice");
  EXPECT_EQ(refused({{5, 4, 3, 2, 1, 6}, {0, 1, 2, 3, 4, 5}}), "plan.yaml: layer 0, expert 0: neuron 6 (expected less than 6)");
  EXPECT_EQ(refused({{5}, {0}}), "plan.yaml: layer 0, expert 0: 1 neurons (expected the model's 6)");
}

}  // namespace
}  // namespace vitro
