#include "engine/parts/weights/mmap_residency.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/rng.hpp"
#include "engine/parts/weights/phase_runner.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kPages = 64;  // of the model file: four weights of 16 pages

std::byte pattern(Bytes offset) { return static_cast<std::byte>((offset * 131 + offset / kPageSize) & 0xff); }

// Checks that a call sees the bytes of the file wherever it reads.
class CheckBytes final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    const View& view = call.in[0];
    for (std::uint32_t i = 0; i < call.slice.count; ++i) {
      const Bytes at = call.slice.first + i;
      if (view.data()[at] != pattern(view.offset + at)) ++wrong;
    }
    ++calls;
    return {};
  }
  std::uint64_t wrong = 0, calls = 0;
};

class Decisions final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view name) override {
    names.emplace_back(name);
    return TrackId(names.size() - 1);
  }
  void span(TrackId track, Picoseconds begin, Picoseconds end, std::string_view, std::string_view) override {
    spans.push_back({names[static_cast<std::size_t>(track)], begin, end});
  }
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view kind, std::string_view what, std::string_view where) override {
    log += std::string(kind) + " " + std::string(what) + " " + std::string(where) + "\n";
  }
  struct Span {
    std::string track;
    Picoseconds begin, end;
  };
  std::vector<std::string> names;
  std::vector<Span> spans;
  std::string log;
};

class MmapResidencyTest : public testing::Test {
 protected:
  MmapResidencyTest() : path_(std::filesystem::temp_directory_path() / ("vitro_mmap_" + std::to_string(::getpid()))) {
    std::ofstream file(path_, std::ios::binary);
    for (Bytes i = 0; i < kPages * kPageSize; ++i) file.put(static_cast<char>(pattern(i)));
  }
  ~MmapResidencyTest() override { std::filesystem::remove(path_); }

  static WeightStore weights(FileId file) {
    std::vector<Weight> out;
    const Role roles[] = {Role::attn_q, Role::ffn_gate, Role::ffn_up, Role::ffn_down};
    for (std::uint32_t i = 0; i < 4; ++i) {
      Weight w;
      w.name = "w" + std::to_string(i);
      w.role = roles[i];
      w.layer = 0;
      w.rows = 64, w.columns = 256;
      w.extent = {file, i * 16 * kPageSize, 16 * kPageSize};
      out.push_back(w);
    }
    return WeightStore(std::move(out));
  }

  struct Outcome {
    std::string decisions;
    std::uint64_t wrong = 0, calls = 0, misses = 0, failed = 0;
    Bytes peak = 0, bytes_read = 0;
    std::vector<Decisions::Span> spans;
  };

  // Random phases over two units, then the same again; each item reads a stretch of one weight. goes_on: after phases that fail, in which
  // calls may see anything.
  Outcome run(std::uint64_t timing_seed, Bytes budget, std::function<Status(const ReadRequest&)> fault = {}, bool goes_on = false) {
    CheckBytes function;
    Decisions trace;
    Rng timing(timing_seed);
    VirtualMachineSpec spec;
    for (const char* name : {"cpu0", "cpu1"}) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.name = name;
      spec.units.push_back(caps);
    }
    spec.memory_limits = {budget, 0, 0, 0};
    spec.shuffle = timing_seed;
    spec.price = [&timing](const UnitCaps&, const KernelCall&) { return Picoseconds(100 + static_cast<std::int64_t>(timing.below(5000))); };
    spec.read_price = [&timing](const ReadRequest&) { return Picoseconds(100 + static_cast<std::int64_t>(timing.below(5000))); };
    if (fault) spec.read_fault = fault;
    VirtualMachine host(spec, function, trace);
    Machine& machine = host.machine();
    const WeightStore store = weights(machine.storage.open(path_.string()).value_or_throw());
    MmapResidency residency(machine, store, {4 * kPageSize, std::nullopt, 0});
    GraphCache graphs(machine);
    PhaseRunner runner(machine, residency, graphs);
    std::uint64_t failed = 0;
    host.run(drive(&machine, &store, &residency, &runner, &function, goes_on ? &failed : nullptr));
    host.run(residency.settle());
    Outcome out{trace.log,
                function.wrong,
                function.calls,
                residency.stats().misses,
                failed,
                machine.memory.budget(Placement::dram).peak,
                machine.storage.totals().bytes_read,
                trace.spans};
    return out;
  }

  static Task<void> drive(Machine* machine, const WeightStore* store, MmapResidency* residency, PhaseRunner* runner,
                          CheckBytes* function, std::uint64_t* failed) {
    co_await residency->load();
    Rng rng(5);
    for (int phase = 0; phase < 30; ++phase) {
      UnitQueues queues(2);
      for (auto& queue : queues) {
        const std::uint64_t items = rng.below(6);
        for (std::uint64_t i = 0; i < items; ++i) {
          const Weight& w = store->all()[rng.below(4)];
          const Bytes offset = rng.below(w.extent.length - 8192);
          const auto length = static_cast<std::uint32_t>(1 + rng.below(8192));
          KernelCall call;
          call.op = ops::Copy{};
          call.in = {residency->view(w, 0)};
          call.slice = {static_cast<std::uint32_t>(offset), length};
          WorkItem item;
          item.uses.push_back({&w, offset, length});
          item.calls.push_back(std::move(call));
          queue.push_back(std::move(item));
        }
      }
      const std::uint64_t wrong = function->wrong;
      try {
        co_await runner->run(std::move(queues), machine->units);
      } catch (const RunError&) {
        if (failed == nullptr) throw;
        ++*failed;
        function->wrong = wrong;
      }
    }
  }

  std::filesystem::path path_;
};

