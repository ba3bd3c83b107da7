#include "engine/parts/ffn/neuron_cluster/landing_buffer.hpp"

#include <gtest/gtest.h>

#include "engine/base/rng.hpp"
#include "engine/machine/task_scope.hpp"
#include "engine/virtual/virtual_machine.hpp"

namespace vitro {
namespace {

struct Guests {
  LandingBuffer* room;
  VirtualExecutor* executor;
  std::vector<bool> taken;  // pages
  std::uint32_t served = 0;
};

Task<void> stay(Guests* guests, Bytes bytes, Picoseconds time) {
  std::optional<Bytes> free = guests->room->try_take(bytes);
  for (; !free; free = guests->room->try_take(bytes)) co_await guests->room->freed();
  const Bytes offset = *free;
  EXPECT_EQ(offset % kPageSize, 0u);
  EXPECT_LE(offset + bytes, guests->room->size());
  for (Bytes at = offset; at < offset + bytes; at += kPageSize) {
    EXPECT_FALSE(guests->taken[at / kPageSize]) << "two reads at one place";
    guests->taken[at / kPageSize] = true;
  }
  co_await sleep_until(*guests->executor, guests->executor->now() + time);
  for (Bytes at = offset; at < offset + bytes; at += kPageSize) guests->taken[at / kPageSize] = false;
  guests->room->give_back(offset, bytes);
  ++guests->served;
}

Task<void> all(Guests* guests, std::uint64_t seed) {
  Rng rng(seed);
  TaskScope scope(*guests->executor);
  for (int i = 0; i < 200; ++i) {
    const Bytes most = rng.below(2) == 0 ? guests->room->size() : 5000;
    scope.spawn(stay(guests, 1 + rng.below(most), Picoseconds(static_cast<std::int64_t>(rng.below(50)))));
  }
  co_await scope.join();
}

TEST(LandingBuffer, serves_every_read_and_no_two_at_one_place) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualExecutor executor(seed);
    LandingBuffer room(executor, 64 * KiB + 100);
    EXPECT_EQ(room.size(), 64 * KiB);
    Guests guests{&room, &executor, std::vector<bool>(16), 0};
    Task<void> task = all(&guests, seed);
    executor.run(task);
    EXPECT_EQ(guests.served, 200u);
    Task<void> last = stay(&guests, room.size(), Picoseconds(1));  // in one piece again
    executor.run(last);
    EXPECT_EQ(guests.served, 201u);
  }
}

TEST(LandingBuffer, reads_that_wait_for_one_another_have_all_that_is_left_when_others_have_gone) {
  VirtualExecutor executor;
  LandingBuffer room(executor, 8 * kPageSize);
  EXPECT_EQ(room.try_take_highest(kPageSize), 7 * kPageSize);
  EXPECT_EQ(room.try_take_lowest(3 * kPageSize), Bytes{0});
  EXPECT_EQ(room.try_take_highest(2 * kPageSize), 5 * kPageSize);
  EXPECT_EQ(room.try_take_lowest(3 * kPageSize), std::nullopt);
  room.give_back(7 * kPageSize, kPageSize);
  EXPECT_EQ(room.try_take_lowest(1), 3 * kPageSize) << "there, though the highest hole has room, too";
  EXPECT_EQ(room.try_take_lowest(2 * kPageSize), std::nullopt);
  room.give_back(5 * kPageSize, 2 * kPageSize);
  EXPECT_EQ(room.try_take_lowest(4 * kPageSize), 4 * kPageSize);
  EXPECT_EQ(room.try_take_lowest(1), std::nullopt);
  EXPECT_EQ(room.try_take_highest(1), std::nullopt);
}

// Where others had filled the room before the wave, in any order of their going.
TEST(LandingBuffer, a_wave_as_large_as_the_room_finds_it_whatever_filled_it_before) {
  constexpr Bytes kPages = 16;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    VirtualExecutor executor;
    LandingBuffer room(executor, kPages * kPageSize);
    Rng rng(seed);
    std::vector<std::pair<Bytes, Bytes>> passing;
    for (Bytes pages = 1 + rng.below(4); std::optional<Bytes> at = room.try_take_highest(pages * kPageSize); pages = 1 + rng.below(4)) {
      passing.emplace_back(*at, pages * kPageSize);
    }
    std::vector<Bytes> wave;
    for (Bytes left = kPages; left > 0; left -= wave.back()) wave.push_back(std::min(left, 1 + rng.below(3)));
    const auto place = [&] {
      for (std::size_t i = 0; i < wave.size();) {
        if (room.try_take_lowest(wave[i] * kPageSize)) {
          wave.erase(wave.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          ++i;
        }
      }
    };
    for (place(); !passing.empty(); place()) {
      const auto next = passing.begin() + static_cast<std::ptrdiff_t>(rng.below(passing.size()));
      room.give_back(next->first, next->second);
      passing.erase(next);
    }
    EXPECT_TRUE(wave.empty()) << "seed " << seed << ": " << wave.size() << " reads wait forever";
  }
}

}  // namespace
}  // namespace vitro
