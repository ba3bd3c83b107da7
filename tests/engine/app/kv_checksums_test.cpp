// Whole runs with keys and values in flash that lies: on the virtual machine by a plan, on the real one by a bit that is turned over in the
// file while the run goes on.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/faults/faulty_machine.hpp"
#include "tests/engine/app/session_kit.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;
using test::Json;
using test::kDense;
using testing::HasSubstr;

// Faults of the storage on a virtual machine, before which nothing is checked but what the engine checks.
MachineFactory lying_machines(FaultPlan plan, std::uint64_t seed = 1) {
  plan.checksums = false;
  return [=](const MachineRequest& request, Function& function, TraceSink& trace) -> std::unique_ptr<MachineHost> {
    return std::make_unique<FaultyMachine>(test::random_machines(seed)(request, function, trace), plan);
  };
}

// Of this process's scratch file in `folder`, which has no name any more.
void turn_bit(const fs::path& folder, Bytes at) {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const fs::path file = fs::read_symlink(entry.path(), error);
    if (error || !file.string().starts_with((folder / "vitro-scratch-").string())) continue;
    const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    unsigned char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
    byte ^= 16;
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
    ASSERT_EQ(::fsync(fd), 0);
    ::close(fd);
    return;
  }
  FAIL() << "there is no scratch file";
}

class KvChecksums : public test::Sessions {
 protected:
  static Node experiment(const Json& kv = Json::object(), const Json& more = Json::object()) {
    Json engine = {{"kv", {{"block_tokens", 4}, {"dram_tokens", 4}, {"checksums", true}}}, {"prefill_chunk", 3}, {"threads", 2}};
    engine["kv"].update(kv);
    Json extra = {{"workload.output_tokens", 40}};
    extra.update(more);
    return Sessions::experiment(kDense, engine.dump(), extra.dump());
  }
  std::string error_of(const Node& root, const MachineFactory& machines) const {
    try {
      run(root, machines);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }
  // The number of the first read of keys and values among all.
  std::uint64_t first_read() const {
    std::optional<std::uint64_t> first;
    const auto look = [&](const ReadRequest& request, std::uint64_t n) {
      if (request.into.block()->region == Region::kv && !first) first = n;
      return IoFault{};
    };
    run(experiment(), test::faulty_machines(1, look));
    return first.value();
  }
};

TEST_F(KvChecksums, change_no_token_and_count_what_they_held) {
  for (const char* format : {"f32", "f16"}) {
    const Json off = run(experiment({{"format", format}, {"checksums", false}}), test::faulty_machines(3));
    const Json on = run(experiment({{"format", format}, {"checksums", true}}), test::faulty_machines(3));
    EXPECT_EQ(on["tokens"], off["tokens"]);
    const Json &held = on["metrics"]["kv_flash"], &none = off["metrics"]["kv_flash"];
    EXPECT_EQ(none["bytes_verified"], 0);
    EXPECT_GT(held["bytes_verified"], 0);
    EXPECT_LE(held["bytes_verified"], held["bytes_read"]) << "what was read for a step that never came is not there yet";
    EXPECT_EQ(held["bytes_read"], none["bytes_read"]);
    EXPECT_EQ(held["reads_again"], 0);
    EXPECT_EQ(on["peak_memory"]["kv"].get<Bytes>() - off["peak_memory"]["kv"].get<Bytes>(), kPageSize);
  }
}

TEST_F(KvChecksums, a_read_that_is_wrong_once_is_repeated_and_changes_no_token) {
  const std::uint64_t first = first_read();
  const Json expected = run(experiment(), lying_machines(FaultPlan{}));
  for (const std::uint64_t n : {0, 5, 20}) {
    FaultPlan plan;
    plan.faults = {{FaultKind::corrupt_read, first + n, 1, Picoseconds(0), 77 + n * 1000, ""}};
    const Json mended = run(experiment(), lying_machines(plan));
    EXPECT_EQ(mended["tokens"], expected["tokens"]);
    EXPECT_EQ(mended["metrics"]["kv_flash"]["reads_again"], 1);
  }
}

TEST_F(KvChecksums, reads_that_stay_wrong_end_the_run_and_say_where) {
  FaultPlan plan;
  plan.faults = {{FaultKind::corrupt_read, first_read(), kFromThenOn, Picoseconds(0), 77, ""}};
  const std::string error = error_of(experiment(), lying_machines(plan));
  EXPECT_THAT(error, HasSubstr("keys and values in flash (the scratch file in engine.kv.scratch), layer 0 of sequence 0, positions "));
  EXPECT_THAT(error, HasSubstr("is not what was written to it (read twice)"));
  EXPECT_EQ(error_of(experiment({{"checksums", false}}), lying_machines(plan)), "") << "without checksums nobody says a word";
}

TEST_F(KvChecksums, of_kept_sequences_hold_too) {
  const Json requests = Json::parse(R"([{"prompt": "Once upon a time there was", "keep_as": "a"}, {"continue": "a", "prompt": "who"}])");
  const Json more = {{"workload.requests", requests}, {"workload.prompt", nullptr}, {"workload.kept_in", "flash"},
                     {"workload.stop_at_eos", false}};
  const auto chat = [&](bool checksums) { return experiment({{"dram_tokens", 4096}, {"checksums", checksums}}, more); };
  std::uint64_t reads = 0;
  std::optional<std::uint64_t> first;
  const auto look = [&](const ReadRequest& request, std::uint64_t n) {
    if (request.into.block()->region == Region::kv && !first) first = n;
    reads = n;
    return IoFault{};
  };
  const Json expected = run(chat(true), test::faulty_machines(1, look));
  FaultPlan plan;
  plan.faults = {{FaultKind::corrupt_read, first.value(), 1, Picoseconds(0), 9, ""}};
  EXPECT_EQ(run(chat(true), lying_machines(plan))["requests"][1]["sequences"], expected["requests"][1]["sequences"]);
  plan.faults.front().count = kFromThenOn;
  EXPECT_THAT(error_of(chat(true), lying_machines(plan)), HasSubstr("is not what was written to it (read twice)"));
  EXPECT_EQ(error_of(chat(false), lying_machines(plan)), "");
}

// The file itself is changed, so that what comes is as wrong the second time.
TEST_F(KvChecksums, a_bit_that_is_turned_over_in_the_file_is_found_on_the_real_machine) {
  const Json scratch = {{"scratch", folder_.string()}};
  const Json expected = run(experiment(scratch), make_host);
  EXPECT_EQ(run(experiment({{"scratch", folder_.string()}, {"checksums", false}}), make_host)["tokens"], expected["tokens"]);
  EXPECT_GT(expected["metrics"]["kv_flash"]["bytes_verified"], 0);
  for (const std::uint64_t n : {3, 30}) {
    auto seen = std::make_shared<std::uint64_t>(0);
    const auto turn = [&, seen](const ReadRequest& request, std::uint64_t) {
      if (request.into.block()->region == Region::kv && ++*seen == n) turn_bit(folder_, request.from.offset + request.from.length - 1);
      return IoFault{};
    };
    const std::string error = error_of(experiment(scratch), test::flash_by_plan(make_host, turn));
    EXPECT_THAT(error, HasSubstr("is not what was written to it (read twice)"));
    EXPECT_GE(*seen, n);
  }
}

}  // namespace
}  // namespace vitro
