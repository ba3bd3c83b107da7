// Whole runs that leave keys and values, or the embedding, in flash (MNN-LLM 4.1), under random timings and with faults.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <span>

#include "engine/machine/activity.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/gguf_extend.hpp"
#include "tests/effort.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;
using test::faulty_machines;
using test::Json;
using test::kDense;
using test::kMixture;
using test::kModels;

class KvFlashTest : public test::Sessions {
 protected:
  // Short blocks and forty tokens, so that some leave.
  static Node experiment(const std::string& model, const Json& engine, const std::string& extra = "{}") {
    Json all = {{"kv_block_tokens", 4}, {"prefill_chunk", 3}}, more = {{"workload.output_tokens", 40}};
    all.update(engine);
    more.update(Json::parse(extra));
    return Sessions::experiment(model, all.dump(), more.dump());
  }
  std::string error_of(const Json& engine, const MachineFactory& factory) const {
    try {
      run(experiment(kDense, engine), factory);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }
  // The embedded models tie their embedding; here its rows are the output matrix as well, but stored once more.
  std::string untied() const {
    const Gguf gguf = Gguf::open(kModels + kDense);
    const TensorInfo* embedding = gguf.find_tensor("token_embd.weight");
    std::vector<std::byte> bytes(embedding->size);
    gguf.read(*embedding, 0, bytes);
    const std::string raw = (folder_ / "output").string(), path = (folder_ / "untied.gguf").string();
    std::ofstream(raw, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    extend_gguf(kModels + kDense, path, {}, {{"output.weight", embedding->dims, embedding->format, raw}});
    return path;
  }
};

// Slices are whole pages: 4 or 8 positions of float numbers, 128 of keys in integers with a row for each query head.
TEST_F(KvFlashTest, tokens_do_not_depend_on_where_keys_and_values_are) {
  struct Case {
    const char *format, *kept_per;
    int output;
    std::vector<int> dram;
  };
  const Case cases[] = {{"f32", "kv_head", 40, {0, 5, 16}}, {"f16", "kv_head", 40, {0, 16}}, {"int8_fp8", "query_head", 180, {0}}};
  const std::map<std::string_view, std::string_view> of_mixture{{"int8_fp8", "int4_e5m2"}};  // each of both kinds of key once
  std::uint64_t seed = 0;
  const std::vector<const char*> models{kDense, kMixture};
  const std::vector<int> cores{2, 1, 3};
  for (const char* model : std::span(models).first(test::all_or_few(2, 1))) {
    for (const Case& c : std::span(cases).first(test::all_or_few(3, 2))) {
      const std::string length = Json{{"workload.output_tokens", c.output}}.dump();
      const auto other = of_mixture.find(c.format);
      const bool exchanged = model == kMixture && other != of_mixture.end();
      Json engine = {{"kv_format", exchanged ? other->second : c.format}, {"kv_per", c.kept_per}};
      const Json expected = run(experiment(model, engine, length), faulty_machines(1))["tokens"];
      ASSERT_EQ(expected.size(), static_cast<std::size_t>(c.output));
      for (const int dram : std::span(c.dram).first(test::all_or_few<std::size_t>(c.dram.size(), 1))) {
        for (const bool prefetch : {true, false}) {
          for (const int threads : std::span(cores).first(test::all_or_few(3, 1))) {
            engine.update({{"kv_dram_tokens", dram}, {"kv_prefetch", prefetch}, {"threads", threads}});
            const Json result = run(experiment(model, engine, length), faulty_machines(++seed));
            EXPECT_EQ(result["tokens"], expected) << model << " " << engine.dump();
            EXPECT_GT(result["metrics"]["kv_flash"]["bytes_read"], 0) << engine.dump();
          }
        }
      }
    }
  }
}

// Samples share the blocks of their prompt in flash as in DRAM, and end one by one.
TEST_F(KvFlashTest, forks_share_what_is_in_flash) {
  const std::string workload = Json{
      {"workload.prompt", "Once upon a time there was a little dog who"},
      {"workload.output_tokens", {30, 9, 40, 17}},
      {"workload.sampling",
       {{"temperature", 1}}}}.dump();
  const Json expected = run(experiment(kDense, Json::object(), workload), faulty_machines(1));
  ASSERT_NE(expected["sequences"][0], expected["sequences"][2]);
  Bytes written = 0;
  const std::vector<int> cores{2, 1};
  for (const int threads : std::span(cores).first(test::all_or_few(2, 1))) {
    for (const bool prefetch : {true, false}) {
      const Json engine = {{"kv_dram_tokens", 4}, {"kv_prefetch", prefetch}, {"threads", threads}};
      const Json result = run(experiment(kDense, engine, workload), faulty_machines(static_cast<std::uint64_t>(threads)));
      EXPECT_EQ(result["sequences"], expected["sequences"]);
      const Bytes bytes = result["metrics"]["kv_flash"]["bytes_written"];
      EXPECT_EQ(bytes, written > 0 ? written : bytes) << "what is written is decided by length alone";
      written = bytes;
    }
  }
}

TEST_F(KvFlashTest, decisions_are_equal_on_machines_with_other_timing) {
  const auto log = [&](const std::string& name, std::uint64_t seed) {
    run(experiment(kDense, {{"kv_dram_tokens", 8}, {"threads", 2}}), faulty_machines(seed), (folder_ / name).string());
    std::ifstream file(folder_ / name / "decisions.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string a = log("a", 1);
  EXPECT_NE(a.find("kv_write"), std::string::npos);
  EXPECT_EQ(a, log("b", 2));
}

// Blocks of 8 positions here. In DRAM: those that stay, one of the step before and one that fills; and of one layer all that left.
TEST_F(KvFlashTest, memory_holds_what_stays_and_one_layer_of_the_rest) {
  const Json all =
      run(experiment(kDense, {{"kv_block_tokens", 8}, {"prefill_chunk", 1}}, R"({"workload.output_tokens": 100})"), faulty_machines(1));
  const Json less =
      run(experiment(kDense, {{"kv_block_tokens", 8}, {"prefill_chunk", 1}, {"kv_dram_tokens", 16}}, R"({"workload.output_tokens": 100})"),
          faulty_machines(1));
  EXPECT_EQ(less["tokens"], all["tokens"]);
  const Bytes written = less["metrics"]["kv_flash"]["bytes_written"], peak = all["peak_memory"]["kv"];
  const Bytes block = peak / 13, slice = block / 4, blocks = written / block;  // 104 positions, 4 layers
  EXPECT_EQ(written % block, 0u);
  EXPECT_EQ(blocks, 10u) << "13 less the two that stay and the last one";
  const Bytes before_the_last_left = (2 + 2) * block + (blocks - 1) * slice;
  EXPECT_EQ(less["peak_memory"]["kv"], before_the_last_left);
}

// From the trace: while units compute, reads of keys and values are under way; without prefetch never.
TEST_F(KvFlashTest, reading_overlaps_computing_only_with_prefetch) {
  const auto overlap = [&](bool prefetch) {
    const std::string out = (folder_ / (prefetch ? "with" : "without")).string();
    const Json engine = {{"kv_dram_tokens", 0}, {"kv_prefetch", prefetch}, {"threads", 2}};
    const Json result = run(experiment(kDense, engine), faulty_machines(3), out);
    const Json trace = Json::parse(std::ifstream(out + "/trace.json"));
    std::map<std::pair<int, int>, std::string> tracks;
    IntervalSet reading, computing;
    for (const Json& event : trace["traceEvents"]) {
      if (event.value("name", "") == "thread_name") tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
    const auto ps = [](const Json& us) { return Picoseconds(std::llround(us.get<double>() * 1e6)); };
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const std::string& track = tracks[{event["pid"], event["tid"]}];
      const Picoseconds begin = ps(event["ts"]), end = begin + ps(event["dur"]);
      if (track.starts_with("kv reads")) reading.add(begin, end);
      if (track.starts_with("cpu")) computing.add(begin, end);
    }
    EXPECT_GT(reading.total().count(), 0);
    EXPECT_GT(computing.total().count(), 0);
    const double hidden = result["metrics"]["kv_flash"]["hidden_share"];
    EXPECT_EQ(hidden > 0, prefetch);
    return reading.intersected(computing).total();
  };
  EXPECT_GT(overlap(true).count(), 0);
  EXPECT_EQ(overlap(false).count(), 0);
}

TEST_F(KvFlashTest, errors_of_flash_end_the_run_with_their_cause_and_no_token) {
  for (const bool prefetch : {true, false}) {
    const Json engine = {{"kv_dram_tokens", 4}, {"kv_prefetch", prefetch}, {"threads", 2}};
    for (const std::uint64_t at : {0, 1, 7, 40}) {  // of the reads of keys and values: those of weights come before
      auto loads = std::make_shared<std::uint64_t>(0);
      const auto spoil = [=](const ReadRequest& request, std::uint64_t) -> IoFault {
        if (request.into.block()->region != Region::kv || (*loads)++ != at) return {};
        return {Picoseconds(5), {Code::short_read, "the flash is gone"}, 100};
      };
      const std::string error = error_of(engine, faulty_machines(at, spoil));
      EXPECT_NE(error.find("keys and values of layer"), std::string::npos) << error;
      EXPECT_NE(error.find("the flash is gone"), std::string::npos) << error;
    }
    for (const std::uint64_t at : {0, 3, 10}) {
      const auto spoil = [=](const WriteRequest&, std::uint64_t n) {
        return n == at ? IoFault{{}, {Code::no_space, "full"}, 0} : IoFault{};
      };
      const std::string error = error_of(engine, faulty_machines(at, {}, spoil));
      EXPECT_NE(error.find("writing keys and values of layer"), std::string::npos) << error;
      EXPECT_NE(error.find("full"), std::string::npos) << error;
    }
  }
}

TEST_F(KvFlashTest, a_file_that_can_not_be_made_is_an_error_that_says_so) {
  const auto without_folder = [](MachineRequest request, Function& function, TraceSink& trace) {
    request.scratch_folder = "/no such folder";
    return make_host(request, function, trace);
  };
  const std::string error = error_of({{"kv_dram_tokens", 4}}, without_folder);
  EXPECT_NE(error.find("engine.kv.dram_tokens: the file of "), std::string::npos) << error;
  EXPECT_NE(error.find("/no such folder"), std::string::npos) << error;
}

TEST_F(KvFlashTest, a_budget_without_room_for_landing_is_an_error_that_says_so) {
  const Json all = run(experiment(kDense, {{"kv_dram_tokens", 0}}), faulty_machines(1));
  const Bytes peak = all["metrics"]["peak_memory_bytes"];
  const Json budget = {{"memory.budget", std::to_string(peak - kPageSize) + " B"}};
  EXPECT_THROW(run(experiment(kDense, {{"kv_dram_tokens", 0}}, budget.dump()), faulty_machines(1)), RunError);
}

TEST_F(KvFlashTest, a_sequence_that_never_gets_so_long_has_no_file) {
  const Json result = run(experiment(kDense, {{"kv_dram_tokens", 4096}}), faulty_machines(1));
  EXPECT_FALSE(result["metrics"].contains("kv_flash"));
}

// The embedding leaves DRAM but for the rows of a step; tokens and what is computed stay as they were.
TEST_F(KvFlashTest, an_embedding_in_flash_saves_its_bytes_and_changes_no_token) {
  const std::string model = untied();
  const Json dram = run(experiment(model, {{"prefill_chunk", 8}}), faulty_machines(1));
  const TensorInfo embedding = *Gguf::open(model).find_tensor("token_embd.weight");
  const Json paged = {{"prefill_chunk", 8}, {"embedding", "flash"}, {"policy", "mmap"}, {"threads", 2}};
  // Pages of the other weights come and go beside it.
  EXPECT_EQ(run(experiment(model, paged), faulty_machines(9))["tokens"], dram["tokens"]);
  for (const int threads : {1, 2}) {
    const Json engine = {{"prefill_chunk", 8}, {"embedding", "flash"}, {"threads", threads}};
    const Json flash = run(experiment(model, engine), faulty_machines(7));
    EXPECT_EQ(flash["tokens"], dram["tokens"]);
    EXPECT_EQ(dram["peak_memory"]["fixed"].get<Bytes>() - flash["peak_memory"]["fixed"].get<Bytes>(), round_up(embedding.size, kPageSize));
    EXPECT_LE(flash["peak_memory"]["staging"].get<Bytes>(), round_up(8 * embedding.columns() * 2, kPageSize));
    EXPECT_GT(flash["metrics"]["flash_bytes_read"]["decode"], 39 * embedding.columns() * 2);
  }
}

TEST_F(KvFlashTest, what_would_save_nothing_is_refused) {
  const auto refusal = [&](const std::string& model, const Json& engine) {
    try {
      run(experiment(model, engine), faulty_machines(1));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(kDense, {{"embedding", "flash"}}).find("tied"), std::string::npos);
  EXPECT_NE(refusal(kDense, {{"kv_prefetch", false}}).find("engine.kv_prefetch: needs engine.kv.dram_tokens"), std::string::npos);
}

TEST_F(KvFlashTest, the_host_gives_the_tokens_of_the_virtual_machine) {
  const Node root = experiment(kDense, {{"kv_dram_tokens", 4}});
  EXPECT_EQ(run(root, make_host)["tokens"], run(root, faulty_machines(1))["tokens"]);
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("vitro-scratch-")) << entry.path();
  }
}

}  // namespace
}  // namespace vitro
