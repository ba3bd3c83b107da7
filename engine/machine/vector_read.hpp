// VectorRead: many reads in one submission, whose completions come in groups.
//
//   VectorRead read = storage.read_many(std::move(requests));
//   while (const VectorRead::Group* group = co_await read.next()) {
//     for (const ReadCompletion& done : *group) use(done.index, done.result);
//   }
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <vector>

#include "engine/machine/completion.hpp"
#include "engine/machine/io_request.hpp"

namespace vitro {

class Storage;

struct ReadCompletion {
  std::uint32_t index = 0;  // of the request in the vector
  IoResult result;
};

// together: whoever asks takes all of them at once, by rest(). The device may then work on them as one piece, which in sim is one flow of
// data and one completion instead of one of each for every request; bytes and results are the same.
enum class Delivery : std::uint8_t { as_they_come, together };

// Order: requests are submitted in the order of the vector; those beyond the queue depth of the device wait in the storage. Each request
// is in exactly one group. Groups come in order of time, and requests that complete at the same time come in the same group. Within a
// group they stand in the order of the vector, whichever completed first. Nothing is promised about other requests in flight.
// Cost: a group is one event and one resumption of the coroutine that waits for it.
// Errors: each request has a result of its own. One that fails, or that brings too few bytes, does not disturb the others.
// Lifetime: reads in flight are never cancelled, so every group has to be taken before this dies; rest() takes all that is left. Until
// then the owner must not throw. The leases of all requests are held as long as this lives. It stays where it was made.
// Threads: the policy thread. One coroutine waits at a time.
class VectorRead {
 public:
  using Group = std::vector<ReadCompletion>;

  // Submits, unless there are no requests: see Storage::read_many. Requires: no request blocks its issuer.
  VectorRead(Storage& storage, std::vector<ReadRequest> requests, Delivery delivery = Delivery::as_they_come);
  VectorRead(const VectorRead&) = delete;
  VectorRead& operator=(const VectorRead&) = delete;
  ~VectorRead();

  const std::vector<ReadRequest>& requests() const { return requests_; }
  Delivery delivery() const { return delivery_; }

  struct [[nodiscard]] Next {
    VectorRead& read;
    std::size_t at_least;
    bool await_ready() const { return read.ready(at_least); }
    void await_suspend(std::coroutine_handle<> handle) { read.wait(at_least, handle); }
    const Group* await_resume() { return read.take(); }
  };
  // All that has completed since the last group; valid until the next call. Null when every request was in a group before.
  // at_least: waits until so many have completed, or all that are left. A policy that can not use one small read by itself (a call on
  // what it brings costs less than a hand-over, or needs several of them) saves an event for each that it does not wake up for.
  Next next(std::size_t at_least = 1) { return {*this, std::max<std::size_t>(at_least, 1)}; }
  Next rest() { return next(requests_.size()); }

  // For storages: the result of one request. May be called while the vector is being submitted.
  void complete(std::uint32_t index, IoResult result);

 private:
  bool enough(std::size_t at_least) const { return completed_.size() >= at_least || in_flight_ == 0; }
  bool ready(std::size_t at_least) const;
  void wait(std::size_t at_least, std::coroutine_handle<> handle);
  const Group* take();

  const std::vector<ReadRequest> requests_;
  const Delivery delivery_;
  Executor& executor_;
  std::size_t in_flight_;
  Group completed_, taken_;  // since the last group; the last group
  Picoseconds latest_{0};    // completion
  std::size_t wanted_ = 0;   // by the coroutine that waits
  std::coroutine_handle<> waiter_;
};

// Where the result of a request goes: to the coroutine that waits for it alone, or into a vector read.
class ResultSlot {
 public:
  ResultSlot() = default;
  ResultSlot(Completion<IoResult>& alone) : alone_(&alone) {}
  ResultSlot(VectorRead& read, std::uint32_t index) : read_(&read), index_(index) {}

  // Once. What waits may be gone afterwards.
  void complete(IoResult result) const {
    if (read_ != nullptr) return read_->complete(index_, std::move(result));
    alone_->complete(std::move(result));
  }

 private:
  Completion<IoResult>* alone_ = nullptr;
  VectorRead* read_ = nullptr;
  std::uint32_t index_ = 0;
};

}  // namespace vitro
