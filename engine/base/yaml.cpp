#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "engine/base/config.hpp"
#include "engine/base/tree_builder.hpp"
#include "engine/base/utf8.hpp"

namespace vitro {
namespace {

constexpr std::size_t kMaxNesting = 256;  // of brackets in one document: the parser recurses

// Passes parser events on. Aliases are refused: nobody needs them here, and they are how a small file becomes a huge tree.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)) {}

  Node take() {
    Node node = builder_.take();
    return node.is_null() ? Node::null({file_, 1}) : node;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) fail_at(at(mark), "", "a second document begins here (expected one)");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(Node::null(at(mark)), mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail_at(at(mark), "", "aliases (*name) are not supported"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    const bool quoted = tag == "!";
    if (!quoted && (value == "null" || value == "~")) return add(Node::null(at(mark)), mark);
    add(Node::scalar(value, at(mark), quoted), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    builder_.open(false, at(mark));
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    builder_.open(true, at(mark));
  }
  void OnSequenceEnd() override { builder_.close(); }
  void OnMapEnd() override { builder_.close(); }

 private:
  Origin at(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  void add(Node node, const YAML::Mark& mark) { builder_.place(std::move(node), at(mark)); }

  std::shared_ptr<const std::string> file_;
  TreeBuilder builder_;
  bool started_ = false;
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

// Values go into messages and results, which are UTF-8.
void require_utf8(std::string_view text, std::string_view name) {
  int line = 1;
  while (!text.empty()) {
    const Utf8Symbol symbol = front_symbol(text);
    if (symbol.code_point < 0) throw ConfigError(fmt::format("{}:{}: is not UTF-8 text", name, line));
    line += text.front() == '\n';
    text.remove_prefix(symbol.length);
  }
}

}  // namespace

Node parse_yaml(std::string_view text, std::string_view name) {
  require_utf8(text, name);
  bound_nesting(text, name);
  Builder builder(name);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {}
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}:{}: not valid YAML: {}", name, error.mark.line + 1, error.msg));
  }
  return builder.take();
}

}  // namespace vitro
