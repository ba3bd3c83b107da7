// Defects of an engine, put in place: machines between the policy and the one that goes wrong, which do what a part with that defect would.
// Each is right as long as nothing goes wrong.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/machine/detached.hpp"
#include "engine/machine/host_decorator.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/unit_decorator.hpp"
#include "engine/faults/fault_state.hpp"
#include "engine/parts/weights/eviction_wrapper.hpp"
#include "engine/torture/torture.hpp"

namespace vitro::test {

enum class Plant {
  read_used_before_it_landed, lost_lease, stale_graph, slot_used_twice, swallowed_error, lost_completion, hit_after_failed_read
};

constexpr Picoseconds kPatience = std::chrono::microseconds(200);  // longer than any read that nothing delays

class PlantedFlash final : public StorageDecorator {
 public:
  PlantedFlash(Storage& inner, Plant plant) : StorageDecorator(inner), plant_(plant) {}

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { serve(request, done); }
  void submit(VectorRead& read) override {
    const std::vector<ReadRequest> requests = read.requests();
    for (std::uint32_t i = 0; i < requests.size(); ++i) serve(requests[i], ResultSlot(read, i));
  }

 private:
  void serve(const ReadRequest& request, ResultSlot done) {
    auto told = std::make_shared<bool>(false);
    really(request, done, told);
    if (plant_ == Plant::read_used_before_it_landed) impatient(request.from.length, done, told);
  }
  Detached impatient(Bytes length, ResultSlot done, std::shared_ptr<bool> told) {
    co_await FaultDelay{inner_.executor(), kPatience};
    if (!std::exchange(*told, true)) done.complete({{}, length});
  }
  Detached really(ReadRequest request, ResultSlot done, std::shared_ptr<bool> told) {
    // What did not come counts as there: whoever needs it again does not read it.
    if (const auto there = std::ranges::find(counted_, request.from); there != counted_.end()) {
      counted_.erase(there);
      co_await FaultDelay{inner_.executor(), Picoseconds(1)};
      done.complete({{}, request.from.length});
      co_return;
    }
    const Picoseconds begin = inner_.executor().now();
    ReadRequest submitted = request;
    IoResult result = co_await inner_.read(std::move(submitted));
    const bool late = inner_.executor().now() - begin > kPatience;
    if (plant_ == Plant::lost_completion && late) co_return;
    if (plant_ == Plant::hit_after_failed_read && !result.status.ok()) counted_.push_back(request.from);
    if (plant_ == Plant::lost_lease && !result.status.ok()) lost_.push_back(request.into);
    if (plant_ == Plant::swallowed_error && !result.status.ok()) result = {{}, request.from.length};
    if (plant_ == Plant::slot_used_twice) {
      if (taken_ && result.status.ok()) overwrite(request);
      if (late) taken_ = request;
    }
    if (!std::exchange(*told, true)) done.complete(std::move(result));
  }
  // What was read goes to a slot that somebody else still has.
  void overwrite(const ReadRequest& request) {
    const Bytes bytes = std::min(request.from.length, taken_->from.length);
    std::copy_n(request.into.data() + request.into_offset, bytes, taken_->into.data() + taken_->into_offset);
    taken_.reset();
  }

  Plant plant_;
  std::vector<Lease> lost_;
  std::optional<ReadRequest> taken_;
  std::vector<Extent> counted_;
};

// A cache that gives a block up for the newcomer after next: one more is there than it has room for.
class OneTooMany final : public EvictionWrapper {
 public:
  using EvictionWrapper::EvictionWrapper;
  void insert(std::uint32_t block) override {
    if (late_ == block) go();
    EvictionWrapper::insert(block);
  }
  void erase(std::uint32_t block) override {
    go();
    late_ = block;
  }
  std::optional<std::uint32_t> victim(const std::function<bool(std::uint32_t)>& held) override {
    return EvictionWrapper::victim([&](std::uint32_t block) { return block == late_ || held(block); });
  }
  std::optional<std::uint32_t> victim_at_any_price(const std::function<bool(std::uint32_t)>& held) override {
    return EvictionWrapper::victim_at_any_price([&](std::uint32_t block) { return block == late_ || held(block); });
  }

 private:
  void go() {
    if (const std::optional<std::uint32_t> block = std::exchange(late_, std::nullopt)) EvictionWrapper::erase(*block);
  }

  std::optional<std::uint32_t> late_;
};

class PlantedUnit final : public UnitDecorator {
 public:
  using UnitDecorator::UnitDecorator;
  Task<Result<Graph>> load(GraphSpec spec) override {
    Result<Graph> graph = co_await inner_.load(std::move(spec));
    if (graph.ok()) last_ = graph.value();
    if (!graph.ok() && last_) co_return *last_;
    co_return graph;
  }

 private:
  std::optional<Graph> last_;
};

class PlantedMachine final : public HostDecorator {
 public:
  PlantedMachine(std::unique_ptr<MachineHost> inner, Plant plant)
      : HostDecorator(std::move(inner)), storage_(inner_->machine().storage, plant) {
    Machine& m = inner_->machine();
    std::vector<ComputeUnit*> pointers = m.units;
    for (ComputeUnit*& unit : pointers) {
      if (plant != Plant::stale_graph) break;
      units_.push_back(std::make_unique<PlantedUnit>(*unit));
      unit = units_.back().get();
    }
    machine_.emplace(Machine{m.executor, m.clock, std::move(pointers), storage_, m.memory, m.trace, m.seed});
  }
  Machine& machine() override { return *machine_; }

 private:
  PlantedFlash storage_;
  std::vector<std::unique_ptr<PlantedUnit>> units_;
  std::optional<Machine> machine_;
};

}  // namespace vitro::test
