#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/config.hpp"
#include "engine/base/file.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/tree_builder.hpp"
#include "engine/base/utf8.hpp"

namespace vitro {
namespace {

using Json = nlohmann::ordered_json;

// Counts what the parser has consumed: the only way to learn on which line it is.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* consumed) : at_(at), consumed_(consumed) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*consumed_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* consumed_;
};

// Events of nlohmann's parser, which keeps its own stack on the heap: depth is bounded by the builder.
class Events final : public Json::json_sax_t {
 public:
  Events(std::string_view text, std::string_view name) : text_(text), file_(std::make_shared<const std::string>(name)) {}

  std::size_t consumed = 0;
  Node take() { return builder_.take(); }

  bool null() override { return place(Node(), at()); }
  bool boolean(bool value) override { return place(Node::scalar(value ? "true" : "false", at()), at()); }
  bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return number(text); }
  bool string(string_t& value) override { return place(Node::scalar(value, at(), true), at()); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override { return place(Node::scalar(value, at(), true), at()); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail_at(at(position), "", fmt::format("not valid JSON at byte {}", position));
  }

 private:
  // The line of the last character before `end`.
  Origin at(std::size_t end) {
    end = std::min(end, text_.size());
    if (end < counted_to_) counted_to_ = 0, line_ = 1;
    const std::size_t last = std::max<std::size_t>(end, 1) - 1;
    if (last > counted_to_) {
      const std::string_view passed = text_.substr(counted_to_, last - counted_to_);
      line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
      counted_to_ = last;
    }
    return {file_, line_};
  }
  Origin at() { return at(consumed); }

  bool place(Node node, const Origin& origin) {
    builder_.place(std::move(node), origin);
    return true;
  }
  // A number ends where something else begins, so the parser has read one character too many.
  bool number(std::string text) {
    const Origin origin = at(consumed > 1 ? consumed - 1 : consumed);
    return place(Node::scalar(std::move(text), origin), origin);
  }
  bool open(bool is_map) {
    builder_.open(is_map, at());
    return true;
  }
  bool close() {
    builder_.close();
    return true;
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  std::size_t counted_to_ = 0;
  int line_ = 1;
  TreeBuilder builder_;
};

// Whether a text might be a number, a boolean or null in JSON: most scalars are neither, and need no parser to see it.
bool may_be_literal(const std::string& text) {
  constexpr std::string_view kFirst = "-0123456789tfn \t\r\n\xef";  // blanks and a byte order mark are passed over
  return !text.empty() && kFirst.find(text.front()) != kFirst.npos;
}

// Digits that a parser would read as an integer and print alike.
bool is_plain_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 18 && text.front() != '0' && std::ranges::all_of(text, is_digit);
}

// What Json::dump() makes of to_json_value(), without a tree of the library in between, which costs several times as much.
void append_json(std::string& out, const Node& node) {
  if (node.is_null()) {
    out += "null";
  } else if (node.is_scalar()) {
    if (node.quoted() || !may_be_literal(node.text())) return append_json_string(out, node.text());
    out += is_plain_integer(node.text()) ? node.text() : to_json_value(node).dump(-1, ' ', false, Json::error_handler_t::replace);
  } else {
    out += node.is_list() ? '[' : '{';
    const std::size_t first = out.size();
    const auto separate = [&] { out += out.size() == first ? "" : ","; };
    for (const Node& item : node.items()) {
      separate();
      append_json(out, item);
    }
    for (const auto& [key, value] : node.entries()) {
      separate();
      append_json_string(out, key);
      out += ':';
      append_json(out, value);
    }
    out += node.is_list() ? ']' : '}';
  }
}

}  // namespace

Json to_json_value(const Node& node) {
  switch (node.kind()) {
    case Node::Kind::null:
      return nullptr;
    case Node::Kind::scalar: {
      if (node.quoted() || !may_be_literal(node.text())) return node.text();
      Json parsed = Json::parse(node.text(), nullptr, false);
      if (parsed.is_number() || parsed.is_boolean() || parsed.is_null()) return parsed;
      return node.text();
    }
    case Node::Kind::list: {
      Json::array_t out;
      out.reserve(node.items().size());
      for (const Node& item : node.items()) out.push_back(to_json_value(item));
      return out;
    }
    case Node::Kind::map: {
      // Not by operator[], which looks for the key among all others; and with room for all, since a growing map copies what is in it.
      Json::object_t out;
      out.reserve(node.entries().size());
      for (const auto& [key, value] : node.entries()) out.emplace_back(key, to_json_value(value));
      return out;
    }
  }
  return nullptr;
}

void append_json_string(std::string& out, std::string_view text) {
  const std::size_t start = out.size();
  out += '"';
  std::size_t from = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const Utf8Symbol symbol = front_symbol(text.substr(i));
    if (symbol.code_point < 0x20) {  // a control character, or no UTF-8: rare, and the library's own
      out.resize(start);
      out += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
      return;
    }
    if (c == '"' || c == '\\') {
      out.append(text, from, i - from) += '\\';
      from = i;
    }
    i += symbol.length;
  }
  out.append(text, from) += '"';
}

// Text that is no UTF-8 (YAML lets it through) is written with U+FFFD in place of what is malformed.
std::string Node::to_json() const {
  std::string out;
  append_json(out, *this);
  return out;
}

Node parse_json(std::string_view text, std::string_view name) {
  Events events(text, name);
  const CountingIterator first(text.data(), &events.consumed), last(text.data() + text.size(), &events.consumed);
  Json::sax_parse(first, last, &events);
  return events.take();
}

Node load_json(const std::string& path) { return parse_json(read_text(path), path); }

}  // namespace vitro
