#include "engine/model/packed_file.hpp"

#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "engine/base/hash.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/quant/tiles.hpp"
#include "tests/engine/model/support.hpp"

namespace vitro {
namespace {

// All values of a tensor, from the GGUF file.
std::vector<float> values_of(const Gguf& gguf, const TensorInfo& tensor) {
  std::vector<std::byte> raw(tensor.rows() * row_bytes(tensor.format, tensor.columns()));
  gguf.read(tensor, 0, raw);
  std::vector<float> out(tensor.rows() * tensor.columns());
  dequantise_row(tensor.format, raw.data(), out.data(), out.size());
  return out;
}

// The same from the packed file, tiles undone.
std::vector<float> values_of(const InputFile& file, const Weight& weight) {
  std::vector<std::byte> raw(weight.extent.length);
  file.read_at(weight.extent.offset, raw);
  if (weight.layout != Layout::rows) {
    const Bytes group = group_rows(weight.layout) * row_bytes(weight.format, weight.columns, weight.layout);
    const Bytes in_rows = group_rows(weight.layout) * row_bytes(weight.format, weight.columns);
    std::vector<std::byte> rows(raw.size() / group * in_rows);
    for (Bytes g = 0; g < raw.size() / group; ++g) {
      unpack_tile(weight.format, weight.columns, raw.data() + g * group, rows.data() + g * in_rows, weight.layout);
    }
    raw = std::move(rows);
  }
  std::vector<float> out(std::size_t{weight.rows} * weight.columns * weight.experts);
  dequantise_row(weight.format, raw.data(), out.data(), out.size());
  return out;
}

void expect_same_values(const Gguf& gguf, const PackedModel& packed) {
  const InputFile file(packed.path);
  EXPECT_EQ(file.size(), packed.size);
  for (const Weight& weight : packed.weights) {
    EXPECT_EQ(weight.extent.offset % kPageSize, 0u);
    EXPECT_EQ(values_of(file, weight), values_of(gguf, *gguf.find_tensor(weight.name))) << weight.name;
  }
}

TEST(PackedFile, holds_every_weight_of_every_embedded_model) {
  const ScratchFolder folder;
  for (const std::string name : {"reglu-3m.f16", "moe-6m.f16", "reglu-3m.q8_0", "reglu-3m.q6_k", "reglu-3m.q4_k_s", "reglu-3m.q4_0"}) {
    const Gguf gguf = Gguf::open(embedded("stories-" + name + ".gguf"));
    expect_same_values(gguf, pack(gguf, {}, folder.str()));
  }
}

TEST(PackedFile, tiles_experts_one_by_one_and_keeps_the_embedding_in_rows) {
  const ScratchFolder folder;
  SmallModel model;
  model.matrices = Format::q4_0;
  model.config.experts = 4;
  model.config.experts_used = 2;
  model.write(folder / "moe.gguf");
  const Gguf gguf = Gguf::open(folder / "moe.gguf");
  const PackedModel packed = pack(gguf, {}, folder / "cache");
  const WeightStore store = packed.store(FileId{5});
  EXPECT_EQ(store.get(Role::ffn_up, 1).layout, Layout::tiled);
  EXPECT_EQ(store.get(Role::ffn_up, 1).experts, 4u);
  EXPECT_EQ(store.get(Role::ffn_up, 1).matrix_bytes(), 96 * row_bytes(Format::q4_0, 64));
  EXPECT_EQ(store.get(Role::token_embedding).layout, Layout::rows);
  EXPECT_EQ(store.get(Role::ffn_up, 1).extent.file, FileId{5});
  expect_same_values(gguf, packed);
  const PackedModel untiled = pack(gguf, pack_options_of("rows"), folder / "cache");
  EXPECT_NE(untiled.path, packed.path);
  EXPECT_EQ(untiled.store(FileId{}).get(Role::ffn_up, 1).layout, Layout::rows);
  expect_same_values(gguf, untiled);
  const PackedModel lut = pack(gguf, pack_options_of("lut"), folder / "cache");
  EXPECT_NE(lut.path, packed.path);
  EXPECT_EQ(lut.store(FileId{}).get(Role::ffn_up, 1).layout, Layout::lut);
  expect_same_values(gguf, lut);
}

TEST(PackedFile, one_scale_per_row_is_in_tiles_once_and_in_rows_as_the_file_has_it) {
  const ScratchFolder folder;
  SmallModel model;
  model.matrices = Format::w(2, 32, 'r');
  model.config.experts = 4;
  model.config.experts_used = 2;
  model.write(folder / "moe.gguf");
  const Gguf gguf = Gguf::open(folder / "moe.gguf");
  for (const auto& [layout, row] : {std::pair{"rows", 2 * 10}, {"tiled", 2 + 16}, {"lut", 2 + 16}}) {  // of 64 columns
    const PackedModel packed = pack(gguf, pack_options_of(layout), folder / "cache");
    EXPECT_EQ(packed.store(FileId{}).get(Role::ffn_up, 1).matrix_bytes(), 96u * static_cast<Bytes>(row)) << layout;
    expect_same_values(gguf, packed);
  }
}

TEST(PackedFile, is_reused_until_source_or_file_changes) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "m.gguf");
  const std::string cache = folder / "cache";
  const auto packed = [&] { return pack(Gguf::open(folder / "m.gguf"), {}, cache); };
  const PackedModel first = packed();
  EXPECT_FALSE(first.reused);
  EXPECT_TRUE(packed().reused);
  const std::string whole = read_file(first.path);

