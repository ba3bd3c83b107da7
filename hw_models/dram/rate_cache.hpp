// RateCache: the rates that flows were given the last time when flows of the same kinds shared memory. A saturated memory meets few
// mixes over and over: the same cores read rows of the same matrices beside the same transfers of flash.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vitro::hw {

// Exact: what is found was kept for flows whose every number is the same to the bit, in the same order. Bounded: a mix whose place
// another one takes is forgotten, and all are when there are too many kinds.
class RateCache {
 public:
  static constexpr std::size_t kFlows = 14;  // larger mixes are not kept

  // All that the rates of a flow and of those beside it depend on. Its time alone does not follow from the waits to the last bit.
  struct FlowKind {
    std::uint64_t port = 0;
    double demand = 0, written = 0, own = 0, read_wait = 0, write_wait = 0;
    friend bool operator==(const FlowKind&, const FlowKind&) = default;
  };
  using Number = std::uint64_t;  // of a kind, from 1 on

  RateCache() : kinds_(kKinds), mixes_(kMixes) {}

  Number number(const FlowKind& kind) {
    std::size_t place = hash(kind) % kKinds;
    for (; kinds_[place].number != 0; place = (place + 1) % kKinds) {
      if (kinds_[place].kind == kind) return kinds_[place].number;
    }
    if (++used_ > kKinds / 2) return forget(), number(kind);
    kinds_[place] = {kind, next_++};
    return kinds_[place].number;
  }

  // By flow; null: not known. Valid until the next call.
  const double* find(std::span<const Number> flows) {
    if (flows.size() > kFlows) return nullptr;
    std::uint64_t sum = flows.size();
    for (const Number flow : flows) sum = (std::rotl(sum, 9) ^ flow) * 0x9e3779b97f4a7c15ull;
    at_ = &mixes_[sum >> (64 - kMixBits)];
    return at_->size == flows.size() && std::equal(flows.begin(), flows.end(), at_->flows.begin()) ? at_->rates.data() : nullptr;
  }
  // The rates of flows that were not found. Requires: no find() since then.
  void keep(std::span<const Number> flows, std::span<const double> rates) {
    if (flows.size() > kFlows) return;
    at_->size = flows.size();
    std::copy(flows.begin(), flows.end(), at_->flows.begin());
    std::copy(rates.begin(), rates.end(), at_->rates.begin());
  }

 private:
  static constexpr std::size_t kKinds = 4096;  // places
  static constexpr int kMixBits = 10;
  static constexpr std::size_t kMixes = std::size_t{1} << kMixBits;
  struct KnownKind {
    FlowKind kind;
    Number number = 0;
  };
  struct Mix {
    std::size_t size = 0;
    std::array<Number, kFlows> flows;
    std::array<double, kFlows> rates;
  };

  static std::uint64_t hash(const FlowKind& kind) {
    std::uint64_t sum = kind.port;
    for (const double each : {kind.demand, kind.written, kind.own, kind.read_wait, kind.write_wait}) {
      sum = (std::rotl(sum, 9) ^ std::bit_cast<std::uint64_t>(each)) * 0x9e3779b97f4a7c15ull;
    }
    return sum >> 32;
  }

  // Numbers that flows still have are never given to other kinds.
  void forget() {
    std::ranges::fill(kinds_, KnownKind{});
    for (Mix& mix : mixes_) mix.size = 0;
    used_ = 0;
  }

  std::vector<KnownKind> kinds_;
  std::vector<Mix> mixes_;
  Mix* at_ = nullptr;
  std::size_t used_ = 0;
  Number next_ = 1;
};

}  // namespace vitro::hw
