#include "engine/host/hexagon_sessions.hpp"

#include <algorithm>

namespace vitro {

HexagonSessions::HexagonSessions(HexagonTransportFactory transport, HexagonLimits limits, std::uint32_t most)
    : transport_(std::move(transport)), limits_(limits), most_(std::max(most, 1u)) {
  sessions_.push_back(std::make_unique<HexagonSession>(transport_(), limits_));
}

// In the first session that has room, else in another one, unless an empty one had no room, either.
Result<std::byte*> HexagonSessions::take(Bytes size) {
  const std::scoped_lock lock(mutex_);
  Status full;
  for (std::size_t i = 0; i < most_; ++i) {
    if (i == sessions_.size()) {
      try {
        sessions_.push_back(std::make_unique<HexagonSession>(transport_(), limits_));
      } catch (const RunError& error) {
        return Status{Code::over_budget, error.what()};  // its regions are memory at once, which a phone may not have
      }
    }
    const Result<std::uint32_t> at = sessions_[i]->place(size);
    if (at.ok()) return sessions_[i]->at(at.value());
    full = at.status();
    if (i + 1 == sessions_.size() && !sessions_[i]->holds(size)) break;
  }
  return full;
}

void HexagonSessions::give_back(std::byte* data, Bytes size) {
  const std::scoped_lock lock(mutex_);
  const std::optional<Place> place = find_in_list(data, size);
  VITRO_CHECK(place, "memory that no session has");
  sessions_[place->session]->give_back(place->at, size);
}

void HexagonSessions::discard(std::byte* data, Bytes size) {
  const std::scoped_lock lock(mutex_);
  const std::optional<Place> place = find_in_list(data, size);
  VITRO_CHECK(place, "memory that no session has");
  sessions_[place->session]->discard(place->at, size);
}

std::optional<HexagonSessions::Place> HexagonSessions::find(const std::byte* data, Bytes size) const {
  const std::scoped_lock lock(mutex_);
  return find_in_list(data, size);
}

std::optional<HexagonSessions::Place> HexagonSessions::find_in_list(const std::byte* data, Bytes size) const {
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    const std::span<const std::byte> region = sessions_[i]->transport().inbound();
    if (data < region.data() || data + size > region.data() + region.size()) continue;
    return Place{i, static_cast<std::uint32_t>(data - region.data())};
  }
  return std::nullopt;
}

std::size_t HexagonSessions::size() const {
  const std::scoped_lock lock(mutex_);
  return sessions_.size();
}

HexagonSession& HexagonSessions::operator[](std::size_t i) const {
  const std::scoped_lock lock(mutex_);
  return *sessions_[i];
}

}  // namespace vitro
