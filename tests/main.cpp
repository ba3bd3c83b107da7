// Our own main for every test binary: libsystemc brings one that would run no test and exit 0. An empty run fails here.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/source_path.hpp"

extern "C" __attribute__((visibility("default"))) int sc_main(int, char**) { return 1; }

#ifdef __has_feature
#if __has_feature(address_sanitizer)
// PoCL compiles kernels on first use and keeps what its LLVM allocated for a thread that has ended. spawn_abandoned: a test of
// a simulation that an error ends, whose tasks are not resumed.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpocl\nleak:libLLVM\nleak:spawn_abandoned\n"; }
#endif
#endif

std::string vitro::test::source_path(std::string_view inside) { return VITRO_SOURCE_DIR "/" + std::string(inside); }

namespace {

// A folder of reports gets one for each entry of CTest: NAME.1.xml beside NAME.xml where a LONG test runs as two.
void name_report(std::string_view program) {
  const char* shard = std::getenv("GTEST_SHARD_INDEX");
  const std::string output = GTEST_FLAG_GET(output);
  if (!shard || std::string_view(shard) == "0" || !output.starts_with("xml:") || !output.ends_with('/')) return;
  GTEST_FLAG_SET(output, output + std::string(program.substr(program.find_last_of('/') + 1)) + "." + shard + ".xml");
}

}  // namespace

int main(int argc, char** argv) {
  name_report(argv[0]);  // before the reports are opened
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->total_test_count() == 0) {
    std::fputs("no test was registered\n", stderr);
    return 1;
  }
  return failed;
}
