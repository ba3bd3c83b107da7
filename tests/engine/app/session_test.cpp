// Whole runs on the host and on the virtual machine, with the embedded models.
#include "engine/app/session.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "engine/app/io_replay.hpp"
#include "engine/model/quantize.hpp"
#include "tests/effort.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;
using test::Json;
using test::kModels;

using SessionTest = test::Sessions;

// Look-ups, dot products, and any instruction set: one contract, so one text. Prompts pass in batches, answers row by row.
TEST_F(SessionTest, tokens_do_not_depend_on_how_products_of_codes_are_made) {
  const std::vector<std::pair<const char*, const char*>> formats{
      {"w2g64z", "lut_w2"}, {"w3_channel", "lut_w3"}, {"w4g64z", "lut_w4"}, {"w3g32", "lut_w3"}, {"w1g32", "lut_w1"}};
  for (const auto& [scheme, kernels] : std::span(formats).first(test::all_or_few(5, 2))) {
    const std::string path = (folder_ / (std::string(scheme) + ".gguf")).string();
    quantize(kModels + "stories-reglu-3m.f16.gguf", path, scheme);
    const auto tokens = [&](const std::string& name, int threads) {
      Node root = experiment("stories-reglu-3m.f16.gguf",
                             Json{{"activations", "int8"}, {"kernels", name}, {"threads", threads}, {"prefill_chunk", 3}}.dump());
      root.set_path("model.gguf", parse_json(Json(path).dump(), "e.json"));
      return run(root, test::random_machines(static_cast<std::uint64_t>(threads)))["tokens"];
    };
    const Json expected = tokens("dot", 1);
    EXPECT_EQ(expected.size(), 12u);
    for (const char* name : {"lut", kernels, "auto", "portable"}) EXPECT_EQ(tokens(name, 2), expected) << scheme << " " << name;
  }
}

// Tables of int8 are a contract of their own, and one: any instruction set, any number of threads and any chunks of the prompt.
TEST_F(SessionTest, tokens_of_rounded_tables_do_not_depend_on_who_looks_them_up) {
  const std::string path = (folder_ / "w4g32.gguf").string();
  quantize(kModels + "stories-reglu-3m.f16.gguf", path, "w4g32");
  const auto tokens = [&](const std::string& kernels, int threads, int chunk) {
    const Json engine = {{"activations", "int8_tables"}, {"kernels", kernels}, {"threads", threads}, {"prefill_chunk", chunk}};
    Node root = experiment("stories-reglu-3m.f16.gguf", engine.dump());
    root.set_path("model.gguf", parse_json(Json(path).dump(), "e.json"));
    return run(root, test::random_machines(static_cast<std::uint64_t>(threads)))["tokens"];
  };
  const Json expected = tokens("portable", 1, 128);
  EXPECT_EQ(expected.size(), 12u);
  EXPECT_EQ(tokens("auto", 2, 3), expected);
  EXPECT_EQ(tokens("lut_w4", 1, 1), expected);
  EXPECT_THROW(tokens("dot", 1, 1), ConfigError);
}

// Two query heads share a KV head here: a cache of query heads takes twice the room, and nothing else changes.
TEST_F(SessionTest, keys_and_values_of_each_query_head_take_more_room_and_choose_the_same_tokens) {
  for (const char* model : {"stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"}) {
    for (const char* format : {"f32", "f16"}) {
      const auto with = [&](const char* kept_per, int threads) {
        const Json engine = {
            {"kv_format", format}, {"kv_per", kept_per}, {"kv_block_tokens", 64}, {"threads", threads}, {"prefill_chunk", 3}};
        return run(experiment(model, engine.dump()), test::random_machines(static_cast<std::uint64_t>(threads)));
      };
      const Json once = with("kv_head", 1);
      EXPECT_EQ(once["tokens"].size(), 12u);
      for (const int threads : {1, 2, 3}) {
        const Json copied = with("query_head", threads);
        EXPECT_EQ(copied["tokens"], once["tokens"]) << model << " " << format << " " << threads;
        EXPECT_EQ(copied["peak_memory"]["kv"], 2 * once["peak_memory"]["kv"].get<Bytes>()) << model << " " << format;
      }
    }
  }
}

// Samples of one prompt fork its blocks and copy their tails; attention in fp16 reads the cache by other loops.
TEST_F(SessionTest, copies_of_keys_and_values_are_forked_and_read_by_any_attention) {
  for (const char* attention : {"exact", "lut_exp", "exp_f16"}) {
    const auto tokens = [&](const char* kept_per) {
      const Json engine = {{"attention", attention}, {"kv_per", kept_per}, {"kv_block_tokens", 4}, {"threads", 2}};
      return run(
          experiment("stories-reglu-3m.f16.gguf", engine.dump(), R"({"workload.batch": 3, "workload.sampling": {"temperature": 1}})"),
          test::random_machines(5))["tokens"];
    };
    EXPECT_EQ(tokens("query_head"), tokens("kv_head")) << attention;
  }
}

