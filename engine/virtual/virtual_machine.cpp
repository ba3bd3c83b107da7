#include "engine/virtual/virtual_machine.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "engine/base/file.hpp"

namespace vitro {

VirtualExecutor::VirtualExecutor(std::optional<std::uint64_t> shuffle) {
  if (shuffle) shuffle_.emplace(*shuffle);
}

void VirtualExecutor::push(Picoseconds when, std::coroutine_handle<> handle, std::function<void()> action) {
  events_.push({std::max(when, now_), shuffle_ ? shuffle_->next() : 0, sequence_++, handle, std::move(action)});
}

void VirtualExecutor::post_at(Picoseconds when, std::coroutine_handle<> handle) { push(when, handle, nullptr); }

void VirtualExecutor::post_last(std::coroutine_handle<> handle) {
  events_.push({now_, std::numeric_limits<std::uint64_t>::max(), sequence_++, handle, nullptr});
}

void VirtualExecutor::call_at(Picoseconds when, std::function<void()> action) { push(when, {}, std::move(action)); }

void VirtualExecutor::run() {
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.when;
    ++events_run_;
    VITRO_CHECK(longest_.count() == 0 || now_ <= longest_, "a run goes on beyond the virtual time that it may take");
    VITRO_CHECK(most_events_ == 0 || events_run_ <= most_events_, "a run goes on beyond the events that it may have");
    if (event.action) {
      event.action();
    } else {
      event.handle.resume();
    }
  }
}

void VirtualExecutor::run(Task<void>& task) {
  post(task.handle());
  run();
  task.result();
}

namespace {

class VirtualUnit final : public ComputeUnit {
 public:
  VirtualUnit(UnitCaps caps, const VirtualMachineSpec& spec, VirtualExecutor& executor, Function& function, TraceSink& trace)
      : caps_(std::move(caps)),
        spec_(spec),
        executor_(executor),
        function_(function),
        trace_(trace),
        track_(trace.track("units", caps_.name)) {}

  const UnitCaps& caps() const override { return caps_; }
  Executor& executor() override { return executor_; }

  Task<Result<Graph>> load(GraphSpec spec) override {
    graphs_.push_back(std::move(spec));
    co_return Result<Graph>(Graph{static_cast<std::uint32_t>(graphs_.size() - 1), 0});
  }
  void unload(Graph graph) override { graphs_.at(graph.id).calls.clear(); }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override { start(std::make_shared<Chain>(chain), done); }
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override {
    start(std::make_shared<Chain>(bind(graphs_.at(graph.id), bindings)), done);
  }

 private:
  void start(std::shared_ptr<Chain> chain, Completion<RunResult>& done) {
    const Picoseconds begin = std::max(free_, executor_.now());
    free_ = begin;
    for (const KernelCall& call : *chain) {
      const Picoseconds price = spec_.price(caps_, call);
      trace_.span(track_, free_, free_ + price, to_string(call.op));
      free_ += price;
    }
    executor_.call_at(free_, [this, chain, &done] {
      RunResult result;
      try {
        for (const KernelCall& call : *chain) {
          Outcome outcome = function_.execute(call);
          if (outcome.index() != 0) result.outcomes.push_back(std::move(outcome));
        }
      } catch (...) {
        result.error = std::current_exception();
      }
      done.complete(std::move(result));
    });
  }

  UnitCaps caps_;
  const VirtualMachineSpec& spec_;
  VirtualExecutor& executor_;
  Function& function_;
  TraceSink& trace_;
  TrackId track_;
  Picoseconds free_{0};
  std::vector<GraphSpec> graphs_;
};

// One request at a time, in order of submission. Scratch files are in memory.
class VirtualStorage final : public Storage {
 public:
  VirtualStorage(const VirtualMachineSpec& spec, VirtualExecutor& executor, TraceSink& trace)
      : spec_(spec), executor_(executor), trace_(trace), track_(trace.track("storage", "flash")) {
    caps_ = {kPageSize, MiB, 1, "virtual"};
  }

