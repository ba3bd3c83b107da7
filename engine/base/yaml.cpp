#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "engine/base/config.hpp"
#include "engine/base/file.hpp"

namespace vitro {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxNodes = 1'000'000;
constexpr std::size_t kMaxNesting = 256;  // of brackets in one document: the parser recurses

// Builds our tree from parser events. Aliases are refused: nobody needs them here, and they are how a small file
// becomes a huge tree.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(Node(), mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail_at(at(mark), "", "aliases (*name) are not supported"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    const bool quoted = tag == "!";
    if (!quoted && (value == "null" || value == "~")) return add(Node(), mark);
    add(Node::scalar(value, at(mark), quoted), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override { open(false, mark); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override { open(true, mark); }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    bool is_map;
    Origin origin;
    std::vector<Node> items;
    std::vector<Node::Entry> entries;
    std::optional<std::string> key;
  };

  Origin at(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  void open(bool is_map, const YAML::Mark& mark) {
    if (stack_.size() >= kMaxDepth) fail_at(at(mark), "", fmt::format("nested deeper than {} levels", kMaxDepth));
    if (!stack_.empty() && stack_.back().is_map && !stack_.back().key) fail_at(at(mark), "", "a key has to be plain text");
    stack_.push_back({is_map, at(mark), {}, {}, {}});
  }

  void close() {
    Open top = std::move(stack_.back());
    stack_.pop_back();
    Node node = top.is_map ? Node::map(std::move(top.entries), top.origin) : Node::list(std::move(top.items), top.origin);
    place(std::move(node), top.origin);
  }

  void add(Node node, const YAML::Mark& mark) { place(std::move(node), at(mark)); }

  void place(Node node, const Origin& origin) {
    if (++count_ > kMaxNodes) fail_at(origin, "", fmt::format("more than {} values", kMaxNodes));
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    if (!top.is_map) {
      top.items.push_back(std::move(node));
    } else if (!top.key) {
      if (!node.is_scalar()) fail_at(origin, "", "a key has to be plain text");
      for (const auto& [name, value] : top.entries) {
        if (name == node.text()) fail_at(origin, name, fmt::format("given twice (first on line {})", value.origin().line));
      }
      top.key = node.text();
    } else {
      top.entries.emplace_back(std::move(*top.key), std::move(node));
      top.key.reset();
    }
  }

  std::shared_ptr<const std::string> file_;
  std::vector<Open> stack_;
  std::size_t count_ = 0;
  Node root_;
};

void bound_nesting(std::string_view text, std::string_view name) {
  std::size_t brackets = 0, dashes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    // "- - - - x" and "? ? ? x" open a level per mark on one line.
    dashes = c == '-' || c == '?' || c == ':' ? dashes + 1 : (c == ' ' ? dashes : 0);
    if (brackets > kMaxNesting || dashes > kMaxNesting) {
      throw ConfigError(fmt::format("{}: nested deeper than {} levels", name, kMaxNesting));
    }
  }
}

}  // namespace

Node parse_yaml(std::string_view text, std::string_view name) {
  bound_nesting(text, name);
  Builder builder(name);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}:{}: not valid YAML: {}", name, error.mark.line + 1, error.msg));
  }
  return builder.take();
}

Node load_yaml(const std::string& path) { return parse_yaml(read_text(path), path); }

}  // namespace vitro
