#include "hw_models/plugin_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/hw_models/context.hpp"

namespace vitro::hw {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFolder = VITRO_PLUGIN_FOLDER;

Node device(const std::string& plugin) { return parse_yaml("name: phone\nplugins: [" + plugin + "]\n", kFolder + "/phone.yaml"); }

std::string refusal(const std::string& plugin) {
  try {
    models_for(device(plugin));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(loaded)";
}

class PluginTest : public ::testing::Test {
 protected:
  PluginTest() { ::unsetenv("VITRO_PLUGINS"); }
  ~PluginTest() override { ::unsetenv("VITRO_PLUGINS"); }
};

TEST_F(PluginTest, paths_start_at_the_file_that_names_them) {
  EXPECT_THAT(plugins_of(device("./a.so, sub/../b.so, /c.so")),
              ElementsAre(Field(&PluginRef::path, kFolder + "/a.so"), Field(&PluginRef::path, kFolder + "/b.so"),
                          Field(&PluginRef::path, "/c.so")));
}

TEST_F(PluginTest, values_of_no_file_start_at_the_working_directory) {
  const Node tree = parse_yaml("plugins: [a.so]", "--set device");
  EXPECT_THAT(plugins_of(tree), ElementsAre(Field(&PluginRef::path, (std::filesystem::current_path() / "a.so").string())));
}

TEST_F(PluginTest, those_of_the_environment_come_first_and_each_once) {
  ::setenv("VITRO_PLUGINS", ("/x.so::" + kFolder + "/a.so").c_str(), 1);
  EXPECT_THAT(plugins_of(device("a.so, b.so")), ElementsAre(Field(&PluginRef::path, "/x.so"), Field(&PluginRef::path, kFolder + "/a.so"),
                                                            Field(&PluginRef::path, kFolder + "/b.so")));
  EXPECT_THAT(plugins_of(device("b.so"), false), ElementsAre(Field(&PluginRef::path, kFolder + "/b.so")));
}

TEST_F(PluginTest, the_list_has_to_be_one_of_paths) {
  EXPECT_THROW(plugins_of(parse_yaml("plugins: a.so", "x.yaml")), ConfigError);
  EXPECT_THROW(plugins_of(parse_yaml("plugins: [{a: b}]", "x.yaml")), ConfigError);
}

TEST_F(PluginTest, a_model_of_a_plugin_keeps_its_law_and_outlives_its_registry) {
  TestContext context;
  std::unique_ptr<StorageModel> model;
  const Node block = parse_yaml("{model: constant_flash, issue: 3 us}", "phone.yaml");
  std::optional<Params> params;
  {
    const Registry registry = models_for(device("plugin_good.so"));
    Reader reader(block, "ufs");
    const Entry<StorageModel>& entry = registry.storage(reader, "ufs");
    params.emplace(reader, entry.params);
    reader.finish();
    model = entry.make({context, "ufs"}, *params);
  }
  EXPECT_EQ(model->issue_time({1e9}), 3 * kUs);
  Picoseconds done{0};
  model->submit({}, [&done, &context] { done = context.now(); });
  context.run();
  EXPECT_EQ(done, 6 * kUs);
}

TEST_F(PluginTest, tells_what_it_adds) {
  Registry registry = builtin_models();
  const Plugin plugin = load_plugin(registry, {kFolder + "/plugin_good.so", "plugin_good.so", "here"});
  EXPECT_EQ(plugin.name, "constant");
  EXPECT_THAT(plugin.models, ElementsAre(Field(&Registry::Row::name, "constant_flash.flow")));
}

// The faulty ones trap when their code runs, so nothing of them is used before the comparison.
TEST_F(PluginTest, other_versions_are_refused_with_both_versions) {
  EXPECT_THAT(refusal("plugin_abi.so"),
              AllOf(StartsWith(kFolder + "/phone.yaml:2: plugins: \"plugin_abi.so\" was built for plug-in ABI 999"),
                    HasSubstr("this vitro has plug-in ABI ")));
  EXPECT_THAT(refusal("plugin_library.so"), AllOf(HasSubstr("built for libfoo 3"), HasSubstr("this vitro uses lib")));
  EXPECT_THAT(refusal("plugin_contracts.so"), AllOf(HasSubstr("built for model contracts 0123456789ab"), HasSubstr("this vitro has ")));
  EXPECT_THAT(refusal("plugin_layout.so"), AllOf(HasSubstr("layout 0000000000000001"), HasSubstr("those of this vitro have ")));
}

TEST_F(PluginTest, what_is_no_plugin_is_refused) {
  EXPECT_THAT(refusal("missing.so"), AllOf(HasSubstr("\"missing.so\" is not a file (looked for " + kFolder + "/missing.so")));
  std::ofstream(kFolder + "/text.so") << "no shared object\n";
  EXPECT_THAT(refusal("text.so"), HasSubstr("\"text.so\" does not load: "));
  EXPECT_THAT(refusal("plugin_none.so"), HasSubstr("is a shared object, but not a plug-in"));
}

TEST_F(PluginTest, what_its_code_complains_about_reaches_the_user) {
  EXPECT_THAT(refusal("plugin_taken.so"), HasSubstr("\"plugin_taken.so\" a device model named \"ufs.flow\" is already registered"));
  EXPECT_THAT(refusal("plugin_throws.so"), HasSubstr("\"plugin_throws.so\" no licence for this flash"));
  EXPECT_THAT(refusal("plugin_incomplete.so"), HasSubstr("\"constant_flash.flow\" has no parameter \"link_bandwidth\""));
  EXPECT_THAT(refusal("plugin_good.so, plugin_again.so"), HasSubstr("\"constant_flash.flow\" is already registered"));
}

TEST_F(PluginTest, unknown_models_are_answered_with_the_known_ones) {
  const Registry registry = models_for(device("plugin_good.so"));
  const Node block = parse_yaml("{model: no_such}", "phone.yaml");
  Reader reader(block, "ufs");
  try {
    registry.storage(reader, "ufs");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"no_such.flow\""), HasSubstr("constant_flash.flow"), HasSubstr("ufs.flow")));
  }
}

}  // namespace
}  // namespace vitro::hw
