// Memory of the process runs out at one allocation after the other: the process says so in one line, and ends with exit code 1.
#include <pthread.h>

#include <cstdlib>
#include <new>

#include "engine/base/out_of_memory.hpp"
#include "engine/base/rng.hpp"
#include "tests/effort.hpp"
#include "tests/engine/torture/bench.hpp"
#include "tests/engine/torture/failing_allocations.hpp"

namespace vitro::test {

bool counts = false;
std::uint64_t allocations = 0, failing = kNone;

}  // namespace vitro::test

namespace {

using vitro::test::allocations, vitro::test::counts, vitro::test::failing;

void* allocate(std::size_t size) {
  if (counts && allocations++ == failing) {
    if (const std::new_handler handler = std::get_new_handler()) handler();
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace vitro {
namespace {

using test::allocations, test::counts, test::failing;

TEST(Allocation, that_fails_ends_the_process_with_one_line) {
  ::pthread_atfork(nullptr, nullptr, [] {
    exit_when_memory_ends();
    counts = true, allocations = 0;
  });
  const ScratchFolder folder;
  const TortureOptions options = test::options_in(folder);
  std::uint64_t begin = 0;
  for (const test::Named& configuration : test::configurations()) {
    Subject subject = subject_of(test::case_of(configuration), options);
    const Observation expected = observe(subject);
    counts = true, allocations = 0;
    observe(subject);
    counts = false;
    const std::uint64_t all = allocations;
    std::vector<std::uint64_t> chosen;
    const std::uint64_t stride = test::all_or_few<std::uint64_t>(4, 100);
    for (std::uint64_t n = begin++ % stride; n < 1000; n += stride) chosen.push_back(n);  // start is much the same in all configurations
    Rng rng(1);
    for (std::uint64_t n = 1000; n < all; n += 100 * stride) chosen.push_back(n + rng.below(100));
    std::size_t ended = 0;
    for (const std::uint64_t n : chosen) {
      failing = n;
      const Observation seen = isolated(subject, 60);
      failing = test::kNone;
      const std::string what = configuration.name + (": allocation " + std::to_string(n)) + " of " + std::to_string(all);
      if (seen.end == Observation::End::tokens) {  // the child makes fewer than were counted here
        EXPECT_GT(n, all / 2) << what;
        EXPECT_EQ(violation(expected, seen), "") << what << ", which is beyond the last";
      } else {
        ++ended;
        EXPECT_EQ(to_string(seen.end), "died") << what << ": " << seen.error;
        EXPECT_EQ(seen.error.find("exit 1: vitro: out of memory: "), 0u) << what << ": " << seen.error;
      }
    }
    EXPECT_GT(ended, chosen.size() / 2) << configuration.name;
    EXPECT_EQ(observe(subject).tokens, expected.tokens) << configuration.name << ": what is on disk is whole";
  }
}

}  // namespace
}  // namespace vitro
