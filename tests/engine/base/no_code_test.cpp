#include "engine/base/no_code.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace vitro {
namespace {

class NoCode : public testing::Test {
 protected:
  void SetUp() override { ::unsetenv("VITRO_PLUGINS"), ::setenv("VITRO_NO_CODE", "1", 1); }
  void TearDown() override { ::unsetenv("VITRO_PLUGINS"), ::unsetenv("VITRO_NO_CODE"); }

  static std::string refusal(const char* text) {
    try {
      refuse_code_in(parse_yaml(text, "exp.yaml"));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

constexpr const char* kPlugins = "experiment: e\ndevice:\n  plugins:\n    - ./a.so\n";

TEST_F(NoCode, is_said_by_the_environment) {
  EXPECT_TRUE(code_refused());
  ::setenv("VITRO_NO_CODE", "0", 1);
  EXPECT_FALSE(code_refused());
  ::setenv("VITRO_NO_CODE", "", 1);
  EXPECT_FALSE(code_refused());
  ::unsetenv("VITRO_NO_CODE");
  EXPECT_FALSE(code_refused());
  EXPECT_EQ(refusal(kPlugins), "");
  EXPECT_NO_THROW(refuse_code("here", "a.so"));
}

TEST_F(NoCode, names_file_line_key_and_value) {
  EXPECT_EQ(refusal(kPlugins), "exp.yaml:4: device.plugins: \"./a.so\" is code, which --no-code (VITRO_NO_CODE) refuses (expected an "
                               "experiment that brings none)");
  EXPECT_EQ(refusal("device:\n  initiators:\n    display: {rate: 4, plugin: b.so}\n").find("exp.yaml:3: device.initiators.display.plugin: "
                                                                                         "\"b.so\" is code"), 0u);
  EXPECT_EQ(refusal("engine: {plugins: [{a: b}]}\n").find("exp.yaml:1: engine.plugins: \"{\"a\":\"b\"}\" is code"), 0u)
      << "whatever it is, it is not data: " << refusal("engine: {plugins: [{a: b}]}\n");
  EXPECT_EQ(refusal("engine: {rules: [{plugin: c.so}]}\n").find("exp.yaml:1: engine.rules.plugin: \"c.so\" is code"), 0u);
}

TEST_F(NoCode, lets_data_through) {
  EXPECT_EQ(refusal("experiment: plugins\nplugins: []\ndevice: {plugins: , name: plugin}\nworkload: {prompt: plugins}\n"), "");
}

TEST_F(NoCode, holds_for_the_environment_as_well) {
  ::setenv("VITRO_PLUGINS", "/tmp/x.so", 1);
  EXPECT_EQ(refusal("experiment: e\n").find("--plugin or VITRO_PLUGINS: \"/tmp/x.so\" is code"), 0u);
}

}  // namespace
}  // namespace vitro
