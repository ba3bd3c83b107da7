#include "engine/base/path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace vitro {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShipped = "vitro:";
std::string data_folder;

bool names_path(const Node& tree, std::string_view key) {
  return std::ranges::any_of(tree.entries(), [key](const Node::Entry& entry) {
    const auto& [name, value] = entry;
    return (value.is_scalar() && name == key) || (value.is_map() && names_path(value, key));
  });
}

}  // namespace

void set_data_folder(std::string folder) { data_folder = std::move(folder); }

std::string shipped_path(const std::string& text, const Origin& origin, std::string_view name) {
  if (!text.starts_with(kShipped)) return text;
  const fs::path inside = fs::path(text.substr(kShipped.size())).lexically_normal();
  if (inside.empty() || inside.is_absolute() || *inside.begin() == "..") {
    fail_at(origin, name,
            fmt::format("\"{}\" is no name of a file that comes with vitro (expected such as vitro:devices/oneplus12)", text));
  }
  if (data_folder.empty()) {
    fail_at(origin, name, fmt::format("\"{}\": nothing comes with this program (expected the path of a file)", text));
  }
  const fs::path root(data_folder);
  const bool whole = *inside.begin() == "experiments" || *inside.begin() == "configs";
  fs::path path = (whole ? root : root / "configs") / inside;
  if (!fs::is_regular_file(path) && fs::is_regular_file(path.string() + ".yaml")) path += ".yaml";
  if (!fs::is_regular_file(path)) {
    fail_at(origin, name, fmt::format("\"{}\" does not come with vitro (looked for {}; `vitro list devices` and such name what does)",
                                      text, path.string()));
  }
  return path.string();
}

std::string path_named_by(const Node& value) {
  const fs::path document(value.origin().file ? *value.origin().file : std::string());
  const std::string text = shipped_path(value.text(), value.origin(), "");
  return fs::absolute(document.parent_path() / text).lexically_normal().string();  // of an absolute text, that alone
}

Node with_absolute_paths(const Node& tree, std::string_view key) {
  Node out = tree;
  if (!names_path(tree, key)) return out;
  for (const auto& [name, value] : tree.entries()) {
    if (value.is_map()) out.set(name, with_absolute_paths(value, key));
    if (value.is_scalar() && name == key) out.set(name, Node::scalar(path_named_by(value), value.origin(), true));
  }
  return out;
}

}  // namespace vitro
