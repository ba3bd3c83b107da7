#include "engine/base/path.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace vitro {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Shipped : public testing::Test {
 protected:
  Shipped() : root_(fs::path(testing::TempDir()) / "shipped") {
    fs::create_directories(root_ / "configs" / "devices");
    fs::create_directories(root_ / "experiments");
    for (const char* name : {"configs/devices/phone.yaml", "configs/devices/other.json", "experiments/first.yaml"}) {
      std::ofstream(root_ / name) << "a: 1\n";
    }
    set_data_folder(root_.string());
  }
  ~Shipped() override {
    set_data_folder("");
    fs::remove_all(root_);
  }
  static std::string path(const std::string& text) {
    return shipped_path(text, {std::make_shared<const std::string>("e.yaml"), 3}, "device");
  }
  static std::string error(const std::string& text) {
    try {
      return "(no error) " + path(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
  fs::path root_;
};

TEST_F(Shipped, names_are_files_of_the_data_folder) {
  EXPECT_EQ(path("vitro:devices/phone"), root_ / "configs/devices/phone.yaml");
  EXPECT_EQ(path("vitro:devices/phone.yaml"), root_ / "configs/devices/phone.yaml");
  EXPECT_EQ(path("vitro:configs/devices/other.json"), root_ / "configs/devices/other.json");
  EXPECT_EQ(path("vitro:experiments/first"), root_ / "experiments/first.yaml");
  EXPECT_EQ(path("devices/phone"), "devices/phone") << "a path of the user's";
}

TEST_F(Shipped, what_is_not_there_is_named_with_its_place) {
  EXPECT_THAT(error("vitro:devices/none"), AllOf(HasSubstr("e.yaml:3: device: \"vitro:devices/none\" does not come with vitro"),
                                                 HasSubstr((root_ / "configs/devices/none").string())));
  for (const char* text : {"vitro:", "vitro:../secret", "vitro:devices/../../secret", "vitro:/etc/passwd"}) {
    EXPECT_THAT(error(text), HasSubstr("is no name of a file that comes with vitro")) << text;
  }
  set_data_folder("");
  EXPECT_THAT(error("vitro:devices/phone"), HasSubstr("nothing comes with this program (expected the path of a file)"));
}

TEST_F(Shipped, a_document_may_name_them) {
  const Node value = Node::scalar("vitro:devices/phone", {std::make_shared<const std::string>("/elsewhere/e.yaml"), 1}, true);
  EXPECT_EQ(path_named_by(value), root_ / "configs/devices/phone.yaml");
}

TEST(Path, those_behind_a_key_become_absolute_at_any_depth) {
  const Origin file{std::make_shared<const std::string>("/parts/phone.yaml"), 4};
  const Node block = Node::map({{"plugin", Node::scalar("build/a.so", file)}, {"rate", Node::scalar("4 GB/s", file)}}, file);
  const Node tree = Node::map({{"dram", block}, {"initiators", Node::map({{"display", block}}, file)}}, file);
  const Node absolute = with_absolute_paths(tree, "plugin");
  EXPECT_EQ(absolute.find_path("dram.plugin")->text(), "/parts/build/a.so");
  EXPECT_EQ(absolute.find_path("initiators.display.plugin")->text(), "/parts/build/a.so");
  EXPECT_EQ(absolute.find_path("initiators.display.rate")->text(), "4 GB/s");
}

}  // namespace
}  // namespace vitro
