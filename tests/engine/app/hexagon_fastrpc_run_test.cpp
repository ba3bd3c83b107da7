// Whole runs with the products behind FastRPC, on the emulated phone: the CPU's tokens, whatever happens in the middle of one.
#include <gmock/gmock.h>

#include "tests/engine/app/hexagon_run_kit.hpp"

namespace vitro::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(HexagonRun, behind_fastrpc_has_the_tokens_of_the_cpu_whatever_becomes_of_the_worker) {
  VITRO_NEEDS_WAY(Way::fastrpc);
  way_ = Way::fastrpc;
  const Json expected = run("cpu0", "q8_0")["tokens"];
  ASSERT_EQ(expected.size(), kTokens);
  const Json whole = run("hexagon", "q8_0"), again = run("hexagon", "q8_0", {{kStruck, Fault::die}});
  const Json lost = run("hexagon", "q8_0", {{kStruck, Fault::die}, {kStruck + 1, Fault::corrupt_result}});
  for (const Json& result : {whole, again, lost}) {
    EXPECT_EQ(result["tokens"], expected);
    EXPECT_THAT(result["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("hexagon: FastRPC (")));
  }
  EXPECT_EQ(whole["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_EQ(whole["notes"].dump().find("started again"), std::string::npos);
  EXPECT_EQ(again["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_THAT(again["notes"].get<std::vector<std::string>>(),
              Contains(HasSubstr("started again: the worker died: its invocation returned error 0x68")));
  EXPECT_LT(lost["counts"]["hexagon_operators"], kTokens * 4 * 7);
  EXPECT_THAT(lost["notes"].get<std::vector<std::string>>(), Contains(HasSubstr("was stopped")));
}

}  // namespace
}  // namespace vitro::test
