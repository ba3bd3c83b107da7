// What the tests of cached experts share: a model in flash, a machine that reads it late, and steps of a transformer.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/rng.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/parts/weights/expert_residency.hpp"
#include "engine/parts/weights/phase_runner.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro::cached_experts {

// Matrices begin within pages, and one is several requests: kTransfer is the device's largest.
constexpr Bytes kMatrix = 3 * kPageSize - 1536, kBegin = 1024, kTransfer = kPageSize;
constexpr std::uint32_t kExperts = 4, kLayers = 3, kRolesOf = 3, kMatrices = kExperts * kLayers * kRolesOf;

constexpr Bytes first_page(std::uint32_t matrix) { return (kBegin + matrix * kMatrix) / kPageSize * kPageSize; }
constexpr Bytes read_of(std::uint32_t matrix) { return round_up(kBegin + (matrix + 1) * kMatrix, kPageSize) - first_page(matrix); }
constexpr Bytes slot_of(std::uint32_t role) {
  Bytes most = 0;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    for (std::uint32_t e = 0; e < kExperts; ++e) most = std::max(most, read_of((layer * kRolesOf + role) * kExperts + e));
  }
  return most;
}
constexpr Bytes kExpert = slot_of(0) + slot_of(1) + slot_of(2);

inline std::byte pattern(Bytes offset) { return static_cast<std::byte>((offset * 131 + offset / kPageSize) & 0xff); }

// Compares what each call reads with the file. A call's slice says where each operand begins, in matrices.
class Compares final : public Function {
 public:
  Outcome execute(const KernelCall& call) override {
    ++calls;
    for (const View& view : call.in) {
      for (Bytes b = 0; b < kMatrix; b += 97) wrong += view.data()[b] != pattern(kBegin + Bytes{call.slice.first} * kMatrix + b);
    }
    return {};
  }
  int calls = 0, wrong = 0;
};

// Each read is asked for when it is issued and begins later: a flash that works on many at once, in no order.
class Late final : public StorageDecorator {
 public:
  Late(Storage& inner, VirtualExecutor& executor, std::function<Picoseconds(const ReadRequest&)> delay)
      : StorageDecorator(inner), caps_(inner.caps()), executor_(executor), delay_(std::move(delay)) {
    caps_.max_transfer = kTransfer;
  }
  const StorageCaps& caps() const override { return caps_; }

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override {
    executor_.call_at(executor_.now() + delay_(request), [this, &request, &done] { StorageDecorator::submit(request, done); });
  }

 private:
  StorageCaps caps_;
  VirtualExecutor& executor_;
  std::function<Picoseconds(const ReadRequest&)> delay_;
};

// A trace that keeps decisions alone.
class Decisions final : public TraceSink {
 public:
  bool enabled() const override { return true; }
  TrackId track(std::string_view, std::string_view) override { return TrackId{}; }
  void span(TrackId, Picoseconds, Picoseconds, std::string_view, std::string_view) override {}
  void counter(TrackId, Picoseconds, double) override {}
  void decision(std::string_view kind, std::string_view what, std::string_view) override {
    if (kind != "graph") made.push_back(std::string(kind) + " " + std::string(what));
  }
  std::vector<std::string> made;
};

class CachedExperts : public testing::Test {
 protected:
  CachedExperts() : path_(std::filesystem::temp_directory_path() / ("vitro_experts_" + std::to_string(::getpid()))) {
    std::ofstream file(path_, std::ios::binary);
    for (Bytes i = 0; i < round_up(kBegin + kMatrices * kMatrix, kPageSize); ++i) file.put(static_cast<char>(pattern(i)));
  }
  ~CachedExperts() override { std::filesystem::remove(path_); }

  struct Given {
    Bytes budget = 0;  // of the cache
    std::string eviction = "lru";
    bool look_ahead = true;
    std::uint64_t timing = 0;  // 0: every call and read takes as long as all others
    Bytes memory = MiB;
    std::function<Status(const ReadRequest&)> fault;
    std::function<Picoseconds(const ReadRequest&)> delay = [](const ReadRequest&) { return Picoseconds(0); };
    std::uint32_t window = 3;
  };

