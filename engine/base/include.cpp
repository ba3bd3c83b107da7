// load_yaml(): a YAML file with its `include:` keys followed (docs/reference/devices.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "engine/base/config.hpp"
#include "engine/base/file.hpp"
#include "engine/base/path.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDepth = 32;   // of files within files: reading recurses
constexpr std::size_t kMaxFiles = 256;  // of one tree: files that include others twice over grow like powers of two

// A value with its provenance, or a table with one for all its numbers: half of one beside half of another would name the
// wrong source.
bool is_sourced(const Node& node) { return node.find("kind") != nullptr || node.find("value") != nullptr; }

void merge(Node& under, const Node& over) {
  for (const auto& [key, value] : over.entries()) {
    const Node* old = under.find(key);
    const bool deep = old != nullptr && old->is_map() && value.is_map() && !is_sourced(*old) && !is_sourced(value);
    Node merged = deep ? *old : value;
    if (deep) merge(merged, value);
    under.set(key, std::move(merged));
  }
}

// Thousands of experiments of a sweep are put together from the same files: each text is parsed once in a process.
class ParsedFiles {
 public:
  Node parse(const std::string& path) {
    std::string text = read_text(path);
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(path); found != files_.end() && found->second.text == text) return found->second.node;
    Node node = parse_yaml(text, path);
    if (files_.size() >= kMaxKept) files_.clear();
    if (text.size() <= kMaxText) files_.insert_or_assign(path, File{std::move(text), node});
    return node;
  }

 private:
  static constexpr std::size_t kMaxKept = 64, kMaxText = 256 * KiB;  // some 100 MiB of trees at most

  struct File {
    std::string text;
    Node node;
  };
  std::mutex mutex_;
  std::map<std::string, File> files_;
};

Node parsed_file(const std::string& path) {
  static ParsedFiles files;
  return files.parse(path);
}

bool has_include(const Node& node) {
  const auto is_or_has = [](const Node::Entry& entry) { return entry.first == "include" || has_include(entry.second); };
  return std::ranges::any_of(node.items(), has_include) || std::ranges::any_of(node.entries(), is_or_has);
}

class Loader {
 public:
  Node load(const std::string& path) {
    chain_.push_back(path);
    Node node = expand(parsed_file(path), fs::path(path).parent_path(), "");
    chain_.pop_back();
    return node;
  }

 private:
  Node expand(const Node& node, const fs::path& folder, const std::string& name) {
    if (!has_include(node)) return node;
    if (node.is_list()) {
      std::vector<Node> items;
      for (const Node& item : node.items()) items.push_back(expand(item, folder, name));
      return Node::list(std::move(items), node.origin());
    }
    Node out = Node::map({}, node.origin());
    std::vector<Node::Entry> own;
    for (const auto& [key, value] : node.entries()) {
      const std::string dotted = name.empty() ? key : fmt::format("{}.{}", name, key);
      if (key == "include") {
        include(out, value, folder, dotted);
      } else {
        own.emplace_back(key, expand(value, folder, dotted));
      }
    }
    Node mine = Node::map(std::move(own), node.origin());
    if (out.entries().empty()) return mine;
    merge(out, mine);
    return out;
  }

  void include(Node& out, const Node& what, const fs::path& folder, const std::string& name) {
    const auto add = [&](const Node& file) {
      if (!file.is_scalar()) fail_at(what.origin(), name, "is not a file name (expected base.yaml, or [first.yaml, second.yaml])");
      merge(out, included(file, folder, name));
    };
    if (!what.is_list()) return add(what);
    for (const Node& file : what.items()) add(file);
  }

  Node included(const Node& file, const fs::path& folder, const std::string& name) {
    const std::string path = (folder / shipped_path(file.text(), file.origin(), name)).lexically_normal().string();
    if (!fs::is_regular_file(path)) {
      fail_at(file.origin(), name,
              fmt::format("\"{}\" is not a file (looked for {}; paths start at the file that names them)", file.text(), path));
    }
    const auto same = [&](const std::string& open) { return fs::equivalent(open, path); };
    if (std::any_of(chain_.begin(), chain_.end(), same)) {
      fail_at(file.origin(), name, fmt::format("\"{}\" includes itself ({} -> {})", file.text(), fmt::join(chain_, " -> "), path));
    }
    if (chain_.size() >= kMaxDepth) fail_at(file.origin(), name, fmt::format("\"{}\" is more than {} files deep", file.text(), kMaxDepth));
    if (++files_ > kMaxFiles) fail_at(file.origin(), name, fmt::format("\"{}\" is one of more than {} files", file.text(), kMaxFiles));
    Node node = load(path);
    if (!node.is_map()) fail_at(file.origin(), name, fmt::format("\"{}\" holds no map of keys (expected `key: value` lines)", file.text()));
    return node;
  }

  std::vector<std::string> chain_;  // files that are being read, the outermost first
  std::size_t files_ = 0;
};

}  // namespace

Node load_yaml(const std::string& path) { return Loader().load(path); }

}  // namespace vitro
