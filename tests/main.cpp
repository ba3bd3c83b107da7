// Our own main for every test binary: libsystemc brings one that would run no test and exit 0. An empty run fails here.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/source_path.hpp"

extern "C" __attribute__((visibility("default"))) int sc_main(int, char**) { return 1; }

#ifdef __has_feature
#if __has_feature(address_sanitizer)
// PoCL compiles kernels on first use and keeps what its LLVM allocated for a thread that has ended.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpocl\nleak:libLLVM\n"; }
#endif
#endif

std::string vitro::test::source_path(std::string_view inside) { return VITRO_SOURCE_DIR "/" + std::string(inside); }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->total_test_count() == 0) {
    std::fputs("no test was registered\n", stderr);
    return 1;
  }
  return failed;
}
