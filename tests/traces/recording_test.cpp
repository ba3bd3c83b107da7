#include "traces/recording.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/base/hash.hpp"
#include "engine/base/rng.hpp"
#include "engine/ops/contract.hpp"
#include "engine/virtual/virtual_machine.hpp"
#include "traces/draw.hpp"
#include "traces/recorder.hpp"
#include "traces/replay.hpp"

namespace vitro {
namespace {

constexpr ops::Glu kGlu{.report_active = true};

KernelCall call_of(Op op, std::uint32_t n, std::int16_t layer, std::vector<SeqPos> batch, Slice slice = {}) {
  KernelCall call;
  call.op = op;
  call.layer = layer;
  call.slice = slice;
  View view;
  view.shape = {static_cast<std::uint32_t>(batch.size()), n, 0};
  call.in.push_back(view);
  call.batch = std::make_shared<const std::vector<SeqPos>>(std::move(batch));
  return call;
}

// A run of drawn outcomes: 3 layers in two slices, routing and sampling, 6 positions.
Recording record_a_run() {
  DrawProfile profile;
  profile.layers = {{0.2, 0.5}};
  DrawFunction draw(profile, 17);
  RecordingFunction recorder(draw);
  for (std::uint32_t position = 0; position < 6; ++position) {
    for (std::int16_t layer = 0; layer < 3; ++layer) {
      recorder.execute(call_of(kGlu, 300, layer, {{0, position}, {1, position}}, {200, 100}));
      recorder.execute(call_of(kGlu, 300, layer, {{0, position}, {1, position}}, {0, 200}));
      recorder.execute(call_of(ops::Route{2, true}, 8, layer, {{0, position}}));
    }
    recorder.execute(call_of(ops::Sample{}, 1000, -1, {{0, position}, {1, position}}));
    recorder.execute(call_of(ops::Add{}, 10, 0, {{0, position}}));
  }
  Recording recording = recorder.take();
  recording.about["model"] = "drawn";
  for (const PageFault fault : {PageFault::none, PageFault::waits, PageFault::goes_on}) {
    recording.reads.push_back({{FileId(1), 1 << 20, 4096}, UnitId(3), Pattern::sequential, fault, Picoseconds(123'456'789)});
  }
  return recording;
}

std::vector<std::uint32_t> fired(Function& function, const KernelCall& call, std::size_t row) {
  return *std::get<ActiveSet>(function.execute(call)).rows[row];
}

TEST(Recording, slices_become_one_entry_and_replay_in_any_cut) {
  DrawProfile profile;
  profile.layers = {{0.2, 0.5}};
  DrawFunction draw(profile, 17);
  ReplayFunction replay(record_a_run());
  for (const Slice slice : {Slice{}, Slice{0, 300}, Slice{150, 100}, Slice{299, 1}}) {
    const KernelCall call = call_of(kGlu, 300, 1, {{1, 4}, {0, 2}}, slice);
    for (const std::size_t row : {0u, 1u}) EXPECT_EQ(fired(replay, call, row), fired(draw, call, row));
  }
  const KernelCall route = call_of(ops::Route{2, true}, 8, 2, {{0, 5}});
  const auto expected = std::get<std::vector<ExpertChoice>>(draw.execute(route));
  const auto got = std::get<std::vector<ExpertChoice>>(replay.execute(route));
  EXPECT_EQ(got[0].ids, expected[0].ids);
  EXPECT_EQ(got[0].weights, expected[0].weights);
  const KernelCall sample = call_of(ops::Sample{}, 1000, -1, {{1, 3}, {0, 0}});
  EXPECT_EQ(std::get<TokenChoice>(replay.execute(sample)).tokens, std::get<TokenChoice>(draw.execute(sample)).tokens);
  EXPECT_EQ(replay.execute(call_of(ops::Matmul{}, 8, 0, {{9, 9}})).index(), 0u);
}

std::string run_error(Function& function, const KernelCall& call) {
  try {
    function.execute(call);
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

TEST(Replay, a_question_that_was_never_recorded_is_named) {
  ReplayFunction replay(record_a_run());
  EXPECT_EQ(run_error(replay, call_of(kGlu, 300, 1, {{0, 77}})),
            "the recording has no active neurons for layer 1, sequence 0, position 77");
  EXPECT_EQ(run_error(replay, call_of(ops::Route{2, true}, 8, 0, {{1, 0}})),
            "the recording has no experts for layer 0, sequence 1, position 0");
  EXPECT_EQ(run_error(replay, call_of(ops::Sample{}, 8, -1, {{2, 0}})), "the recording has no token for sequence 2, position 0");
  EXPECT_EQ(run_error(replay, call_of(kGlu, 301, 1, {{0, 0}})),
            "the recording does not know neurons 0 to 301 of layer 1, sequence 0, position 0");
}

TEST(Recorder, of_rows_that_were_skipped_nothing_is_known) {
  DrawFunction draw({}, 1);
  RecordingFunction recorder(draw);
  KernelCall call = call_of(kGlu, 100, 0, {{0, 0}});
  call.rows = std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{3, 4, 5, 50});
  recorder.execute(call);
  ReplayFunction replay(recorder.take());
  EXPECT_EQ(fired(replay, call, 0), fired(draw, call, 0));
  EXPECT_EQ(fired(replay, call_of(kGlu, 100, 0, {{0, 0}}, {3, 3}), 0), fired(draw, call_of(kGlu, 100, 0, {{0, 0}}, {3, 3}), 0));
  EXPECT_NE(run_error(replay, call_of(kGlu, 100, 0, {{0, 0}}, {5, 2})), "");
}

KernelCall select_call(SelectOf of, std::uint32_t n, std::uint32_t position, Slice slice = {}) {
  return call_of(ops::Select{0, Activation::relu, of}, n, 0, {{0, position}}, slice);
}

TEST(Recorder, keeps_what_the_gate_selects_and_no_guess) {
  DrawProfile profile;
  profile.predictor = {0.5, 0.5};
  DrawFunction draw(profile, 1);
  RecordingFunction recorder(draw);
  recorder.execute(select_call(SelectOf::predictor, 100, 0));
  recorder.execute(select_call(SelectOf::gate, 100, 1, {0, 60}));
  recorder.execute(select_call(SelectOf::gate, 100, 1, {60, 40}));
  ReplayFunction replay(recorder.take());
  EXPECT_EQ(fired(replay, select_call(SelectOf::gate, 100, 1), 0), fired(draw, call_of(kGlu, 100, 0, {{0, 1}}), 0));
  EXPECT_EQ(fired(replay, select_call(SelectOf::predictor, 100, 1), 0), fired(replay, select_call(SelectOf::gate, 100, 1), 0));
  EXPECT_EQ(run_error(replay, select_call(SelectOf::gate, 100, 0)),
            "the recording has no active neurons for layer 0, sequence 0, position 0");
}

// Says what it is told to: neurons 1 and 2 of a select, 2 and 3 of a glu.
class Told final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    const std::vector<std::uint32_t> ids = call.is<ops::Select>() ? std::vector<std::uint32_t>{1, 2} : std::vector<std::uint32_t>{2, 3};
    return ActiveSet{{std::make_shared<const std::vector<std::uint32_t>>(ids)}};
  }
};

TEST(Recorder, where_the_gate_was_selected_glu_adds_nothing) {
  for (const bool glu_first : {false, true}) {
    Told told;
    RecordingFunction recorder(told);
    if (glu_first) recorder.execute(call_of(kGlu, 10, 0, {{0, 0}}));
    recorder.execute(select_call(SelectOf::gate, 10, 0));
    recorder.execute(call_of(kGlu, 10, 0, {{0, 0}}));
    EXPECT_EQ(recorder.take().fired.begin()->second.ids, (std::vector<std::uint32_t>{1, 2})) << glu_first;
    recorder.execute(call_of(kGlu, 10, 0, {{0, 0}}));
    EXPECT_EQ(recorder.take().fired.begin()->second.ids, (std::vector<std::uint32_t>{2, 3}));
  }
}

TEST(Recorder, workers_may_record_at_once) {
  DrawFunction draw({}, 1);
  RecordingFunction recorder(draw);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&recorder, t] {
      for (std::uint32_t position = 0; position < 50; ++position) {
        recorder.execute(call_of(kGlu, 400, 0, {{0, position}}, {100 * t, 100}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ReplayFunction replay(recorder.take());
  for (std::uint32_t position = 0; position < 50; ++position) {
    const KernelCall call = call_of(kGlu, 400, 0, {{0, position}});
    EXPECT_EQ(fired(replay, call, 0), fired(draw, call, 0));
  }
}

void expect_equal(const Recording& a, const Recording& b) {
  EXPECT_EQ(a.about, b.about);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.reads, b.reads);
  ASSERT_EQ(a.fired.size(), b.fired.size());
  for (const auto& [key, fired] : a.fired) {
    EXPECT_EQ(fired.ids, b.fired.at(key).ids) << to_string(key);
    EXPECT_EQ(fired.covered, b.fired.at(key).covered) << to_string(key);
  }
  ASSERT_EQ(a.experts.size(), b.experts.size());
  for (const auto& [key, choice] : a.experts) {
    EXPECT_EQ(choice.ids, b.experts.at(key).ids);
    const std::vector<float>& weights = b.experts.at(key).weights;
    ASSERT_EQ(choice.weights.size(), weights.size());
    EXPECT_TRUE(weights.empty() || std::memcmp(weights.data(), choice.weights.data(), weights.size() * sizeof(float)) == 0);  // NaN too
  }
}

TEST(Recording, survives_its_file) {
  const Recording recording = record_a_run();
  const std::string path = "vitro-recording-" + std::to_string(::getpid());
  recording.save(path);
  expect_equal(Recording::load(path), recording);
  std::filesystem::remove(path);
}

std::string config_error(const std::string& bytes) {
  try {
    Recording::from_bytes(bytes, "run.vtrc");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// A damaged file with a checksum that fits, as a malicious or buggy writer would make it.
std::string resealed(std::string bytes) {
  bytes.resize(bytes.size() - 8);
  Hash hash;
  hash.add(std::string_view(bytes));
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(hash.value() >> shift);
  return bytes;
}

TEST(Recording, every_kind_of_damage_has_its_message) {
  const std::string good = record_a_run().to_bytes();
  EXPECT_EQ(config_error(good), "");
  EXPECT_EQ(config_error(""), "run.vtrc: not a recording (it does not begin with VTRC)");
  EXPECT_EQ(config_error("VTRC"), "run.vtrc: the recording is cut after 4 bytes");
  EXPECT_EQ(config_error("GGUF" + good.substr(4)), "run.vtrc: not a recording (it does not begin with VTRC)");
  std::string newer = good;
  newer[4] = 9;
  EXPECT_EQ(config_error(newer), "run.vtrc: recording of version 9, this program reads version 1");
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  EXPECT_EQ(config_error(flipped), "run.vtrc: the recording is cut or damaged: its checksum does not match");
  EXPECT_EQ(config_error(good.substr(0, good.size() - 1)), config_error(flipped));
  EXPECT_NE(config_error(resealed(good.substr(0, good.size() / 2))).find("not a usable recording"), std::string::npos);
}

TEST(Recording, a_hostile_file_ends_in_a_message_or_in_a_valid_recording) {
  const std::string good = record_a_run().to_bytes();
  Rng rng(23);
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string bytes = good;
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n) bytes[5 + rng.below(bytes.size() - 13)] = static_cast<char>(rng.next());
    if (rng.below(4) == 0) bytes.resize(20 + rng.below(bytes.size() - 20));
    try {
      const Recording parsed = Recording::from_bytes(resealed(bytes), "hostile");
      expect_equal(Recording::from_bytes(parsed.to_bytes(), "again"), parsed);
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

Task<void> read_twice(Machine* machine, FileId file) {
  for (const Bytes offset : {Bytes{8192}, Bytes{0}}) {
    ReadRequest request;
    request.from = {file, offset, 4096};
    request.pattern = Pattern::sequential;
    co_await machine->storage.read(std::move(request));
  }
}

Task<void> read_as_vector(Machine* machine, FileId file) {
  std::vector<ReadRequest> requests(3);
  for (Bytes i = 0; i < 3; ++i) requests[i].from = {file, (2 - i) * 4096, 4096};
  VectorRead read = machine->storage.read_many(std::move(requests));
  co_await read.rest();
}

TEST(RecordingStorage, keeps_each_read_of_a_vector_and_passes_on_the_whole) {
  DrawFunction function({}, 1);
  NullTrace trace;
  VirtualMachine host({}, function, trace);
  std::vector<RecordedRead> reads;
  RecordingStorage storage(host.machine().storage, reads);
  Machine inner = host.machine();
  Machine machine{inner.executor, inner.clock, inner.units, storage, inner.memory, inner.trace};
  host.run(read_as_vector(&machine, storage.open_phantom(MiB).value_or_throw()));
  ASSERT_EQ(reads.size(), 3u);
  for (Bytes i = 0; i < 3; ++i) {
    EXPECT_EQ(reads[i].extent.offset, (2 - i) * 4096);
    EXPECT_EQ(reads[i].submitted, Picoseconds(0));
  }
  EXPECT_EQ(machine.clock.now(), Picoseconds(3000));
}

TEST(RecordingStorage, keeps_reads_in_the_order_of_submission_with_their_times) {
  DrawFunction function({}, 1);
  NullTrace trace;
  VirtualMachine host({}, function, trace);
  std::vector<RecordedRead> reads;
  RecordingStorage storage(host.machine().storage, reads);
  Machine inner = host.machine();
  Machine machine{inner.executor, inner.clock, inner.units, storage, inner.memory, inner.trace};
  host.run(read_twice(&machine, storage.open_phantom(MiB).value_or_throw()));
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].extent.offset, 8192u);
  EXPECT_EQ(reads[0].submitted, Picoseconds(0));
  EXPECT_EQ(reads[1].extent.offset, 0u);
  EXPECT_EQ(reads[1].submitted, Picoseconds(1000));
}

TEST(Recording, of_parquet_is_the_recording_that_a_converter_makes_of_it) {
  const std::string folder = ::testing::TempDir(), ours = folder + "/ours.vtrc", other = folder + "/other.parquet";
  Recording recording;
  recording.about = {{"model", "small"}};
  recording.save(ours);
  std::ofstream(other) << "PAR1 and more";
  EXPECT_TRUE(Recording::is_recording(other));
  try {
    Recording::load(other);
    FAIL() << "without a converter";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("other.parquet: is a recording in Parquet"), std::string::npos) << error.what();
  }
  std::string asked;
  Recording::convert_with([&](const std::string& path) {
    asked = path;
    return ours;
  });
  EXPECT_EQ(Recording::load(other).about, recording.about);
  EXPECT_EQ(asked, other);
  Recording::convert_with(nullptr);
}

}  // namespace
}  // namespace vitro
