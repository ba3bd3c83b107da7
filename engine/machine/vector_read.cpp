#include "engine/machine/vector_read.hpp"

#include <algorithm>

#include "engine/machine/storage.hpp"

namespace vitro {

VectorRead::VectorRead(Storage& storage, std::vector<ReadRequest> requests, Delivery delivery)
    : requests_(std::move(requests)), delivery_(delivery), executor_(storage.executor()), in_flight_(requests_.size()) {
  for (const ReadRequest& request : requests_) {
    VITRO_CHECK(request.page_fault == PageFault::none, "a page fault in a vector read: a core that waits for one page asks for no other");
  }
  completed_.reserve(requests_.size());
  if (!requests_.empty()) storage.submit(*this);
}

VectorRead::~VectorRead() {
  VITRO_CHECK(in_flight_ == 0 && completed_.empty(), "a vector read died before all of its groups were taken (rest() takes what is left)");
}

void VectorRead::complete(std::uint32_t index, IoResult result) {
  VITRO_CHECK(in_flight_ > 0 && index < requests_.size(), "more completions than requests of a vector read");
  --in_flight_;
  latest_ = executor_.now();
  completed_.push_back({index, std::move(result)});
  if (waiter_ && enough(wanted_)) executor_.post_last(std::exchange(waiter_, {}));
}

// What completes now may not be all of this moment: then the group has to wait for its end.
bool VectorRead::ready(std::size_t at_least) const {
  if (in_flight_ == 0 && completed_.empty()) return true;
  return enough(at_least) && latest_ < executor_.now();
}

void VectorRead::wait(std::size_t at_least, std::coroutine_handle<> handle) {
  VITRO_CHECK(!waiter_, "two coroutines wait for one vector read");
  if (enough(at_least)) return executor_.post_last(handle);
  wanted_ = at_least;
  waiter_ = handle;
}

const VectorRead::Group* VectorRead::take() {
  taken_.clear();
  taken_.swap(completed_);
  if (!std::ranges::is_sorted(taken_, {}, &ReadCompletion::index)) std::ranges::sort(taken_, {}, &ReadCompletion::index);
  return taken_.empty() ? nullptr : &taken_;
}

}  // namespace vitro