TEST_F(MmapResidencyTest, kernels_see_the_file_under_every_budget_and_timing) {
  for (const std::uint32_t pages : {3u, 4u, 6u, 9u, 12u, 20u, 32u, 48u, 64u}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const Outcome out = run(seed, pages * kPageSize);
      EXPECT_EQ(out.wrong, 0u);
      EXPECT_GT(out.calls, 50u);
      EXPECT_LE(out.peak, pages * kPageSize);
    }
  }
}

TEST_F(MmapResidencyTest, decisions_do_not_depend_on_timing) {
  const Outcome a = run(1, 12 * kPageSize), b = run(99, 12 * kPageSize);
  EXPECT_FALSE(a.decisions.empty());
  EXPECT_EQ(a.decisions, b.decisions);
  EXPECT_EQ(a.bytes_read, b.bytes_read);
}

TEST_F(MmapResidencyTest, with_room_for_all_each_page_is_read_once) {
  const Outcome out = run(1, kPages * kPageSize);
  EXPECT_LE(out.bytes_read, kPages * kPageSize);
  EXPECT_GT(run(1, 12 * kPageSize).bytes_read, 2 * kPages * kPageSize);
}

TEST_F(MmapResidencyTest, a_budget_below_one_item_is_a_clear_error) {
  try {
    run(1, 2 * kPageSize);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("smallest working set"), std::string::npos) << error.what();
  }
}

