#include "engine/base/out_of_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

namespace vitro {
namespace {

// Sanitizers have an allocator of their own, which asks nobody.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if !defined(__has_feature)
#define VITRO_OWN_ALLOCATOR 0
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VITRO_OWN_ALLOCATOR 1
#else
#define VITRO_OWN_ALLOCATOR 0
#endif
#else
#define VITRO_OWN_ALLOCATOR 1
#endif

TEST(OutOfMemoryDeathTest, ends_the_process_with_one_line_and_exit_code_1) {
  if (VITRO_OWN_ALLOCATOR) GTEST_SKIP() << "a sanitizer allocates";
  const auto take_all = [] {
    const rlimit limit{std::size_t{256} << 20, std::size_t{256} << 20};
    ::setrlimit(RLIMIT_AS, &limit);
    exit_when_memory_ends();
    std::vector<std::unique_ptr<char[]>> taken;
    for (;;) taken.push_back(std::make_unique<char[]>(std::size_t{1} << 20));
  };
  EXPECT_EXIT(take_all(), testing::ExitedWithCode(1), "^vitro: out of memory: ");
}

}  // namespace
}  // namespace vitro