  const auto stale = [&] { return why_stale(first.path, Gguf::open(folder / "m.gguf"), {}); };
  const auto damage = [&](std::string bytes, std::string_view why) {
    write_file(first.path, bytes);
    EXPECT_NE(stale().find(why), std::string::npos) << stale();
    EXPECT_FALSE(packed().reused);
    EXPECT_EQ(read_file(first.path), whole);
    EXPECT_EQ(stale(), "");
  };
  std::string flipped = whole;
  flipped[100] ^= 1;
  damage(flipped, "checksum");
  damage(whole.substr(0, whole.size() - 1), "bytes long");
  damage(whole.substr(0, 10), "too short");
  damage("x" + whole.substr(1), "not a packed file");
  std::string newer = whole;
  newer[8] = 9;
  damage(newer, "version");
  std::string endless = whole;
  for (int i = 16; i < 24; ++i) endless[i] = '\xff';
  damage(endless, "longer than the file");

  model.config.ffn = 64;
  model.write(folder / "m.gguf");
  EXPECT_NE(stale().find("another source"), std::string::npos);
  const PackedModel again = packed();
  EXPECT_FALSE(again.reused);
  EXPECT_EQ(again.path, first.path);  // the old state does not stay behind
  expect_same_values(Gguf::open(folder / "m.gguf"), again);
}

// A flip of one bit anywhere in the file, sampled.
TEST(PackedFile, no_flipped_bit_goes_unnoticed) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  const std::string path = folder / "m.vpack";
  pack_to(gguf, {.bundles = BundleForm::one_read}, path);
  EXPECT_NO_THROW(verify_packed(path));
  const std::string whole = read_file(path);
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : 499) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    write_file(path, flipped);
    EXPECT_TRUE(message_of([&] { verify_packed(path); }).starts_with(path)) << "byte " << at;
    EXPECT_TRUE(message_of([&] { open_packed(path, gguf, folder / "notes"); }).starts_with(path)) << "byte " << at;
  }
  for (std::size_t length = 0; length < whole.size(); length += 1021) {
    write_file(path, whole.substr(0, length));
    EXPECT_TRUE(message_of([&] { open_packed(path, gguf, folder / "notes"); }).starts_with(path)) << length << " bytes";
  }
}

// By a stranger who makes the checksum right.
TEST(PackedFile, a_plan_with_numbers_that_are_no_bytes_is_refused) {
  constexpr std::size_t kPreamble = 32, kPlanBytes = 16, kPlanHash = 24;
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  const std::string path = folder / "m.vpack";
  pack_to(gguf, {}, path);
  const std::string whole = read_file(path);
  for (const std::string_view key : {"\"offset\":", "\"bytes\":"}) {
    for (const std::string_view number : {"4e99", "-512", "0.25", "1e19"}) {
      std::string changed = whole;
      std::uint64_t length = 0;
      std::memcpy(&length, changed.data() + kPlanBytes, sizeof length);
      std::string plan = changed.substr(kPreamble, length);
      const std::size_t at = plan.find(key, plan.find("\"sections\":")) + key.size();
      const std::size_t digits = plan.find_first_not_of("0123456789", at) - at;
      ASSERT_GE(digits, number.size());
      plan.replace(at, digits, std::string(number) + std::string(digits - number.size(), ' '));
      Hash hash;
      hash.add(plan);
      const std::uint64_t sum = hash.value();
      changed.replace(kPreamble, length, plan);
      std::memcpy(changed.data() + kPlanHash, &sum, sizeof sum);
      write_file(path, changed);
      EXPECT_NE(message_of([&] { open_packed(path, gguf, folder / "notes"); }).find("m.vpack: damaged: its plan says"), std::string::npos)
          << key << number;
    }
  }
}

TEST(PackedFile, damage_is_named_by_tensor_and_a_damaged_cache_is_made_anew) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  const PackedModel packed = pack(gguf, {}, folder / "cache");
  const std::string whole = read_file(packed.path);
  std::string flipped = whole;
  flipped[packed.store(FileId{}).get(Role::attn_k, 1).extent.offset + 17] ^= 4;
  write_file(packed.path, flipped);
  const std::string message = message_of([&] { verify_packed(packed.path); });
  EXPECT_NE(message.find("blk.1.attn_k.weight is damaged between bytes"), std::string::npos) << message;
  EXPECT_FALSE(pack(gguf, {}, folder / "cache").reused);
  EXPECT_EQ(read_file(packed.path), whole);
}

