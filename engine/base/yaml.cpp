#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "engine/base/config.hpp"
#include "engine/base/plain_yaml.hpp"
#include "engine/base/tree_builder.hpp"
#include "engine/base/utf8.hpp"

namespace vitro {
namespace {

constexpr std::size_t kMaxNesting = 256;  // of brackets in one document: the parser recurses

// Passes parser events on. An alias is a copy of what its anchor names, and counts like what it copies: so a small file that becomes a huge
// tree is refused before it has.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)), builder_(true) {}

  Node take() {
    Node node = builder_.take();
    return node.is_null() ? Node::null({file_, 1}) : node;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) fail_at(at(mark), "", "a second document begins here (expected one)");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(Node::null(at(mark)), mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail_at(at(mark), "", "an alias (*name) stands inside of what it names");
    builder_.place_copy(found->second, at(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    const bool quoted = tag == "!";
    if (!quoted && (value == "null" || value == "~")) return add(Node::null(at(mark)), mark, anchor);
    add(Node::scalar(value, at(mark), quoted), mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(false, mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(true, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  Origin at(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  void add(Node node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    builder_.place(std::move(node), at(mark));
  }
  void open(bool is_map, const YAML::Mark& mark, YAML::anchor_t anchor) {
    builder_.open(is_map, at(mark));
    open_anchors_.push_back(anchor);
  }
  void close() {
    const Node& closed = builder_.close();
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    if (anchor == 0) return;
    builder_.count_copy(closed, closed.origin());
    anchors_[anchor] = closed;
  }

  std::shared_ptr<const std::string> file_;
  TreeBuilder builder_;
  std::map<YAML::anchor_t, Node> anchors_;       // what has ended
  std::vector<YAML::anchor_t> open_anchors_;     // of the lists and maps that have not; 0: none
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

void require_readable(std::string_view text, std::string_view name) {
  require_utf8(text, name);
  bound_nesting(text, name);
}

bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::size_t first = text.find_first_not_of(' ');
  return first != std::string_view::npos && text[first] == '\t';
}

Node by_yaml_cpp(std::string_view text, std::string_view name) {
  Builder builder(name);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {}
  } catch (const YAML::Exception& error) {
    const bool tab = is_indented_by_tab(text, error.mark.line);
    throw ConfigError(fmt::format("{}:{}: not valid YAML: {}", name, error.mark.line + 1,
                                  tab ? "a tab indents this line (expected spaces)" : error.msg));
  }
  return builder.take();
}

}  // namespace

Node parse_yaml(std::string_view text, std::string_view name) {
  require_readable(text, name);
  std::optional<Node> plain = parse_plain_yaml(text, name);
  return plain ? *std::move(plain) : by_yaml_cpp(text, name);
}

Node parse_any_yaml(std::string_view text, std::string_view name) {
  require_readable(text, name);
  return by_yaml_cpp(text, name);
}

}  // namespace vitro
