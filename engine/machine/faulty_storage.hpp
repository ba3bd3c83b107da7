// Faults on purpose: delays, errors and short transfers, for tests of how policies take them. Works over any Storage.
#pragma once
#include <cstdint>
#include <functional>

#include "engine/machine/clock.hpp"
#include "engine/machine/storage_decorator.hpp"

namespace vitro {

struct IoFault {
  Picoseconds delay{0};  // the completion comes this much later
  Status status;         // not ok: reported instead of the truth ...
  Bytes moved = 0;       // ... after this many bytes really moved
};

// The plan is asked once per request, with its number in order of submission from 0: a fault is then reproducible.
class FaultyStorage final : public StorageDecorator {
 public:
  using ReadPlan = std::function<IoFault(const ReadRequest&, std::uint64_t)>;
  using WritePlan = std::function<IoFault(const WriteRequest&, std::uint64_t)>;

  FaultyStorage(Storage& inner, ReadPlan reads, WritePlan writes = {})
      : StorageDecorator(inner), read_plan_(std::move(reads)), write_plan_(std::move(writes)) {}

 protected:
  Task<IoResult> serve(ReadRequest request) override {
    const IoFault fault = read_plan_ ? read_plan_(request, reads_++) : IoFault{};
    request.from.length = fault.status.ok() ? request.from.length : std::min(fault.moved, request.from.length);
    const Bytes length = request.from.length;
    IoResult result;
    if (length > 0) result = co_await inner_.read(std::move(request));
    co_return co_await spoil(fault, std::move(result));
  }
  Task<IoResult> serve(WriteRequest request) override {
    const IoFault fault = write_plan_ ? write_plan_(request, writes_++) : IoFault{};
    request.to.length = fault.status.ok() ? request.to.length : std::min(fault.moved, request.to.length);
    const Bytes length = request.to.length;
    IoResult result;
    if (length > 0) result = co_await inner_.write(std::move(request));
    co_return co_await spoil(fault, std::move(result));
  }

 private:
  // Always suspends once, as real storage does, even when nothing was moved.
  Task<IoResult> spoil(IoFault fault, IoResult result) {
    struct Later {
      Executor& executor;
      Picoseconds when;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> handle) const { executor.post_at(when, handle); }
      void await_resume() const {}
    };
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