TEST(PackedFile, a_pack_made_by_hand_brings_layout_and_order_along) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  std::vector<std::uint32_t> backwards(model.config.ffn);
  for (std::uint32_t i = 0; i < model.config.ffn; ++i) backwards[i] = model.config.ffn - 1 - i;
  const NeuronOrder order({backwards, backwards}, model.config, "test");
  pack_to(gguf, {.bundles = BundleForm::two_phases, .order = order}, folder / "m.vpack");
  const PackedModel opened = open_packed(folder / "m.vpack", gguf, folder / "notes");
  EXPECT_EQ(opened.order.all(), order.all());
  EXPECT_TRUE(opened.store(FileId{}).get(Role::ffn_bundle, 0).form == BundleForm::two_phases);
  EXPECT_EQ(opened.size, std::filesystem::file_size(folder / "m.vpack"));
  EXPECT_NE(message_of([&] { pack_to(gguf, {.order = order}, folder / "x"); }).find("an order of neurons needs neuron bundles"),
            std::string::npos);
}

TEST(PackedFile, a_pack_of_another_model_is_refused) {
  const ScratchFolder folder;
  SmallModel model;
  model.write(folder / "a.gguf");
  pack_to(Gguf::open(folder / "a.gguf"), pack_options_of("rows"), folder / "a.vpack");
  const auto refusal = [&](const std::string& gguf) {
    return message_of([&] { open_packed(folder / "a.vpack", Gguf::open(gguf), folder / "notes"); });
  };
  EXPECT_EQ(refusal(folder / "a.gguf"), "");
  model.extra.emplace_back("general.name", std::string("another"));
  model.write(folder / "b.gguf");
  EXPECT_NE(refusal(folder / "b.gguf").find("made from another source: \"a.gguf\""), std::string::npos) << refusal(folder / "b.gguf");
  std::filesystem::last_write_time(folder / "a.gguf", std::filesystem::last_write_time(folder / "a.gguf") + std::chrono::seconds(1));
  EXPECT_NE(refusal(folder / "a.gguf").find("made from another state of \"a.gguf\""), std::string::npos) << refusal(folder / "a.gguf");
  EXPECT_NE(message_of([&] { pack_to(Gguf::open(folder / "a.gguf"), {}, folder / "a.gguf"); }).find("one file"), std::string::npos);
  const std::string unknown = message_of([] { pack_options_of("columns"); });
  EXPECT_NE(unknown.find("rows, tiled, lut, auto, bundles, bundles_two_phase, apart, apart_two_phase, scales_inline"), std::string::npos);
}

TEST(PackedFile, a_file_found_whole_is_not_read_again_until_it_changes) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const std::string path = folder / "m.vpack", notes = folder / "notes";
  pack_to(Gguf::open(folder / "m.gguf"), {}, path);
  std::vector<PackSection> sections = read_pack_header(InputFile(path)).sections;
  const auto found = [&] { return find_new_damage(InputFile(path), sections, notes, [] { return ""; }); };
  EXPECT_EQ(found(), "");
  // Sections that the file does not have show whether it was read at all.
  std::swap(sections[0].offset, sections[1].offset);
  EXPECT_NE(found(), "");  // the note is no younger than the file
  for (const auto& note : std::filesystem::directory_iterator(notes)) {
    std::filesystem::last_write_time(note, std::filesystem::last_write_time(note) + std::chrono::seconds(2));
  }
  EXPECT_EQ(found(), "");
  std::filesystem::rename(path, folder / "before");
  std::filesystem::copy_file(folder / "before", path);  // other bytes under the same name
  EXPECT_NE(found(), "");
}

TEST(PackedFile, a_full_disk_leaves_nothing_behind) {
  const ScratchFolder folder;
  const Gguf gguf = Gguf::open(embedded("stories-reglu-3m.q8_0.gguf"));
  const std::string cache = folder / "cache";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of<RunError>([&] { pack(gguf, {}, cache); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("write failed"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::is_empty(cache));
  EXPECT_FALSE(pack(gguf, {}, cache).reused);
}

TEST(PackedFile, a_source_that_shrinks_is_a_message_and_leaves_nothing_behind) {
  const ScratchFolder folder;
  SmallModel().write(folder / "m.gguf");
  const Gguf gguf = Gguf::open(folder / "m.gguf");
  std::filesystem::resize_file(folder / "m.gguf", gguf.data_offset() + 100);
  EXPECT_NE(message_of<RunError>([&] { pack(gguf, {}, folder / "cache"); }).find("m.gguf"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "cache"));
}

}  // namespace
}  // namespace vitro
