// What an accelerator's sessions have mapped. A session is a process on the accelerator with an address space of its own, of which
// `limit` bytes can be memory that the host shares with it (3.5 GB of 32-bit addresses on recent Hexagons). All operands of a launch
// have to be in one session; what does not fit beside the rest goes to another one. Nothing is ever unmapped.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
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
  struct Run {  // segments first ... end - 1 of a block of memory
    std::uint64_t memory = 0;
    Bytes size = 0;  // of that block
    Bytes first = 0, end = 0;
    Bytes bytes_of(Bytes segment) const { return std::min(kSegment, size - segment * kSegment); }
  };
  struct Segment {
    std::uint64_t memory = 0;
    Bytes number = 0, bytes = 0;
    friend auto operator<=>(const Segment&, const Segment&) = default;
  };
  struct Session {
    std::map<std::uint64_t, std::vector<bool>> mapped;  // by memory, the segments that are
    Bytes bytes = 0;
    bool holds(const Run& run) const;
    Bytes missing(const std::vector<Segment>& segments) const;  // bytes of those that it has not
    void map(const Run& run);
  };
  struct Chosen {  // rows that a call names by their places
    IndexList row_offsets;
    std::vector<Run> runs;
  };
  static std::vector<Segment> segments_of(const std::vector<Run>& runs);  // each once, in order
  static Run run_of(const View& view, Bytes offset, Bytes length);
  const std::vector<Run>& runs_at_row_offsets(const KernelCall& call);

  Bytes limit_;
  std::vector<Session> sessions_;
  // Hot neurons keep their places for many steps: the segments under them are looked for when they change.
  std::map<std::tuple<std::uint64_t, Bytes, std::int16_t, std::int16_t>, Chosen> chosen_;  // by memory, matrix, layer and expert
};

}  // namespace vitro
