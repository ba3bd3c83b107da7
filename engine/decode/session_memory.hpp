// What an accelerator's sessions have mapped. A session is a process on the accelerator with an address space of its own, of which
// `limit` bytes can be memory that the host shares with it (3.5 GB of 32-bit addresses on recent Hexagons). All operands of a launch
// have to be in one session; what does not fit beside the rest goes to another one. Nothing is ever unmapped.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/machine/compute_unit.hpp"

namespace vitro {

class SessionMemory {
 public:
  static constexpr Bytes kSegment = 2 * MiB;  // the least that is mapped of a larger block of memory

  explicit SessionMemory(Bytes limit) : limit_(limit) {}

  // The session in which such a chain runs; its operands are mapped there from now on. None: they exceed a session by themselves.
  std::optional<std::size_t> place(const Chain& chain);

  std::size_t sessions() const { return sessions_.size(); }
  Bytes mapped(std::size_t session) const { return sessions_[session].bytes; }
  Bytes mapped() const {
    Bytes sum = 0;
    for (const Session& session : sessions_) sum += session.bytes;
    return sum;
  }

 private:
  using Segment = std::pair<std::uint64_t, Bytes>;  // of a block of memory: its id, and which one
  struct Session {
    std::set<Segment> segments;
    Bytes bytes = 0;
  };
  struct Chosen {  // rows that a call names by their places
    IndexList places;
    std::set<Segment> segments;
  };
  void add(const View& view, Bytes offset, Bytes length, std::map<Segment, Bytes>& needed) const;
  void add_places(const KernelCall& call, std::map<Segment, Bytes>& needed);

  Bytes limit_;
  std::vector<Session> sessions_;
  // Hot neurons keep their places for many steps: the segments under them are looked for when they change.
  std::map<std::tuple<std::uint64_t, Bytes, std::int16_t, std::int16_t>, Chosen> chosen_;  // by memory, matrix, layer and expert
};

}  // namespace vitro
