// One Hexagon worker in qemu for a test program, and operators run on it one by one.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <span>

#include "engine/base/rng.hpp"
#include "engine/host/hexagon_qemu.hpp"
#include "engine/host/hexagon_session.hpp"

#define VITRO_NEEDS_HEXAGON() \
  if (!have_qemu_hexagon()) GTEST_SKIP() << "needs clang-19, lld-19 and qemu-hexagon"

namespace vitro::test {

// Other processes may leave an emulator without a core for seconds. Tests of workers that hang have limits of their own.
inline const HexagonLimits kPatient{.start = std::chrono::seconds(60), .progress = std::chrono::seconds(60)};

class HexagonWorker {
 public:
  explicit HexagonWorker(std::unique_ptr<HexagonTransport> transport = make_qemu_hexagon({{}, {}, 64 * MiB, 16 * MiB}),
                         HexagonLimits limits = kPatient)
      : session_(std::move(transport), limits) {}

  template <class T>
  HexagonWorker& in(int operand, std::span<const T> data) {
    op_.in[operand] = session_.scratch(data.size_bytes()).value_or_throw();
    std::memcpy(session_.at(op_.in[operand]), data.data(), data.size_bytes());
    return *this;
  }
  template <class T>
  HexagonWorker& in(int operand, const std::vector<T>& data) {
    return in(operand, std::span<const T>(data));
  }

  // `out` results of T. Throws RunError when the worker refuses the operator.
  template <class T>
  std::vector<T> run(hexagon::Operator op, std::size_t out) {
    std::copy(std::begin(op_.in), std::end(op_.in), op.in);
    op.out_bytes = static_cast<std::uint32_t>(out * sizeof(T));
    const auto words = session_.run({op}).value_or_throw()[0];
    session_.clear_scratch();
    op_ = {};
    std::vector<T> result(out);
    std::memcpy(result.data(), words.data(), out * sizeof(T));
    return result;
  }

  HexagonSession& session() { return session_; }

 private:
  HexagonSession session_;
  hexagon::Operator op_{};
};

inline hexagon::Operator hexagon_op(hexagon::Kind kind, std::uint32_t rows, std::uint32_t columns = 0, std::uint32_t batch = 1) {
  hexagon::Operator op{};
  op.kind = kind;
  op.rows = rows;
  op.columns = columns;
  op.batch = batch;
  return op;
}

inline std::vector<std::uint8_t> draw_codes(Rng& rng, std::size_t n, unsigned bits) {
  std::vector<std::uint8_t> q(n);
  for (auto& code : q) code = static_cast<std::uint8_t>(rng.below(1u << bits));
  return q;
}

// int8 activations, extremes among them.
inline std::vector<std::int8_t> draw_quants(Rng& rng, std::size_t n) {
  std::vector<std::int8_t> x(n);
  for (auto& quant : x) {
    const auto drawn = static_cast<std::int32_t>(rng.below(255)) - 127;
    quant = static_cast<std::int8_t>(rng.below(16) == 0 ? (drawn < 0 ? -127 : 127) : drawn);
  }
  return x;
}

}  // namespace vitro::test
