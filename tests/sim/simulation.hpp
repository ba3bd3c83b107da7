// Fixtures for tests that simulate: SystemC elaborates once per context, so every test gets a context of its own.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <functional>
#include <memory>
#include <systemc>
#include <vector>

#include "engine/machine/function.hpp"
#include "engine/machine/trace.hpp"
#include "sim/machine.hpp"
#include "tests/hw_models/tlm/fresh_context.hpp"

namespace vitro::sim {

using hw::FreshContext;

// A device of round numbers, for times computed by hand: two cores of 1 GHz that do one multiply-add per cycle and 10 GB/s
// each, 16 GB/s together; no overhead unless a test sets one.
Node round_device(const std::vector<std::string>& overrides = {});

// Costs of test calls, whatever their operator: what count() of a real kernel would say. A row of the batch is no place in a text here, but
// {multiply-adds, bytes}.
WorkCounts test_counts(const KernelCall& call);
KernelCall test_call(double macs, double bytes, std::uint32_t tag = 0);

// Remembers the tags of calls in the order in which they were executed.
class RecordingFunction final : public Function {
 public:
  Outcome execute(const KernelCall& call) override;
  std::vector<std::uint32_t> tags;
  std::function<void(const KernelCall&)> effect;
};

// A machine in a context of its own.
class Simulation {
 public:
  explicit Simulation(SimOptions options, TraceSink* trace = nullptr);

  Machine& machine() { return host_->machine(); }
  MachineHost& host() { return *host_; }
  void run(Task<void> task) { host_->run(std::move(task)); }
  Picoseconds now() { return machine().clock.now(); }

  RecordingFunction function;

 private:
  FreshContext context_;
  NullTrace null_;
  std::unique_ptr<MachineHost> host_;
};

SimOptions round_options(const std::vector<std::string>& overrides = {});
SimOptions oneplus12_options();

Task<void> run_chain(ComputeUnit* unit, Chain chain);
Task<void> read_into(Machine* machine, ReadRequest request, IoResult* result);
ReadRequest read_request(Machine& machine, FileId file, Bytes offset, Bytes length, Pattern pattern = Pattern::random,
                         UnitId issuer = UnitId{0});
// Every task beside the others; joins all.
Task<void> together(Machine* machine, std::vector<Task<void>> tasks);

inline constexpr Picoseconds kNs{1000}, kUs{1'000'000}, kMs{1'000'000'000};

}  // namespace vitro::sim
