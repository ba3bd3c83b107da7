#include "engine/torture/shadow/shadow_machine.hpp"

#include <map>

#include "engine/machine/detached.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/unit_decorator.hpp"

namespace vitro {

class ShadowFlash final : public StorageDecorator {
 public:
  ShadowFlash(Storage& inner, Shadow& shadow) : StorageDecorator(inner), shadow_(shadow) {}

  Result<FileId> create_scratch(Bytes size) override {
    Result<FileId> file = inner_.create_scratch(size);
    if (file.ok()) shadow_.made(file.value());
    return file;
  }

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { read(request, &done); }
  void submit(const WriteRequest& request, Completion<IoResult>& done) override { write(request, &done); }
  void submit(VectorRead& read) override { read_all(read.requests(), &read); }

 private:
  Detached read(ReadRequest request, Completion<IoResult>* done) {
    const Shadow::Ticket ticket = shadow_.read_begins(request);
    IoResult result = co_await inner_.read(std::move(request));
    shadow_.read_ends(ticket, result);
    done->complete(std::move(result));
  }
  Detached write(WriteRequest request, Completion<IoResult>* done) {
    const Shadow::Ticket ticket = shadow_.write_begins(request);
    IoResult result = co_await inner_.write(std::move(request));
    shadow_.write_ends(ticket, result);
    done->complete(std::move(result));
  }
  Detached read_all(std::vector<ReadRequest> requests, VectorRead* read) {
    std::vector<Shadow::Ticket> tickets;
    for (const ReadRequest& request : requests) tickets.push_back(shadow_.read_begins(request));
    VectorRead inner = inner_.read_many(std::move(requests), read->delivery());
    while (const VectorRead::Group* group = co_await inner.next()) {
      for (const ReadCompletion& done : *group) shadow_.read_ends(tickets[done.index], done.result);
      // The last completion may end `read`; `inner` is this frame's own.
      for (const ReadCompletion& done : *group) read->complete(done.index, done.result);
    }
  }

  Shadow& shadow_;
};

class ShadowUnit final : public UnitDecorator {
 public:
  ShadowUnit(ComputeUnit& inner, Shadow& shadow) : UnitDecorator(inner), shadow_(shadow) {}

  Task<Result<Graph>> load(GraphSpec spec) override {
    GraphSpec kept = spec;
    Result<Graph> graph = co_await inner_.load(std::move(spec));
    if (graph.ok()) graphs_[graph.value().id] = std::move(kept);
    co_return graph;
  }
  void unload(Graph graph) override {
    graphs_.erase(graph.id);
    inner_.unload(graph);
  }

 protected:
  void submit(const Chain& chain, Completion<RunResult>& done) override { follow(shadow_.calls_begin(chain), inner_.run(chain), &done); }
  void submit(const Graph& graph, const Bindings& bindings, Completion<RunResult>& done) override {
    const auto known = graphs_.find(graph.id);
    if (known == graphs_.end()) shadow_.found("a graph is launched that is not loaded");
    const Shadow::Ticket ticket = shadow_.calls_begin(known == graphs_.end() ? Chain() : bind(known->second, bindings));
    follow(ticket, inner_.launch(graph, bindings), &done);
  }

 private:
  template <class Operation>
  Detached follow(Shadow::Ticket ticket, Operation operation, Completion<RunResult>* done) {
    RunResult result;
    try {
      result = co_await operation;
    } catch (...) {
      result.error = std::current_exception();
    }
    shadow_.calls_end(ticket);
    done->complete(std::move(result));
  }

  Shadow& shadow_;
  std::map<std::uint32_t, GraphSpec> graphs_;
};

class ShadowMemory final : public Memory {
 public:
  ShadowMemory(Memory& inner, Shadow& shadow) : inner_(inner), shadow_(shadow) {}

  Result<Lease> lease(Bytes size, Placement where, Region region) override { return inner_.lease(size, where, region); }
  Result<Lease> reserve(Bytes size, Placement where, Region region) override { return inner_.reserve(size, where, region); }
  Status commit(const Lease& range, Bytes offset, Bytes length) override { return inner_.commit(range, offset, length); }
  void decommit(const Lease& range, Bytes offset, Bytes length) override {
    shadow_.gave_up(range, offset, length);
    inner_.decommit(range, offset, length);
  }
  const Budget& budget(Placement where) const override { return inner_.budget(where); }

 private:
  Memory& inner_;
  Shadow& shadow_;
};

struct ShadowMachine::Parts {
  Parts(Machine& inner, Shadow& shadow, TraceSink& trace) : storage(inner.storage, shadow), memory(inner.memory, shadow) {
    std::vector<ComputeUnit*> pointers;
    for (ComputeUnit* unit : inner.units) {
      units.push_back(std::make_unique<ShadowUnit>(*unit, shadow));
      pointers.push_back(units.back().get());
    }
    machine.emplace(Machine{inner.executor, inner.clock, std::move(pointers), storage, memory, trace, inner.seed});
  }

  ShadowFlash storage;
  ShadowMemory memory;
  std::vector<std::unique_ptr<ShadowUnit>> units;
  std::optional<Machine> machine;
};

ShadowMachine::ShadowMachine(std::unique_ptr<MachineHost> inner, Shadow& shadow, TraceSink& trace)
    : HostDecorator(std::move(inner)), parts_(std::make_unique<Parts>(inner_->machine(), shadow, trace)) {}
ShadowMachine::~ShadowMachine() = default;

Machine& ShadowMachine::machine() { return *parts_->machine; }

}  // namespace vitro