TEST_F(SessionTest, tokens_do_not_depend_on_timing_policy_threads_or_chunks) {
  for (const char* model : {"stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"}) {
    const Json expected = run(experiment(model, R"({"threads": 1})"), test::random_machines(1))["tokens"];
    EXPECT_EQ(expected.size(), 12u);
    for (const char* engine :
         {R"({"threads": 2})", R"({"threads": 3, "prefill_chunk": 2})", R"({"policy": "mmap", "threads": 2, "read_ahead": "16 KiB"})"}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        const Json result = run(experiment(model, engine, R"({"memory.budget": "16 MiB"})"), test::random_machines(seed));
        EXPECT_EQ(result["tokens"], expected) << model << " " << engine << " seed " << seed;
      }
    }
  }
}

TEST_F(SessionTest, decisions_are_equal_on_machines_with_other_timing) {
  const Node root = experiment("stories-reglu-3m.f16.gguf", R"({"policy": "mmap", "threads": 2, "read_ahead": "16 KiB"})",
                               R"({"memory.budget": "4 MiB"})");
  const auto log = [&](const std::string& name, const MachineFactory& machines) {
    run(root, machines, (folder_ / name).string());
    std::ifstream file(folder_ / name / "decisions.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string a = log("a", test::random_machines(1));
  EXPECT_GT(a.size(), 1000u);
  EXPECT_EQ(a, log("b", test::random_machines(2)));
}

TEST_F(SessionTest, a_batch_of_greedy_sequences_repeats_the_single_one) {
  const Node root = experiment("stories-reglu-3m.f16.gguf", R"({"threads": 2, "kv_block_tokens": 16})", R"({"workload.batch": 3})");
  const Json result = run(root, test::random_machines(1));
  ASSERT_EQ(result["sequences"].size(), 3u);
  for (const Json& sequence : result["sequences"]) EXPECT_EQ(sequence, result["tokens"]);
}

TEST_F(SessionTest, sequences_of_given_lengths_end_one_by_one_with_the_tokens_of_the_longest) {
  const Node root = experiment("stories-reglu-3m.f16.gguf", R"({"threads": 2})", R"({"workload.output_tokens": [3, 9, 5]})");
  const Json result = run(root, test::random_machines(1));
  const Json longest = result["sequences"][1];
  for (const auto& [index, length] : {std::pair{0, 3}, {1, 9}, {2, 5}}) {
    EXPECT_EQ(result["sequences"][index], Json(std::vector<Json>(longest.begin(), longest.begin() + length))) << index;
  }
  const Json& by_batch = result["metrics"]["decode_by_batch"];  // the first token of each comes from the prompt
  ASSERT_EQ(by_batch.size(), 3u);
  EXPECT_EQ(by_batch["batch_3"]["steps"], 2);
  EXPECT_EQ(by_batch["batch_2"]["steps"], 2);
  EXPECT_EQ(by_batch["batch_1"]["steps"], 4);
  double seconds = 0;
  for (const auto& [size, steps] : {std::pair{"batch_3", 6.0}, {"batch_2", 4.0}, {"batch_1", 4.0}}) {
    seconds += steps / by_batch[size]["tokens_per_s"].get<double>();
  }
  EXPECT_NEAR(14 / seconds, result["metrics"]["decode_tokens_per_s"].get<double>(), 1e-9 * 14 / seconds);
}

TEST_F(SessionTest, sampling_depends_on_the_seed_and_on_nothing_else) {
  const auto sample = [&](int seed, const std::string& engine, std::uint64_t timing) {
    Node root = experiment("stories-reglu-3m.f16.gguf", engine,
                           R"({"workload.sampling": {"temperature": 1.0, "top_k": 40, "top_p": 0.9}, "workload.batch": 2})");
    root.set_path("workload.seed", Node::scalar(std::to_string(seed)));
    return run(root, [&](const MachineRequest& r, Function& f, TraceSink& t) {
      auto host = test::random_machines(timing)(r, f, t);
      host->machine().seed = r.seed;
      return host;
    })["sequences"];
  };
  const Json a = sample(1, R"({"threads": 1})", 1);
  EXPECT_EQ(a, sample(1, R"({"threads": 2})", 9));
  EXPECT_NE(a, sample(2, R"({"threads": 1})", 1));
  EXPECT_NE(a[0], a[1]);
}

TEST_F(SessionTest, a_recording_replays_without_weights_in_memory) {
  for (const char* model : {"stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"}) {
    const std::string file = (folder_ / "run.rec").string();
    const Json recorded = run(experiment(model, Json{{"threads", 2}, {"record", file}}.dump()), test::random_machines(1));
    const Json replayed =
        run(experiment(model, Json{{"threads", 1}, {"function", "replay"}, {"replay", file}}.dump()), test::random_machines(2));
    EXPECT_EQ(replayed["tokens"], recorded["tokens"]) << model;
  }
}

// Minutes of a run are not to end in a message about where its recording was to go.
TEST_F(SessionTest, a_recording_that_can_not_be_written_is_refused_before_the_run) {
  const MachineFactory no_machine = [](const MachineRequest&, Function&, TraceSink&) -> std::unique_ptr<MachineHost> {
    throw RunError("a machine was made");
  };
  const auto error_of = [&](const fs::path& file) {
    try {
      run(experiment("stories-reglu-3m.q4_0.gguf", Json{{"record", file.string()}}.dump()), no_machine);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of(folder_), "e.json:1: engine.record: " + folder_.string() + " is a folder (expected a file to write)");
  EXPECT_NE(error_of(folder_ / "nowhere" / "r.vtrc").find("e.json:1: engine.record: "), std::string::npos) << "no such folder";
  EXPECT_EQ(error_of(folder_ / "r.vtrc"), "a machine was made");
  Node products = experiment("stories-reglu-3m.q4_0.gguf", Json{{"record", (folder_ / "r.vtrc").string()}}.dump());
  products.set("workload", parse_json(R"({"products": {"shapes": [{"columns": 64, "depth": 64}]}})", "e.json"));
  EXPECT_THROW(run(products, no_machine), ConfigError) << "there is nothing to record";
}

TEST_F(SessionTest, recorded_reads_can_be_issued_again_anywhere) {
  const std::string file = (folder_ / "run.rec").string();
  const std::string engine = Json{{"policy", "mmap"}, {"threads", 2}, {"read_ahead", "16 KiB"}, {"record", file}}.dump();
  const Json run_result = run(experiment("stories-reglu-3m.f16.gguf", engine, R"({"memory.budget": "4 MiB"})"), test::random_machines(1));
  const Json& flash = run_result["metrics"]["flash_bytes_read"];
  IoReplay replay;
  replay.recording = file;
  replay.machine = {"host", {}, {}, 2, false, std::nullopt, true, 1};
  const Json once = replay_io(replay, test::random_machines(1));
  EXPECT_EQ(once["bytes"].get<Bytes>(), flash["prefill"].get<Bytes>() + flash["decode"].get<Bytes>());
  EXPECT_DOUBLE_EQ(run_result["metrics"]["storage_submissions_per_token"].get<double>() * 12, once["reads"].get<double>());
  EXPECT_GT(once["latency_us"]["p50"].get<double>(), 0);
  replay.paced = true;
  EXPECT_EQ(replay_io(replay, test::random_machines(1))["reads"], once["reads"]);
  replay.file = kModels + "eval.txt";
  EXPECT_THROW(replay_io(replay, test::random_machines(1)), ConfigError);
}

TEST_F(SessionTest, draws_are_the_same_for_every_policy_and_timing) {
  const auto drawn = [&](const char* engine, std::uint64_t timing) {
    return run(experiment("stories-moe-6m.f16.gguf", engine), test::random_machines(timing))["tokens"];
  };
  const Json expected = drawn(R"({"function": "draw", "threads": 1})", 1);
  EXPECT_EQ(expected, drawn(R"({"function": "draw", "threads": 3})", 5));
  EXPECT_EQ(expected, drawn(R"({"function": "draw", "threads": 2, "policy": "mmap", "read_ahead": "16 KiB"})", 7));
}

TEST_F(SessionTest, a_budget_below_the_need_is_a_config_error_and_leaves_nothing_behind) {
  const std::string out = (folder_ / "out").string();
  for (const char* engine : {R"({"policy": "dense"})", R"({"policy": "mmap"})"}) {
    const Node root = experiment("stories-reglu-3m.f16.gguf", engine, R"({"memory.budget": "600 kB"})");
    EXPECT_THROW(run(root, test::random_machines(1), out), ConfigError);
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST_F(SessionTest, the_host_gives_the_tokens_of_the_virtual_machine) {
  const Node root = experiment("stories-reglu-3m.f16.gguf", R"({"threads": 1})");
  EXPECT_EQ(run(root, make_host)["tokens"], run(root, test::random_machines(1))["tokens"]);
}

}  // namespace
}  // namespace vitro
