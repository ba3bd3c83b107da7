#include "engine/app/io_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/app/report.hpp"
#include "engine/machine/task_scope.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

struct Replay {
  Machine& machine;
  FileId file{};
  const std::vector<RecordedRead>& reads;
  std::size_t next = 0;
  std::vector<Picoseconds> latencies;
  Picoseconds end{};
};

Task<void> read_one(Replay* replay, const RecordedRead* read, Lease buffer) {
  Machine& machine = replay->machine;
  ReadRequest request;
  request.from = {replay->file, read->extent.offset, read->extent.length};
  request.into = std::move(buffer);
  request.issuer = machine.units[static_cast<std::size_t>(read->issuer) % machine.units.size()]->caps().id;
  request.pattern = read->pattern;
  // Whether a core waited was the recorded policy's affair; here the number in flight decides.
  const Picoseconds begin = machine.clock.now();
  const IoResult result = co_await machine.storage.read(std::move(request));
  result.status.or_throw();
  replay->end = machine.clock.now();
  replay->latencies.push_back(replay->end - begin);
}

Lease buffer_for(Replay* replay, Bytes size) {
  return replay->machine.memory.lease(size, Placement::dram, Region::staging).value_or_throw();
}

Task<void> lane(Replay* replay, Bytes largest, TaskScope* scope) {
  const Lease buffer = buffer_for(replay, largest);
  while (replay->next < replay->reads.size() && !scope->stop_requested()) {
    co_await read_one(replay, &replay->reads[replay->next++], buffer);
  }
}

Task<void> paced_read(Replay* replay, const RecordedRead* read, Picoseconds when) {
  co_await sleep_until(replay->machine.executor, when);
  co_await read_one(replay, read, buffer_for(replay, read->extent.length));
}

Task<void> run_all(Replay* replay, std::uint32_t depth, bool paced, Bytes largest) {
  TaskScope scope(replay->machine.executor);
  if (paced) {
    const Picoseconds start = replay->machine.clock.now();
    for (const RecordedRead& read : replay->reads) {
      scope.spawn(paced_read(replay, &read, start + read.submitted - replay->reads.front().submitted));
    }
  } else {
    for (std::uint32_t i = 0; i < depth; ++i) scope.spawn(lane(replay, largest, &scope));
  }
  co_await scope.join();
}

class NoFunction final : public Function {
 public:
  Outcome execute(const KernelCall&) override { return {}; }
};

}  // namespace

nlohmann::ordered_json replay_io(const IoReplay& replay, const MachineFactory& machines) {
  const Recording recording = Recording::load(replay.recording);
  if (recording.reads.empty())
    throw ConfigError(replay.recording + ": the recording has no reads (expected one of a run that reads flash)");
  Bytes largest = 0, end = 0, bytes = 0;
  for (const RecordedRead& read : recording.reads) {
    largest = std::max(largest, read.extent.length);
    end = std::max(end, read.extent.offset + read.extent.length);
    bytes += read.extent.length;
  }
  if (!replay.file.empty() && std::filesystem::file_size(replay.file) < end) {
    throw ConfigError(
        fmt::format("{}: the file has {} bytes, but the recording reads up to byte {} (expected a file that is at least as long)",
                    replay.file, std::filesystem::file_size(replay.file), end));
  }
  NoFunction function;
  NullTrace trace;
  const std::unique_ptr<MachineHost> host = machines(replay.machine, function, trace);
  Storage& storage = host->machine().storage;
  Result<FileId> file = replay.file.empty() ? storage.open_phantom(round_up(end, kPageSize)) : storage.open(replay.file);
  Replay state{host->machine(), std::move(file).value_or_throw(), recording.reads, 0, {}, {}};
  const Picoseconds begin = host->machine().clock.now();
  host->run(run_all(&state, replay.depth, replay.paced, largest));

  const double seconds = to_seconds(state.end - begin);
  nlohmann::ordered_json latency = latency_summary(std::move(state.latencies), 1e6);
  return {{"reads", recording.reads.size()}, {"bytes", bytes},
          {"duration_s", seconds},           {"gb_per_s", static_cast<double>(bytes) * 1e-9 / seconds},
          {"latency_us", latency},           {"storage_path", storage.caps().path}};
}

}  // namespace vitro