  const StorageCaps& caps() const override { return caps_; }
  const StorageTotals& totals() const override { return totals_; }
  Executor& executor() override { return executor_; }
  Result<FileId> open(std::string_view path) override {
    files_.push_back({InputFile(std::string(path)), {}});
    return FileId(files_.size() - 1);
  }
  Result<FileId> open_phantom(Bytes) override { return create_scratch(0); }
  Result<FileId> create_scratch(Bytes size) override {
    files_.push_back({std::nullopt, std::vector<std::byte>(spec_.phantom ? 0 : size)});
    return FileId(files_.size() - 1);
  }

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { start(request, done); }
  void submit(VectorRead& read) override {
    for (std::uint32_t i = 0; i < read.requests().size(); ++i) start(read.requests()[i], ResultSlot(read, i));
  }
  void submit(const WriteRequest& request, Completion<IoResult>& done) override {
    const Picoseconds begin = std::max(free_, executor_.now());
    free_ = begin + spec_.read_price({request.to, request.from, request.from_offset, request.issuer});
    trace_.span(track_, begin, free_, "write");
    ++totals_.writes;
    totals_.bytes_written += request.to.length;
    executor_.call_at(free_, [this, request, &done] {
      File& file = files_.at(static_cast<std::size_t>(request.to.file));
      if (!file.scratch.empty()) {
        std::memcpy(file.scratch.data() + request.to.offset, request.from.data() + request.from_offset, request.to.length);
      }
      done.complete({{}, request.to.length});
    });
  }

 private:
  struct File {
    std::optional<InputFile> input;
    std::vector<std::byte> scratch;
  };

  void start(const ReadRequest& request, ResultSlot done) {
    const Picoseconds begin = std::max(free_, executor_.now());
    free_ = begin + spec_.read_price(request);
    trace_.span(track_, begin, free_, "read");
    const Bytes first = round_down(request.from.offset, kPageSize);
    ++totals_.reads;
    totals_.bytes_read += round_up(request.from.offset + request.from.length, kPageSize) - first;
    executor_.call_at(free_, [this, request, done] {
      Status status = spec_.read_fault(request);
      const File& file = files_.at(static_cast<std::size_t>(request.from.file));
      if (status.ok() && file.input && request.from.offset + request.from.length > file.input->size()) {
        status = {Code::short_read, fmt::format("a read past the end at {}", file.input->size())};
      }
      const bool phantom = !file.input && file.scratch.empty();
      if (status.ok() && !phantom && request.into.data() != nullptr) {
        std::byte* into = request.into.data() + request.into_offset;
        if (file.input) file.input->read_at(request.from.offset, {into, request.from.length});
        if (!file.scratch.empty()) std::memcpy(into, file.scratch.data() + request.from.offset, request.from.length);
      }
      const Bytes bytes = status.ok() ? request.from.length : 0;
      done.complete({std::move(status), bytes});
    });
  }

  const VirtualMachineSpec& spec_;
  VirtualExecutor& executor_;
  TraceSink& trace_;
  TrackId track_;
  StorageCaps caps_;
  StorageTotals totals_;
  Picoseconds free_{0};
  std::vector<File> files_;
};

}  // namespace

struct VirtualMachine::State {
  State(VirtualMachineSpec s, Function& function, TraceSink& trace)
      : spec(std::move(s)), executor(spec.shuffle), memory(spec.memory_limits, spec.phantom), storage(spec, executor, trace) {
    executor.set_limits(spec.longest, spec.most_events);
    std::vector<ComputeUnit*> pointers;
    for (const UnitCaps& caps : spec.units) {
      units.push_back(std::make_unique<VirtualUnit>(caps, spec, executor, function, trace));
      pointers.push_back(units.back().get());
    }
    machine.emplace(Machine{executor, executor, std::move(pointers), storage, memory, trace});
  }

  VirtualMachineSpec spec;
  VirtualExecutor executor;
  BudgetedMemory memory;
  VirtualStorage storage;
  std::vector<std::unique_ptr<VirtualUnit>> units;
  std::optional<Machine> machine;
};

VirtualMachine::VirtualMachine(VirtualMachineSpec spec, Function& function, TraceSink& trace)
    : state_(std::make_unique<State>(std::move(spec), function, trace)) {}
VirtualMachine::~VirtualMachine() = default;
Machine& VirtualMachine::machine() { return *state_->machine; }
VirtualExecutor& VirtualMachine::executor() { return state_->executor; }
void VirtualMachine::run(Task<void> task) { state_->executor.run(task); }

}  // namespace vitro
