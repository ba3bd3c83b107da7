// How vectors of reads reach the storage behind a decorator.
#pragma once
#include <vector>

#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/task.hpp"

namespace vitro::test {

// Storage that remembers how vectors are to be delivered.
class Deliveries final : public StorageDecorator {
 public:
  using StorageDecorator::StorageDecorator;
  std::vector<Delivery> seen;

 protected:
  void submit(VectorRead& read) override {
    seen.push_back(read.delivery());
    StorageDecorator::submit(read);
  }
};

inline Task<void> read_page(Storage* storage, FileId file, Lease into, Delivery delivery) {
  VectorRead read = storage->read_many({{{file, 0, kPageSize}, into, 0}}, delivery);
  const VectorRead::Group* group = co_await read.rest();
  group->front().result.status.or_throw();
}

}  // namespace vitro::test
