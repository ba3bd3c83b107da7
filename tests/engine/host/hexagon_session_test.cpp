// Workers that die, hang or lie: noticed, replaced once, given up after that, and never believed.
#include "engine/host/hexagon_session.hpp"

#include <gmock/gmock.h>

#include "tests/engine/host/hexagon_faults.hpp"
#include "tests/engine/host/worker_ways.hpp"
#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

using hexagon::Kind;
using testing::Contains;
using testing::HasSubstr;

// A request whose result is its input, so that a wrong answer shows.
struct Bench {
  Bench(Way way, std::map<std::uint32_t, Fault> faults, bool stays_dead = false, int patience_ms = 5000) {
    auto transport = std::make_unique<FaultyTransport>(make_worker(way, 64 * MiB, 32 * MiB), std::move(faults), stays_dead);
    faulty = transport.get();
    HexagonLimits limits;
    limits.progress = std::chrono::milliseconds(patience_ms);
    session = std::make_unique<HexagonSession>(std::move(transport), limits);
  }

  // True when the bytes came back; false when there was no answer. Anything else fails the test.
  bool copy(std::uint32_t seed, std::uint32_t bytes = 1024) {
    std::vector<std::uint32_t> data(bytes / 4);
    for (auto& word : data) word = seed = seed * 1664525 + 1013904223;
    session->clear_scratch();
    hexagon::Operator op = hexagon_op(Kind::copy, bytes * 2);
    op.in[0] = session->scratch(bytes).value_or_throw();
    op.out_bytes = bytes;
    std::memcpy(session->at(op.in[0]), data.data(), bytes);
    const auto answer = session->run({op, op});
    if (!answer.ok()) {
      EXPECT_EQ(answer.status().code, Code::unit_lost);
      return false;
    }
    for (const auto& result : answer.value()) EXPECT_EQ(result, data);
    return true;
  }

  FaultyTransport* faulty = nullptr;
  std::unique_ptr<HexagonSession> session;
};

class OneFault : public testing::TestWithParam<std::tuple<Way, Fault>> {
 protected:
  static Way way() { return std::get<0>(GetParam()); }
  static Fault fault() { return std::get<1>(GetParam()); }
  static int patience() { return fault() == Fault::hang ? 2000 : 5000; }
};

TEST_P(OneFault, costs_a_restart_and_nothing_else) {
  VITRO_NEEDS_WAY(way());
  Bench bench(way(), {{2, fault()}}, false, patience());
  for (std::uint32_t i = 1; i <= 4; ++i) EXPECT_TRUE(bench.copy(i)) << i;
  EXPECT_EQ(bench.faulty->struck, 1);
  EXPECT_EQ(bench.faulty->starts, 2);
  EXPECT_TRUE(bench.session->usable());
  EXPECT_THAT(bench.session->notes(), Contains(HasSubstr("started again")));
}

TEST_P(OneFault, the_second_time_ends_the_worker) {
  VITRO_NEEDS_WAY(way());
  Bench bench(way(), {{2, fault()}, {3, fault()}}, false, patience());  // the repeated request fails as well
  EXPECT_TRUE(bench.copy(1));
  EXPECT_FALSE(bench.copy(2));
  EXPECT_FALSE(bench.copy(3));
  EXPECT_EQ(bench.faulty->struck, 2);
  EXPECT_EQ(bench.faulty->starts, 2);
  EXPECT_FALSE(bench.session->usable());
  EXPECT_THAT(bench.session->notes(), Contains(HasSubstr("was stopped")));
}

const auto kFaults = testing::Values(Fault::die, Fault::hang, Fault::corrupt_result, Fault::corrupt_sum, Fault::wrong_sequence);
INSTANTIATE_TEST_SUITE_P(all, OneFault, testing::Combine(testing::Values(Way::qemu, Way::fastrpc), kFaults));

class SessionBy : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(all, SessionBy, testing::Values(Way::qemu, Way::fastrpc), testing::PrintToStringParamName());

TEST_P(SessionBy, a_worker_may_die_within_an_operator) {
  VITRO_NEEDS_WAY(GetParam());
  Bench bench(GetParam(), {{2, Fault::die_computing}});
  EXPECT_TRUE(bench.copy(1));
  // Two operators: progress is seen after the first one.
  EXPECT_TRUE(bench.copy(2, 4 * 1024 * 1024));
  EXPECT_EQ(bench.faulty->struck, 1);
  EXPECT_EQ(bench.faulty->starts, bench.faulty->finished_first ? 1 : 2);
}

TEST_P(SessionBy, a_worker_that_does_not_come_back_is_given_up) {
  VITRO_NEEDS_WAY(GetParam());
  Bench bench(GetParam(), {{1, Fault::die}}, true);
  EXPECT_FALSE(bench.copy(1));
  EXPECT_FALSE(bench.session->usable());
  EXPECT_THAT(bench.session->notes(), Contains(HasSubstr("did not come back")));
}

TEST(HexagonSession, no_worker_program_is_the_users_mistake) {
  VITRO_NEEDS_HEXAGON();
  EXPECT_THROW(make_qemu_hexagon({"/nowhere/worker", {}, MiB, MiB}), ConfigError);
}

TEST(HexagonSession, a_program_that_is_no_worker_leaves_the_cpu) {
  VITRO_NEEDS_HEXAGON();
  HexagonSession session(make_qemu_hexagon({"/dev/null", {}, MiB, MiB}));
  EXPECT_FALSE(session.usable());
  EXPECT_THAT(session.notes(), Contains(HasSubstr("did not start")));
}

TEST_P(SessionBy, says_when_it_is_full) {
  VITRO_NEEDS_WAY(GetParam());
  Bench bench(GetParam(), {});
  EXPECT_TRUE(bench.session->place(32 * MiB).ok());
  EXPECT_EQ(bench.session->place(32 * MiB).status().code, Code::over_budget);
  EXPECT_EQ(bench.session->scratch(32 * MiB).status().code, Code::over_budget);
}

// The reader of executed packets, and what it reads: HVX packets of the kernel that ran, none of one that did not.
TEST(HexagonSession, counts_executed_packets_by_function) {
  VITRO_NEEDS_HEXAGON();
  Bench bench(Way::qemu, {});
  const auto packets_of = [&](const std::string& function) {
    for (const PacketCount& count : bench.session->transport().packets()) {
      if (count.function == function) return count;
    }
    return PacketCount{};
  };
  EXPECT_TRUE(bench.copy(1, 128 * 1024));
  const PacketCount once = packets_of("hvx_copy");
  EXPECT_GE(once.vector_packets, 2 * 1024u);  // two operators of 1024 vectors, a packet or two each
  EXPECT_LE(once.vector_packets, once.packets);
  EXPECT_LE(once.packets, 2 * 3 * 1024u);
  EXPECT_EQ(packets_of("hvx_exp").packets, 0u);
  EXPECT_TRUE(bench.copy(2, 128 * 1024));
  EXPECT_EQ(packets_of("hvx_copy").packets, 2 * once.packets);
}

}  // namespace
}  // namespace vitro::test
