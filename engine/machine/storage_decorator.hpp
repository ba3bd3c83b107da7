// A Storage in front of another: passes everything on, and lets a subclass look at requests or answer them itself.
#pragma once
#include "engine/machine/storage.hpp"

namespace vitro {

// A request that is passed on is completed by the inner storage: the decorator costs no event.
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
  void submit(const ReadRequest& request, Completion<IoResult>& done) override { inner_.submit(request, done); }
  void submit(const WriteRequest& request, Completion<IoResult>& done) override { inner_.submit(request, done); }
  void submit(VectorRead& read) override { inner_.submit(read); }

  Storage& inner_;
};

}  // namespace vitro
