// The sessions of a Hexagon unit, and the memory in them that the CPU leases: a worker reads it where it lies, and can not write it.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/host/hexagon_session.hpp"
#include "engine/machine/budgeted_memory.hpp"

namespace vitro {

class HexagonSessions final : public SharedPages {
 public:
  // Opens the first one; others open when memory does not fit into those that are there, `most` in all (TTS-NPU 8).
  HexagonSessions(HexagonTransportFactory transport, HexagonLimits limits, std::uint32_t most);

  Result<std::byte*> take(Bytes size) override;
  void give_back(std::byte* data, Bytes size) override;
  void discard(std::byte* data, Bytes size) override;

  struct Place {
    std::size_t session = 0;
    std::uint32_t at = 0;  // in its inbound region
  };
  // Where these bytes lie; none: not in a session, so that no worker reads them. Any thread.
  std::optional<Place> find(const std::byte* data, Bytes size) const;

  // Sessions stay where they are, and are never fewer.
  std::size_t size() const;
  HexagonSession& operator[](std::size_t i) const;

 private:
  std::optional<Place> find_in_list(const std::byte* data, Bytes size) const;

  const HexagonTransportFactory transport_;
  const HexagonLimits limits_;
  const std::size_t most_;
  mutable std::mutex mutex_;  // guards the list
  std::vector<std::unique_ptr<HexagonSession>> sessions_;
};

}  // namespace vitro
