// Which keys and values stay in DRAM, and in which order a prompt goes through the layers: no token depends on either, and how much moves
// follows from lengths alone. Whole runs on virtual machines and on the host.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/model/gguf_extend.hpp"
#include "engine/parts/attention/kv_keep.hpp"
#include "tests/effort.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

using test::faulty_machines;
using test::Json;
using test::kDense;
using test::kMixture;
using test::kModels;

constexpr int kPrompt = 90;  // drawn tokens
constexpr Bytes kLayers = 4;

class KvPlacementTest : public test::Sessions {
 protected:
  // Blocks of 8 positions here, and chunks that end within them.
  static Node experiment(const std::string& model, const Json& engine, const Json& extra = Json::object()) {
    Json all = {{"kv", {{"block_tokens", 8}}}, {"prefill_chunk", 11}};
    Json more = {
        {"workload.output_tokens", 24}, {"workload.prompt", nullptr}, {"workload.prompt_tokens", kPrompt}, {"workload.stop_at_eos", false}};
    all.merge_patch(engine);
    more.update(extra);
    return Sessions::experiment(model, all.dump(), more.dump());
  }
  // The embedded model with a sliding window.
  std::string windowed(std::uint32_t window) const {
    const std::string path = (folder_ / ("window" + std::to_string(window) + ".gguf")).string();
    extend_gguf(kModels + kDense, path, {{"llama.attention.sliding_window", GgufValue{std::uint64_t{window}}}}, {});
    return path;
  }
  Json moved(const std::string& model, const Json& engine, const Json& extra = Json::object()) const {
    return run(experiment(model, engine, extra), faulty_machines(3))["metrics"]["kv_flash"];
  }
  std::string refusal(const Node& root) const {
    try {
      run(root, faulty_machines(1));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

Json flash(const std::string& keep, int dram_tokens, const std::string& order) {
  return {{"kv", {{"keep", keep}, {"dram_tokens", dram_tokens}}}, {"prefill_order", order}};
}

TEST_F(KvPlacementTest, tokens_depend_neither_on_the_rule_nor_on_the_order) {
  std::uint64_t seed = 0;
  std::vector<std::string> models{kDense, windowed(21), kMixture};
  models.resize(test::all_or_few<std::size_t>(3, 2));
  for (const std::string& model : models) {
    const Json expected = run(experiment(model, {{"prefill_order", "chunks"}}), faulty_machines(1))["tokens"];
    EXPECT_EQ(run(experiment(model, {{"prefill_order", "layers"}}), faulty_machines(1))["tokens"], expected) << "nothing in flash";
    for (const std::string& rule : kv_keep_rules().names()) {
      for (const char* order : {"chunks", "layers", "auto"}) {
        for (const int dram : {0, 19}) {
          if (++seed % test::all_or_few<std::uint64_t>(1, 7) != 0) continue;
          Json engine = flash(rule, dram, order);
          engine["threads"] = 1 + seed % 3;
          engine["kv"]["prefetch"] = seed % 2 == 0;
          engine["kv"]["sinks"] = 9;
          if (seed % 5 == 0) engine["prefill_span"] = 33;
          // What weights and activations of the smallest run leave, for the rule that follows the budget.
          const Json budget = rule == "budget" ? Json{{"memory.budget", "13 MiB"}} : Json::object();
          const std::string at = model + " " + engine.dump();
          const Json result = run(experiment(model, engine, model == kMixture ? Json::object() : budget), faulty_machines(seed));
          EXPECT_EQ(result["tokens"], expected) << at;
          if (rule != "budget") {
            EXPECT_TRUE(result["metrics"].contains("kv_flash")) << at;
          }
        }
      }
    }
  }
}

TEST_F(KvPlacementTest, the_host_gives_the_tokens_of_the_virtual_machine) {
  for (const char* keep : {"first", "recent", "sinks"}) {
    const Node root = experiment(windowed(30), flash(keep, 16, "layers"));
    EXPECT_EQ(run(root, make_host)["tokens"], run(root, faulty_machines(2))["tokens"]) << keep;
  }
}

TEST_F(KvPlacementTest, layer_by_layer_a_prompt_is_written_once_and_not_read) {
  const Json one_token = {{"workload.output_tokens", 1}};
  const Json chunks = moved(kDense, flash("first", 16, "chunks"), one_token);
  const Json layers = moved(kDense, flash("first", 16, "layers"), one_token);
  const Bytes blocks = kPrompt / 8 - 2;
  EXPECT_EQ(layers["bytes_read"], 0);
  EXPECT_EQ(layers["bytes_written"].get<Bytes>() % (blocks * kLayers), 0u);
  const Bytes slice = layers["bytes_written"].get<Bytes>() / (blocks * kLayers);
  EXPECT_EQ(slice % kPageSize, 0u);
  EXPECT_LE(layers["writes"].get<Bytes>(), kLayers * (1 + blocks * slice / MiB)) << "neighbours leave together";
  // A chunk reads all that left before it: of 11 rows each, and the one that the prompt's last one would read for the next step.
  Bytes read = 0;
  for (Bytes begin = 11; begin < kPrompt; begin += 11) {
    const Bytes full = (begin - 11) / 8;  // blocks that were full when the step before began, and have left with it
    read += full > 2 ? full - 2 : 0;
  }
  EXPECT_GE(chunks["bytes_read"].get<Bytes>(), read * slice * kLayers);
  EXPECT_EQ(chunks["bytes_written"], layers["bytes_written"]) << "the last chunk of two rows fills no block";
}

// 30 rows at a time: the second and the third part find blocks in flash, and read them once for each layer.
TEST_F(KvPlacementTest, a_span_reads_once_what_the_spans_before_it_left) {
  Json engine = flash("first", 0, "layers");
  engine["prefill_span"] = 30;
  const Json whole = moved(kDense, flash("first", 0, "layers"), {{"workload.output_tokens", 1}});
  const Json parts = moved(kDense, engine, {{"workload.output_tokens", 1}});
  const Bytes slice = whole["bytes_written"].get<Bytes>() / (kPrompt / 8 * kLayers);
  EXPECT_EQ(whole["bytes_read"], 0);
  // A block that a span finds partly filled is in DRAM, and leaves with the next step: of 3 for the third span, and of 7 for none.
  EXPECT_EQ(parts["bytes_written"].get<Bytes>(), whole["bytes_written"].get<Bytes>() - kLayers * slice);
  const Bytes second = 3, third = 6;  // blocks in flash that a span reads for each layer, and the one after it perhaps ahead
  EXPECT_GE(parts["bytes_read"].get<Bytes>(), (second + third) * kLayers * slice);
  EXPECT_LE(parts["bytes_read"].get<Bytes>(), (second + third) * (kLayers + 1) * slice);
}

TEST_F(KvPlacementTest, with_a_window_recent_positions_need_no_flash_and_the_first_ones_do) {
  const std::string model = windowed(20);
  const Json first = moved(model, flash("first", 32, "layers")), recent = moved(model, flash("recent", 32, "layers"));
  EXPECT_GT(first["bytes_read"].get<Bytes>(), 0u);
  EXPECT_GT(first["bytes_written"].get<Bytes>(), 0u);
  EXPECT_EQ(recent["bytes_read"], 0);
  EXPECT_EQ(recent["bytes_written"], 0) << "what no row sees any more is not worth a write";
}

TEST_F(KvPlacementTest, the_budget_keeps_as_much_as_it_has_room_for) {
  const auto peak = [&](const Json& engine, const Json& extra) { return run(experiment(kDense, engine, extra), faulty_machines(2)); };
  const Json in_dram = peak({{"prefill_order", "chunks"}}, Json::object());
  const Bytes all = in_dram["metrics"]["peak_memory_bytes"];
  Bytes before = ~Bytes{0};
  for (const Bytes budget : {all - 64 * KiB, all - 256 * KiB, all + MiB}) {
    const Json result = peak(flash("budget", 0, "chunks"), {{"memory.budget", std::to_string(budget) + " B"}});
    EXPECT_LE(result["metrics"]["peak_memory_bytes"].get<Bytes>(), budget);
    EXPECT_EQ(result["tokens"], in_dram["tokens"]);
    const bool fits = budget > all;
    EXPECT_EQ(result["metrics"].contains("kv_flash"), !fits) << budget;
    if (fits) continue;
    const Bytes written = result["metrics"]["kv_flash"]["bytes_written"];
    if (before != ~Bytes{0}) {
      EXPECT_GT(written, before) << "less room, more in flash";
    }
    before = written;
  }
}

TEST_F(KvPlacementTest, hidden_states_of_the_whole_prompt_are_accounted_for) {
  const auto activation = [&](const char* order) {
    return run(experiment(kDense, flash("first", 0, order)), faulty_machines(1))["peak_memory"]["activation"].get<Bytes>();
  };
  const Bytes width = Gguf::open(kModels + kDense).find_tensor("token_embd.weight")->columns();
  EXPECT_EQ(activation("layers") - activation("chunks"), round_up(kPrompt * width * 4, kPageSize) - round_up(11 * width * 4, kPageSize));
}

TEST_F(KvPlacementTest, decisions_are_equal_on_machines_with_other_timing) {
  const auto log = [&](const std::string& name, std::uint64_t seed) {
    Json engine = flash("recent", 16, "layers");
    engine["threads"] = 2;
    run(experiment(kDense, engine), faulty_machines(seed), (folder_ / name).string());
    std::ifstream file(folder_ / name / "decisions.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(log("a", 1), log("b", 2));
}

TEST_F(KvPlacementTest, a_write_that_fails_within_a_prompt_ends_the_run_with_its_cause) {
  for (const std::uint64_t at : {0, 1, 3}) {
    const auto spoil = [=](const WriteRequest&, std::uint64_t n) {
      return n == at ? IoFault{Picoseconds(7), {Code::no_space, "no space left in the folder"}, 0} : IoFault{};
    };
    try {
      run(experiment(kDense, flash("first", 0, "layers")), faulty_machines(at, {}, spoil));
      ADD_FAILURE() << "a token came out";
    } catch (const RunError& error) {
      EXPECT_NE(std::string(error.what()).find("writing keys and values of layer"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("no space left in the folder"), std::string::npos) << error.what();
    }
  }
}

TEST_F(KvPlacementTest, a_scratch_folder_that_can_not_be_used_is_named_before_the_run) {
  const auto with_folder = [&](const std::string& folder) {
    Json engine = flash("first", 0, "layers");
    engine["kv"]["scratch"] = folder;
    return experiment(kDense, engine);
  };
  const std::string gone = (folder_ / "gone").string();
  EXPECT_NE(refusal(with_folder(gone)).find("engine.kv.scratch: " + gone + " is not a folder"), std::string::npos);
  const Json used = run(with_folder(folder_.string()), make_host);
  EXPECT_GT(used["metrics"]["kv_flash"]["bytes_written"].get<Bytes>(), 0u);
}

// The files have no names, and their space was reserved: what becomes of the folder while tokens are produced is nothing to them. Of the
// folder that is gone nothing can be reserved for another run.
TEST_F(KvPlacementTest, a_folder_that_goes_while_tokens_are_produced_harms_none) {
  const std::filesystem::path scratch = folder_ / "scratch", elsewhere = folder_ / "elsewhere";
  Json engine = flash("recent", 8, "chunks");
  engine["kv"]["scratch"] = scratch.string();
  const Json turn{{"prompt", "Once upon a time"}, {"keep_as", "a"}}, next{{"continue", "a"}, {"keep_as", "a"}};
  const Json turns = Json::array({turn, next, next});
  const Json extra{{"workload.prompt_tokens", nullptr}, {"workload.kept_in", "flash"}, {"workload.requests", turns}};
  std::filesystem::create_directory(scratch);
  const Node root = experiment(kDense, engine, extra);
  const Json expected = run(root, make_host)["requests"];
  const auto moved_away = [&] { return std::filesystem::rename(scratch, elsewhere), true; };
  const auto removed = [&] { return std::filesystem::remove(scratch); };  // false, and an error, if anything is in it
  for (const std::function<bool()>& go : {std::function<bool()>(moved_away), std::function<bool()>(removed)}) {
    std::filesystem::create_directory(scratch);
    std::uint64_t steps = 0;
    SessionOptions options{"", (folder_ / "cache").string(), nullptr};
    options.progress = [&](std::uint64_t, std::uint64_t) {
      if (++steps != 3) return;
      EXPECT_TRUE(go());
    };
    const Json result = run_experiment(read_experiment(root), options, make_host);
    EXPECT_FALSE(std::filesystem::exists(scratch));
    EXPECT_EQ(steps, 3 * 23u) << "most tokens came after it had gone";
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(result["requests"][i]["sequences"], expected[i]["sequences"]) << i;
    EXPECT_GT(result["metrics"]["kv_flash"]["bytes_read"].get<Bytes>(), 0u);
  }
  EXPECT_NE(refusal(root).find(scratch.string() + " is not a folder"), std::string::npos);
}

TEST_F(KvPlacementTest, a_rule_without_positions_to_keep_is_refused) {
  EXPECT_NE(refusal(experiment(kDense, {{"kv", {{"keep", "recent"}}}})).find("engine.kv.keep: \"recent\" needs engine.kv.dram_tokens"),
            std::string::npos);
  EXPECT_NE(refusal(experiment(kDense, {{"kv", {{"keep", "oldest"}}}})).find("expected one of: first, recent, sinks, budget"),
            std::string::npos);
}

// A sequence that is saved and goes on in another run gives the tokens of one run, wherever keys and values were.
TEST_F(KvPlacementTest, a_restored_sequence_goes_on_as_if_it_had_never_ended) {
  const std::string file = (folder_ / "sequence.kv").string();
  const Json whole = run(experiment(kDense, Json::object()), faulty_machines(1))["tokens"];
  const Json in_flash = flash("first", 16, "layers"), recent = flash("recent", 16, "chunks"), in_dram = {{"kv", {{"block_tokens", 8}}}};
  for (const auto& [before, after] : {std::pair(in_dram, in_dram), std::pair(in_flash, recent), std::pair(recent, in_flash)}) {
    const Json first = run(experiment(kDense, before, {{"workload.output_tokens", 10}, {"workload.save_kv", file}}), faulty_machines(4));
    const Json second =
        run(experiment(kDense, after, {{"workload.output_tokens", 14}, {"workload.prompt_tokens", nullptr}, {"workload.restore_kv", file}}),
            faulty_machines(5));
    Json both = first["tokens"];
    for (const Json& token : second["tokens"]) both.push_back(token);
    EXPECT_EQ(both, whole) << before.dump() << after.dump();
  }
}

// The file names the format: what has the same bytes is told apart, too.
TEST_F(KvPlacementTest, a_sequence_is_restored_in_the_format_that_it_was_saved_in) {
  const std::string file = (folder_ / "coded.kv").string();
  const auto engine = [](std::string_view format) { return Json{{"kv", {{"block_tokens", 8}, {"format", format}}}}; };
  const Json whole = run(experiment(kDense, engine("int4_fp8")), faulty_machines(1))["tokens"];
  const Json ten = {{"workload.output_tokens", 10}, {"workload.save_kv", file}};
  const Json first = run(experiment(kDense, engine("int4_fp8"), ten), faulty_machines(4));
  Json more = {{"workload.output_tokens", 14}, {"workload.prompt_tokens", nullptr}, {"workload.restore_kv", file}};
  const Json second = run(experiment(kDense, engine("int4_fp8"), more), faulty_machines(5));
  Json both = first["tokens"];
  for (const Json& token : second["tokens"]) both.push_back(token);
  EXPECT_EQ(both, whole);
  EXPECT_NE(refusal(experiment(kDense, engine("int4_e5m2"), more)).find("engine.kv.format"), std::string::npos);
}

TEST_F(KvPlacementTest, a_file_that_does_not_fit_is_refused_and_says_why) {
  const std::string file = (folder_ / "sequence.kv").string();
  run(experiment(kDense, Json::object(), {{"workload.output_tokens", 2}, {"workload.save_kv", file}}), faulty_machines(1));
  const auto restored = [&](const std::string& model, const Json& engine, const std::string& from) {
    return refusal(experiment(model, engine, {{"workload.prompt_tokens", nullptr}, {"workload.restore_kv", from}}));
  };
  EXPECT_EQ(restored(kDense, Json::object(), file), "");
  EXPECT_NE(restored(windowed(9), Json::object(), file).find("was saved with another model"), std::string::npos);
  EXPECT_NE(restored(kDense, {{"activations", "fp16"}}, file).find("other numeric contracts"), std::string::npos);
  EXPECT_NE(restored(kDense, {{"kv", {{"block_tokens", 16}}}}, file).find("engine.kv.block_tokens"), std::string::npos);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const auto damaged = [&](std::size_t at, std::size_t length) {
    std::string copy = bytes.substr(0, length);
    if (at < copy.size()) copy[at] = static_cast<char>(copy[at] ^ 1);
    const std::string path = (folder_ / "damaged.kv").string();
    std::ofstream(path, std::ios::binary) << copy;
    return restored(kDense, Json::object(), path);
  };
  const std::string name = (folder_ / "damaged.kv").string();
  EXPECT_NE(damaged(0, bytes.size()).find(name + ": does not hold keys and values"), std::string::npos);
  EXPECT_NE(damaged(8, bytes.size()).find("version"), std::string::npos);
  EXPECT_NE(damaged(4100, bytes.size()).find("is damaged: header and tokens"), std::string::npos);
  EXPECT_NE(damaged(bytes.size() - 1, bytes.size()).find("is damaged: keys and values"), std::string::npos);
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, std::size_t{5000}, bytes.size() - 1}) {
    EXPECT_NE(damaged(bytes.size(), length), "") << length;
  }
}

TEST_F(KvPlacementTest, only_one_sequence_with_values_can_be_saved) {
  const std::string file = (folder_ / "sequence.kv").string();
  EXPECT_NE(refusal(experiment(kDense, Json::object(), {{"workload.batch", 2}, {"workload.save_kv", file}})).find("one sequence"),
            std::string::npos);
  EXPECT_NE(refusal(experiment(kDense, {{"function", "draw"}}, {{"workload.save_kv", file}})).find("computes none"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace vitro
