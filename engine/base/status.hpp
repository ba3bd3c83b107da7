// Outcomes that a policy must handle: a budget that is full, a read that failed, a unit that was lost.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "engine/base/check.hpp"

namespace vitro {

enum class Code : std::uint8_t { ok, over_budget, io_error, short_read, no_space, unit_lost, unsupported_shape };

struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::string message;

  bool ok() const { return code == Code::ok; }
  // For callers that can not go on: turns a failure into a RunError with the message.
  void or_throw() const {
    if (!ok()) throw RunError(message);
  }
};

// Either a value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) {
    VITRO_CHECK(!std::get<Status>(state_).ok(), "a Result without a value needs a failure");
  }

  bool ok() const { return state_.index() == 0; }
  const Status& status() const { return std::get<Status>(state_); }  // Requires: !ok()
  T& value() & { return std::get<T>(state_); }                       // Requires: ok()
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  T value_or_throw() && {
    if (!ok()) throw RunError(status().message);
    return std::get<T>(std::move(state_));
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace vitro
