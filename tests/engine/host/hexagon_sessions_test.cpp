// Memory in sessions: leased and given back, zeroed, in as many sessions as there may be, and the worker can not write it.
#include "engine/host/hexagon_sessions.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/engine/kernels/hexagon/worker.hpp"

namespace vitro::test {
namespace {

constexpr Bytes kRoom = 4 * MiB - 4 * MiB / 8 - hexagon::kArenaStart;  // of a session

HexagonSessions sessions_of(std::uint32_t most) { return {[] { return make_qemu_hexagon({{}, {}, 4 * MiB, MiB}); }, {}, most}; }

TEST(HexagonSessions, room_that_is_given_back_is_whole_and_zeroed) {
  VITRO_NEEDS_HEXAGON();
  HexagonSessions sessions = sessions_of(1);
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<std::byte*, Bytes>> taken;
    for (Bytes left = kRoom; left > 0; left -= taken.back().second) {
      const Bytes size = std::min<Bytes>(left, (1 + rng.below(200)) * kPageSize);
      taken.emplace_back(sessions.take(size).value_or_throw(), size);
      for (Bytes i = 0; i < size; i += 512) ASSERT_EQ(taken.back().first[i], std::byte{0}) << round;
      std::memset(taken.back().first, 7, size);
    }
    EXPECT_EQ(sessions.take(kPageSize).status().code, Code::over_budget);
    while (!taken.empty()) {  // in any order
      std::swap(taken[rng.below(taken.size())], taken.back());
      sessions.give_back(taken.back().first, taken.back().second);
      taken.pop_back();
    }
  }
}

TEST(HexagonSessions, another_one_opens_when_one_is_full_and_a_lease_is_found_where_it_lies) {
  VITRO_NEEDS_HEXAGON();
  HexagonSessions sessions = sessions_of(2);
  std::byte *first = sessions.take(3 * MiB).value_or_throw(), *second = sessions.take(3 * MiB).value_or_throw();
  EXPECT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions.take(3 * MiB).status().code, Code::over_budget);
  EXPECT_EQ(sessions.take(8 * MiB).status().code, Code::over_budget);  // more than an empty one holds
  EXPECT_EQ(sessions.find(first, 3 * MiB)->session, 0u);
  EXPECT_EQ(sessions.find(second + 100, 5)->session, 1u);
  EXPECT_EQ(sessions[1].at(sessions.find(second + 100, 5)->at), second + 100);
  std::vector<std::byte> own(100);
  EXPECT_FALSE(sessions.find(own.data(), own.size()));
  EXPECT_FALSE(sessions.find(second, 4 * MiB)) << "its end is outside";
}

// By the worker's own page tables: what it reads of the CPU's it has no right to write.
TEST(HexagonSessions, a_worker_has_the_memory_read_only) {
  VITRO_NEEDS_HEXAGON();
  HexagonSessions sessions = sessions_of(1);
  std::ifstream maps("/proc/" + std::to_string(sessions[0].transport().process()) + "/maps");
  int inbound = 0, outbound = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool writes = line.find(" rw") != std::string::npos || line.find(" -w") != std::string::npos;
    if (line.find("vitro-hexagon-in") != std::string::npos) {
      ++inbound;
      EXPECT_FALSE(writes) << line;
    }
    outbound += line.find("vitro-hexagon-out") != std::string::npos && writes;
  }
  EXPECT_GT(inbound, 0);
  EXPECT_GT(outbound, 0);
}

}  // namespace
}  // namespace vitro::test