// A read of 16 KiB can touch five pages: with less room some item may fail, with five pages none does.
TEST_F(MmapResidencyTest, the_smallest_working_set_is_known_before_the_first_item) {
  CheckBytes function;
  NullTrace trace;
  for (const std::uint32_t pages : {4u, 5u}) {
    VirtualMachineSpec spec;
    UnitCaps caps;
    caps.name = "cpu0";
    spec.units = {caps};
    spec.memory_limits = {pages * kPageSize, 0, 0, 0};
    VirtualMachine host(spec, function, trace);
    const WeightStore store = weights(host.machine().storage.open(path_.string()).value_or_throw());
    MmapResidency residency(host.machine(), store, {4 * kPageSize, std::nullopt, 0});
    host.run(residency.load());
    const auto refusal = [&](Bytes offset, Bytes length) -> std::string {
      WorkItem item;
      item.uses = {{&store.all()[1], offset, length}};
      UnitQueues phase(1);
      phase[0] = {item, item};  // one after the other, they share what is there
      try {
        residency.check_room(phase);
      } catch (const ConfigError& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_EQ(refusal(0, 4 * kPageSize), "") << "four pages";
    const std::string across = refusal(3 * kPageSize + 100, 4 * kPageSize);
    if (pages == 5) {
      EXPECT_EQ(across, "");
    } else {
      EXPECT_NE(across.find("memory.budget: "), std::string::npos) << across;
      EXPECT_NE(across.find("engine.weights.read_ahead"), std::string::npos) << across;
    }
    EXPECT_EQ(host.machine().storage.totals().bytes_read, 0u) << "nothing was read for it";
  }
}

// One unit computes for long, and its next read is the one that gives up pages. Another takes room that they leave: it does not wait for
// that unit, as it once did.
TEST_F(MmapResidencyTest, a_unit_that_is_late_holds_nobody_up) {
  CheckBytes function;
  Decisions trace;
  VirtualMachineSpec spec;
  for (const char* name : {"late", "soon"}) {
    UnitCaps caps;
    caps.id = UnitId(spec.units.size());
    caps.name = name;
    spec.units.push_back(caps);
  }
  spec.memory_limits = {16 * kPageSize, 0, 0, 0};
  spec.price = [](const UnitCaps& unit, const KernelCall&) { return Picoseconds(unit.name == "late" ? 1'000'000 : 1'000); };
  VirtualMachine host(spec, function, trace);
  const WeightStore store = weights(host.machine().storage.open(path_.string()).value_or_throw());
  MmapResidency residency(host.machine(), store, {kPageSize, std::nullopt, 0});
  host.run(residency.load());
  GraphCache graphs(host.machine());
  PhaseRunner runner(host.machine(), residency, graphs);
  const auto item = [&](std::size_t weight, Bytes first, Bytes count) {
    const Weight& w = store.all()[weight];
    WorkItem item;
    item.uses.push_back({&w, first * kPageSize, count * kPageSize});
    KernelCall call;
    call.op = ops::Copy{};
    call.in = {residency.view(w, 0)};
    call.slice = {static_cast<std::uint32_t>(first * kPageSize), static_cast<std::uint32_t>(count * kPageSize)};
    item.calls.push_back(std::move(call));
    return item;
  };
  const auto phases = [](PhaseRunner* runner, Machine* machine, UnitQueues fill, UnitQueues then) -> Task<void> {
    co_await runner->run(std::move(fill), machine->units);
    co_await runner->run(std::move(then), machine->units);
  };
  UnitQueues fill(2), then(2);
  fill[1].push_back(item(0, 0, 16));  // all the room there is
  then[0].push_back(item(0, 15, 1));
  then[0].push_back(item(1, 0, 1));  // gives up two pages, and brings one
  then[1].push_back(item(0, 14, 1));
  then[1].push_back(item(2, 0, 1));
  host.run(phases(&runner, &host.machine(), std::move(fill), std::move(then)));
  Picoseconds first_of_late{}, last_of_soon{};
  for (const Decisions::Span& span : trace.spans) {
    if (span.track == "soon") last_of_soon = std::max(last_of_soon, span.end);
    if (span.track == "late" && first_of_late == Picoseconds{}) first_of_late = span.end;
  }
  EXPECT_EQ(function.wrong, 0u);
  EXPECT_EQ(function.calls, 5u);
  EXPECT_LT(last_of_soon, first_of_late);
}

TEST_F(MmapResidencyTest, a_read_error_ends_the_run_and_nobody_waits_for_ever) {
  const auto fail = [](const ReadRequest& request) {
    return request.page_fault == PageFault::waits && request.from.offset > 20 * kPageSize ? Status{Code::io_error, "the flash is on fire"}
                                                                                          : Status{};
  };
  try {
    run(1, 12 * kPageSize, fail);
    FAIL() << "expected a RunError";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("on fire"), std::string::npos) << error.what();
  }
}

// Whichever read fails: the phase that needs its pages does, no other computes with them, and what comes later is read anew.
TEST_F(MmapResidencyTest, the_phase_after_a_read_error_is_as_good_as_any) {
  std::uint64_t failed = 0, survived = 0;
  for (int nth = 1; nth <= 120; ++nth) {
    int reads = 0;
    const auto fail = [&](const ReadRequest&) { return ++reads == nth ? Status{Code::io_error, "the flash is on fire"} : Status{}; };
    const Outcome out = run(static_cast<std::uint64_t>(nth), (4 + nth % 9) * kPageSize, fail, true);
    EXPECT_EQ(out.wrong, 0u) << "read " << nth;
    EXPECT_LE(out.failed, 1u);
    (out.failed > 0 ? failed : survived) += 1;
  }
  EXPECT_GT(failed, 20u);
  EXPECT_GT(survived, 5u) << "what was read ahead and never touched";
}

}  // namespace
}  // namespace vitro
