#include "composed.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/json_value.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// Takes the parser's events as they come: a tree of the JSON library in between would cost several times as much. `at` is the first key of
// each value, and `of` the last. Many values come from one file, whose name they share.
class Unpacker final : public Json::json_sax_t {
 public:
  Node take() { return std::move(root_); }

  bool null() override { return false; }
  bool boolean(bool value) override {
    if (!in_value()) return false;
    open_.back().quoted = value;
    return true;
  }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_value()) return false;
    open_.back().is_list = true;
    open_.back().items.reserve(std::min(value, kMostReserved));
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t& value) override {
    if (!in_value()) return false;
    Value& top = open_.back();
    if (field_ == "at") {
      top.origin = place(value, open_.size() > 1 ? open_[open_.size() - 2].origin : Origin{});
    } else if (field_ == "as") {
      top.written_as = std::move(value);
    } else {
      top.text = std::move(value);
    }
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override {
    if (!open_.empty() && open_.back().within) {
      open_.back().key = std::move(value);
    } else {
      field_ = std::move(value);
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (open_.empty() || open_.back().within) {
      open_.emplace_back();
    } else {
      open_.back().within = open_.back().is_map = true;  // its `of`
    }
    return true;
  }
  bool end_object() override {
    if (open_.back().within) {
      open_.back().within = false;
      return true;
    }
    Node made = node(std::move(open_.back()));
    open_.pop_back();
    if (open_.empty()) {
      root_ = std::move(made);
    } else if (Value& around = open_.back(); around.is_list) {
      around.items.push_back(std::move(made));
    } else {
      around.entries.emplace_back(std::move(around.key), std::move(made));
    }
    return true;
  }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw RunError("a composed experiment is damaged at byte " + std::to_string(position));
  }

 private:
  static constexpr number_unsigned_t kMostReserved = 1024;  // items, whatever a text says that there are

  // Whether a scalar is a field of the value at hand, not the whole text or in place of a node.
  bool in_value() const { return !open_.empty() && !open_.back().within; }
  struct Value {
    Origin origin;
    std::string written_as, key;  // key: of what comes next within it
    std::optional<std::string> text;
    bool quoted = false, is_list = false, is_map = false, within = false;
    std::vector<Node> items;
    std::vector<Node::Entry> entries;
  };

  static Node node(Value value) {
    Node made = value.text      ? Node::scalar(*std::move(value.text), value.origin, value.quoted)
                : value.is_list ? Node::list(std::move(value.items), value.origin)
                : value.is_map  ? Node::map(std::move(value.entries), value.origin)
                                : Node::null(value.origin);
    if (!value.written_as.empty()) made.set_written_as(std::move(value.written_as));
    return made;
  }

  Origin place(const std::string& text, const Origin& around) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos) return {};
    if (colon == 0) return {around.file, std::stoi(text.substr(1))};
    std::shared_ptr<const std::string>& file = files_[text.substr(0, colon)];
    if (!file) file = std::make_shared<const std::string>(text.substr(0, colon));
    return {file, std::stoi(text.substr(colon + 1))};
  }

  std::vector<Value> open_;  // the value at hand, and those around it
  std::string field_;        // of the value at hand
  Node root_;
  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

// around: the file of what holds the node.
void append_packed(std::string& out, const Node& node, const std::string* around) {
  const std::string* file = node.origin().file.get();
  const bool same = file && around && (file == around || *file == *around);
  out += R"({"at":)";
  append_json_string(out, same ? ":" + std::to_string(node.origin().line) : node.origin().str());
  if (!node.written_as().empty()) {
    out += R"(,"as":)";
    append_json_string(out, node.written_as());
  }
  if (node.is_scalar()) {
    out += R"(,"text":)";
    append_json_string(out, node.text());
    out += node.quoted() ? R"(,"quoted":true)" : R"(,"quoted":false)";
  } else if (!node.is_null()) {
    if (node.is_list()) out += R"(,"items":)" + std::to_string(node.items().size());
    out += R"(,"of":{)";
    const std::size_t first = out.size();
    const auto append = [&](std::string_view key, const Node& value) {
      if (out.size() != first) out += ',';
      append_json_string(out, key);
      out += ':';
      append_packed(out, value, file);
    };
    for (const auto& [key, value] : node.entries()) append(key, value);
    for (std::size_t i = 0; i < node.items().size(); ++i) append(std::to_string(i), node.items()[i]);
    out += '}';
  }
  out += '}';
}

}  // namespace

std::string packed_tree(const Node& node) {
  std::string out;
  append_packed(out, node, nullptr);
  return out;
}

Node unpacked_tree(std::string_view text) {
  Unpacker unpacker;
  if (!Json::sax_parse(text, &unpacker)) throw RunError("a composed experiment is damaged");
  return unpacker.take();
}

}  // namespace vitro
