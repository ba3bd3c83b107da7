// A Storage in front of another: passes everything on and lets a subclass look at, delay or spoil each request.
#pragma once
#include "engine/machine/storage.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

class StorageDecorator : public Storage {
 public:
  explicit StorageDecorator(Storage& inner) : inner_(inner) {}

  const StorageCaps& caps() const override { return inner_.caps(); }
  const StorageTotals& totals() const override { return inner_.totals(); }
  Executor& executor() override { return inner_.executor(); }
  Result<FileId> open(std::string_view path) override { return inner_.open(path); }
  Result<FileId> open_phantom(Bytes size) override { return inner_.open_phantom(size); }
  Result<FileId> create_scratch(Bytes size) override { return inner_.create_scratch(size); }

 protected:
  // Starts within submit(), so the inner storage sees the requests in the policy's order.
  virtual Task<IoResult> serve(ReadRequest request) { co_return co_await inner_.read(std::move(request)); }
  virtual Task<IoResult> serve(WriteRequest request) { co_return co_await inner_.write(std::move(request)); }

  void submit(const ReadRequest& request, Completion<IoResult>& done) final { drive(serve(request), &done); }
  void submit(const WriteRequest& request, Completion<IoResult>& done) final { drive(serve(request), &done); }

  Storage& inner_;

 private:
  struct Detached {
    struct promise_type {
      Detached get_return_object() { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
  };
  static Detached drive(Task<IoResult> task, Completion<IoResult>* done) {
    IoResult result = co_await std::move(task);
    done->complete(std::move(result));
  }
};

}  // namespace vitro
