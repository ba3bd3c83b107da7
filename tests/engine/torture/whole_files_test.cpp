// Memory ends at one allocation after the other while a file is written: it is there as a whole, or not at all.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/app/session.hpp"
#include "engine/base/out_of_memory.hpp"
#include "engine/base/rng.hpp"
#include "engine/model/packed_file.hpp"
#include "engine/model/quantize.hpp"
#include "tests/effort.hpp"
#include "tests/engine/model/support.hpp"
#include "tests/engine/torture/failing_allocations.hpp"
#include "traces/perfetto_stream.hpp"
#include "traces/json_trace.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

struct Written {
  const char* name;
  std::vector<std::string> files;  // in the folder
  std::function<void(const std::string& folder)> write;
};

void trace_into(TraceFile& trace, const std::string& folder) {
  const TrackId track = trace.track("units", "cpu0");
  for (int i = 0; i < 40; ++i) {
    trace.span(track, Picoseconds(i * 2000), Picoseconds(i * 2000 + 1000), "matmul " + std::to_string(i % 5), "of layer one");
    trace.decision("evict", "neuron " + std::to_string(i), "of the cache of neurons");
  }
  trace.finish(folder);
}

std::vector<Written> all_written(const std::string& model) {
  const auto packs = [model](const char* layout) {
    return [model, layout](const std::string& folder) { pack_to(Gguf::open(model), pack_options_of(layout), folder + "/pack"); };
  };
  return {{"a pack", {"pack"}, packs("tiled")},
          {"bundles", {"pack"}, packs("bundles")},
          {"a quantised model", {"out.gguf"}, [model](const std::string& folder) { quantize(model, folder + "/out.gguf", "q4_0"); }},
          {"a result", {"result.json"},
           [](const std::string& folder) {
             nlohmann::ordered_json result{{"experiment", "e"}, {"metrics", {{"decode_tokens_per_s", 1.5}}}};
             for (int i = 0; i < 50; ++i) result["tokens"].push_back(i);
             write_result(folder, result);
           }},
          {"a trace", {"trace.json", "decisions.jsonl"},
           [](const std::string& folder) {
             JsonTrace trace("vitro test");
             trace_into(trace, folder);
           }},
          {"a streamed trace", {"trace.pftrace", "decisions.jsonl"},
           [](const std::string& folder) {
             PerfettoStream trace("vitro test", folder);
             trace_into(trace, folder);
           }},
          {"a recording", {"r.vtrc"}, [](const std::string& folder) {
             Recording recording;
             recording.about["model"] = "a name that is longer than a text without an allocation of its own";
             for (std::int32_t i = 0; i < 40; ++i) {
               OutcomeKey key{};
               key.at.position = static_cast<std::uint32_t>(i);
               recording.tokens[key] = i;
             }
             recording.save(folder + "/r.vtrc");
           }}};
}

// In a child in which allocation `n` fails, and which ends then as programs of ours do. -> (exit code, what was said)
std::pair<int, std::string> in_child(const Written& written, const std::string& folder, std::uint64_t n) {
  int said[2];
  if (::pipe(said) != 0) throw RunError("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw RunError("no child can be made");
  if (child == 0) {
    ::dup2(said[1], STDERR_FILENO);
    exit_when_memory_ends();
    test::failing = n, test::allocations = 0, test::counts = true;
    written.write(folder);
    ::_exit(0);
  }
  ::close(said[1]);
  std::string text(4096, '\0');
  const ssize_t length = ::read(said[0], text.data(), text.size());
  ::close(said[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text};
}

TEST(WholeFiles, are_what_is_there_when_memory_ends) {
  const ScratchFolder models;
  const std::string model = models / "m.gguf";
  SmallModel small;
  small.config.layers = 1;
  small.write(model);
  for (const Written& written : all_written(model)) {
    const ScratchFolder good;
    test::failing = test::kNone, test::allocations = 0, test::counts = true;
    written.write(good.str());
    test::counts = false;
    const std::uint64_t all = test::allocations;
    ASSERT_GT(all, 10u) << written.name;
    ASSERT_EQ(good.files(), written.files.size()) << written.name;
    const std::uint64_t stride = std::max<std::uint64_t>(1, all / test::all_or_few<std::uint64_t>(300, 25));
    std::size_t ended = 0, seen = 0;
    Rng rng(1);
    for (std::uint64_t first = 0; first < all; first += stride) {
      const std::uint64_t n = first + rng.below(stride);
      const ScratchFolder folder;
      const std::string what = std::string(written.name) + ": allocation " + std::to_string(n) + " of " + std::to_string(all);
      const auto [code, said] = in_child(written, folder.str(), n);
      ++seen, ended += code != 0 ? 1 : 0;
      EXPECT_TRUE(code == 0 || code == 1) << what << ": " << code << ": " << said;
      EXPECT_EQ(said.starts_with("vitro: out of memory: "), code == 1) << what << ": " << said;
      for (const std::string& name : written.files) {
        const bool there = std::filesystem::exists(folder / name);
        EXPECT_TRUE(there || code != 0) << what << ": " << name << " is missing after a success";
        EXPECT_TRUE(!there || read_file(folder / name) == read_file(good / name)) << what << ": " << name << " is not whole";
      }
      for (const auto& entry : std::filesystem::directory_iterator(folder.str())) {
        const std::string name = entry.path().filename().string();
        const bool known = std::ranges::find(written.files, name) != written.files.end();
        EXPECT_TRUE(known || (code != 0 && name.ends_with(".partial"))) << what << " left " << name;
      }
    }
    EXPECT_GT(ended, seen / 2) << written.name << ": " << ended << " of " << seen;
  }
}

}  // namespace
}  // namespace vitro