  void make(const Given& given) {
    VirtualMachineSpec spec;
    for (const char* name : {"cpu0", "cpu1"}) {
      UnitCaps caps;
      caps.id = UnitId(spec.units.size());
      caps.kind = UnitKind::core;
      caps.name = name;
      spec.units.push_back(caps);
    }
    if (given.timing > 0) {
      auto rng = std::make_shared<Rng>(given.timing);
      spec.shuffle = given.timing;
      spec.price = [rng](const UnitCaps&, const KernelCall&) { return Picoseconds(1 + static_cast<int>(rng->below(1000))); };
      spec.read_price = [rng](const ReadRequest&) { return Picoseconds(1 + static_cast<int>(rng->below(1000))); };
    }
    std::function<Picoseconds(const ReadRequest&)> delay = given.delay;
    if (given.timing > 0) {
      auto rng = std::make_shared<Rng>(mix(given.timing, {1}));
      delay = [rng](const ReadRequest&) { return Picoseconds(static_cast<int>(rng->below(9000))); };
    }
    if (given.fault) spec.read_fault = given.fault;
    spec.memory_limits = {given.memory, 0, 0, 0};
    residency_.reset();
    trace_.made.clear();
    function_ = {};
    host_.emplace(spec, function_, trace_);
    const Machine& m = host_->machine();
    late_.emplace(m.storage, host_->executor(), delay);
    machine_.emplace(Machine{m.executor, m.clock, m.units, *late_, m.memory, m.trace, m.seed});
    const FileId file = host_->machine().storage.open(path_.string()).value_or_throw();
    std::vector<Weight> all;
    for (std::uint32_t i = 0; i < kLayers * kRolesOf; ++i) {
      Weight w;
      w.name = "w" + std::to_string(i);
      w.role = std::array{Role::ffn_gate, Role::ffn_up, Role::ffn_down}[i % kRolesOf];
      w.layer = static_cast<std::int16_t>(i / kRolesOf);
      w.experts = kExperts;
      w.rows = 16, w.columns = kMatrix / 16 / 4;
      w.extent = {file, kBegin + i * kExperts * kMatrix, kExperts * kMatrix};
      all.push_back(w);
    }
    weights_.emplace(std::move(all));
    ExpertCacheOptions options{.eviction = given.eviction, .budget = given.budget};
    options.look_ahead = given.look_ahead;
    options.reads_in_flight = given.window;
    residency_.emplace(*machine_, *weights_, options);
    host_->run(residency_->load());
    loaded_ = host_->machine().storage.totals().bytes_read;
  }

  WorkItem item(std::size_t weight, std::uint32_t expert) const {
    const Weight& w = weights_->all()[weight];
    KernelCall call;
    call.layer = w.layer;
    call.slice.first = static_cast<std::uint32_t>((w.extent.offset - kBegin) / kMatrix + expert);
    call.in = {residency_->view(w, expert)};
    return {{call}, {{&w, expert * kMatrix, kMatrix}}};
  }

  static ExpertChoice choice(std::vector<std::uint16_t> ids) { return {ids, std::vector<float>(ids.size(), 0.5f)}; }

  // One layer as a transformer does it: the choice, what is foreseen of the next layer, gate and up, then down.
  Task<void> layer(std::int16_t l, std::vector<std::uint16_t> experts, std::vector<std::uint16_t> next) {
    residency_->chose(l, {choice(experts)});
    if (!next.empty()) residency_->foresee(static_cast<std::int16_t>(l + 1), {choice(next)});
    Machine& machine = *machine_;
    GraphCache graphs(machine);
    PhaseRunner runner(machine, *residency_, graphs);
    const std::size_t first = static_cast<std::size_t>(l) * kRolesOf;
    UnitQueues gated(2), down(2);
    for (std::size_t unit = 0; unit < 2; ++unit) {
      for (const std::uint16_t expert : experts) {
        gated[unit].push_back(item(first, expert));
        gated[unit].push_back(item(first + 1, expert));
        down[unit].push_back(item(first + 2, expert));
      }
    }
    std::vector<ComputeUnit*> units{machine.units[0], machine.units[1]};
    co_await runner.run(std::move(gated), units);
    co_await runner.run(std::move(down), units);
  }

