// Faults on purpose: delays, errors and short transfers, for tests of how policies take them. Works over any Storage.
#pragma once
#include <cstdint>
#include <functional>

#include "engine/machine/clock.hpp"
#include "engine/machine/detached.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

struct IoFault {
  Picoseconds delay{0};  // the completion comes this much later
  Status status;         // not ok: reported instead of the truth ...
  Bytes moved = 0;       // ... after this many bytes really moved
};

// The plan is asked once per request, also for each of a vector, with its number in order of submission from 0: a fault is then
// reproducible. A vector goes on as one submission, without the requests of which nothing moves.
class FaultyStorage final : public StorageDecorator {
 public:
  using ReadPlan = std::function<IoFault(const ReadRequest&, std::uint64_t)>;
  using WritePlan = std::function<IoFault(const WriteRequest&, std::uint64_t)>;

  FaultyStorage(Storage& inner, ReadPlan reads, WritePlan writes = {})
      : StorageDecorator(inner), read_plan_(std::move(reads)), write_plan_(std::move(writes)) {}

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { drive(serve(request), &done); }
  void submit(const WriteRequest& request, Completion<IoResult>& done) override { drive(serve(request), &done); }
  void submit(VectorRead& read) override { serve_all(&read); }

 private:
  struct Later {
    Executor& executor;
    Picoseconds when;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { executor.post_at(when, handle); }
    void await_resume() const {}
  };

  static Detached drive(Task<IoResult> task, Completion<IoResult>* done) {
    IoResult result = co_await std::move(task);
    done->complete(std::move(result));
  }

  IoFault plan(ReadRequest& request) {
    IoFault fault = read_plan_ ? read_plan_(request, reads_++) : IoFault{};
    if (!fault.status.ok()) request.from.length = std::min(fault.moved, request.from.length);
    return fault;
  }

  Task<IoResult> serve(ReadRequest request) {
    const IoFault fault = plan(request);
    const Bytes length = request.from.length;
    IoResult result;
    if (length > 0) result = co_await inner_.read(std::move(request));
    co_return co_await spoil(fault, std::move(result));
  }
  Task<IoResult> serve(WriteRequest request) {
    const IoFault fault = write_plan_ ? write_plan_(request, writes_++) : IoFault{};
    request.to.length = fault.status.ok() ? request.to.length : std::min(fault.moved, request.to.length);
    const Bytes length = request.to.length;
    IoResult result;
    if (length > 0) result = co_await inner_.write(std::move(request));
    co_return co_await spoil(fault, std::move(result));
  }

  Detached serve_all(VectorRead* read) {
    std::vector<ReadRequest> moving;
    std::vector<std::uint32_t> index;  // of each of them in `read`
    std::vector<IoFault> faults;
    for (std::uint32_t i = 0; i < read->requests().size(); ++i) {
      ReadRequest request = read->requests()[i];
      IoFault fault = plan(request);
      if (request.from.length == 0) {
        drive(spoil(std::move(fault), {}), read, i);
        continue;
      }
      moving.push_back(std::move(request));
      index.push_back(i);
      faults.push_back(std::move(fault));
    }
    VectorRead inner = inner_.read_many(std::move(moving), read->delivery());
    while (const VectorRead::Group* group = co_await inner.next()) {
      for (const ReadCompletion& done : *group) drive(spoil(std::move(faults[done.index]), done.result), read, index[done.index]);
    }
  }
  static Detached drive(Task<IoResult> task, VectorRead* read, std::uint32_t index) {
    IoResult result = co_await std::move(task);
    read->complete(index, std::move(result));
  }

  // Always suspends once, as real storage does, even when nothing was moved.
  Task<IoResult> spoil(IoFault fault, IoResult result) {
    Executor& executor = inner_.executor();
    co_await Later{executor, executor.now() + fault.delay};
    if (!fault.status.ok() && result.status.ok()) result.status = std::move(fault.status);
    co_return result;
  }

  ReadPlan read_plan_;
  WritePlan write_plan_;
  std::uint64_t reads_ = 0, writes_ = 0;
};

}  // namespace vitro
