// Reuse distances: how much all units have moved since a call read the same operand last. Whether a cache still has it is the
// model's answer.
#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/ops/operands.hpp"

namespace vitro::sim {

// One per machine. Calls are told in the order in which they begin.
class ReuseTracker {
 public:
  explicit ReuseTracker(std::size_t units) : moved_(units) {}

  struct Distance {
    Bytes here = ~Bytes{0}, anywhere = ~Bytes{0};  // ~0: never read before
  };
  // The call is about to move `bytes` on `unit`. Of operands whose rows stand in any order nobody keeps track row by row: what
  // the same operator of the same layer moved in an earlier step stands for them.
  Distance begin(const KernelCall& call, std::size_t unit, Bytes bytes) {
    const Bytes here = moved_[unit], anywhere = all_;
    moved_[unit] += bytes;
    all_ += bytes;
    if (call.in.empty()) return {};
    const View& operand = call.in[reads_kv(call) ? 1 : 0];
    if (!operand.memory) return {};
    Last& last = seen_[{operand.memory.id(), operand.offset, call.rows ? 0 : call.slice.first, call.layer, kind_of(call.op), unit}];
    const SeqPos step = call.batch && !call.batch->empty() ? call.batch->front() : SeqPos{};
    if (!call.rows || !last.known || last.step != step) {
      last.before = last.known ? Distance{last.here, last.anywhere} : Distance{};
      last.step = step;
    }
    const Distance before = last.before;
    last = {true, step, here, anywhere, before};
    if (before.anywhere == ~Bytes{0}) return {};
    return {here - before.here, anywhere - before.anywhere};
  }

 private:
  struct Last {
    bool known = false;
    SeqPos step;
    Bytes here = 0, anywhere = 0;  // the odometers when it was read last
    Distance before{};             // and when an earlier step read it
  };
  std::vector<Bytes> moved_;
  Bytes all_ = 0;
  std::map<std::tuple<std::uint64_t, Bytes, std::uint32_t, std::int16_t, OpKind, std::size_t>, Last> seen_;
};

}  // namespace vitro::sim