  Task<void> keep_and_look() {
    co_await residency_->keep(1, 2);
    for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(kRolesOf + role, 2)) << role;
    co_await residency_->keep(0, 0);
    for (std::uint32_t role = 0; role < kRolesOf; ++role) EXPECT_TRUE(is_in_place(role, 0)) << role;
  }

  struct Step {
    std::vector<std::vector<std::uint16_t>> chosen, foreseen;  // by layer
  };
  Task<void> steps(const std::vector<Step>* all) {
    std::exception_ptr error;
    try {
      for (const Step& step : *all) {
        for (std::int16_t l = 0; l < static_cast<std::int16_t>(kLayers); ++l) {
          co_await layer(l, step.chosen[static_cast<std::size_t>(l)], step.foreseen[static_cast<std::size_t>(l)]);
        }
      }
    } catch (...) {
      error = std::current_exception();
    }
    co_await residency_->settle();
    if (error) std::rethrow_exception(error);
  }
  void run(const std::vector<Step>& all) { host_->run(steps(&all)); }

  static std::vector<Step> drawn(std::uint64_t seed, std::size_t count, bool ahead) {
    Rng rng(seed);
    const auto some = [&] {
      std::vector<std::uint16_t> ids;
      for (std::uint16_t e = 0; e < kExperts; ++e) {
        if (rng.below(2) == 0) ids.push_back(e);
      }
      if (ids.empty()) ids.push_back(static_cast<std::uint16_t>(rng.below(kExperts)));
      return ids;
    };
    std::vector<Step> all(count);
    for (Step& step : all) {
      for (std::uint32_t l = 0; l < kLayers; ++l) {
        step.chosen.push_back(some());
        step.foreseen.push_back(ahead && l + 1 < kLayers ? some() : std::vector<std::uint16_t>{});
      }
    }
    return all;
  }
  // What all that was decided takes to read.
  Bytes decided() const {
    Bytes bytes = 0;
    for (const std::string& made : trace_.made) {
      const std::size_t name = made.find(" w"), expert = made.find(" expert ");
      if (!made.starts_with("load") && !made.starts_with("foresee")) continue;
      const int weight = std::atoi(made.c_str() + name + 2), of = std::atoi(made.c_str() + expert + 8);
      bytes += read_of(static_cast<std::uint32_t>(weight) * kExperts + static_cast<std::uint32_t>(of));
    }
    return bytes;
  }
  bool is_in_place(std::uint32_t weight, std::uint32_t expert) const {
    const View view = residency_->view(weights_->all()[weight], expert);
    for (Bytes b = 0; b < kMatrix; ++b) {
      if (view.data()[b] != pattern(kBegin + (weight * kExperts + expert) * kMatrix + b)) return false;
    }
    return true;
  }
  // Reads of one expert of a layer come so much later than all others.
  static std::function<Picoseconds(const ReadRequest&)> late(std::uint32_t layer, std::uint32_t expert, Picoseconds by) {
    return [layer, expert, by](const ReadRequest& read) {
      return matrix_at(read.from.offset) == std::pair{layer, expert} ? by : Picoseconds(0);
    };
  }
  // The layer and expert whose matrix has the end of this page.
  static std::pair<std::uint32_t, std::uint32_t> matrix_at(Bytes offset) {
    const auto matrix = static_cast<std::uint32_t>((offset + kPageSize - 1 - kBegin) / kMatrix);
    return {matrix / kExperts / kRolesOf, matrix % kExperts};
  }
  Bytes read_since_load() const { return host_->machine().storage.totals().bytes_read - loaded_; }

  std::filesystem::path path_;
  Compares function_;
  Decisions trace_;
  mutable std::optional<VirtualMachine> host_;
  std::optional<Late> late_;
  mutable std::optional<Machine> machine_;  // the host's, whose reads come late
  std::optional<WeightStore> weights_;
  std::optional<ExpertResidency> residency_;
  Bytes loaded_ = 0;
};

}  // namespace vitro::cached_experts
