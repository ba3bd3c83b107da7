// A configuration tree that remembers where each value came from, and a reader that turns it into typed values.
// Every error is a ConfigError of one form: `file:line: dotted.key: "value" problem (expected ...)`.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.hpp"
#include "engine/base/units.hpp"

namespace vitro {

struct Origin {
  std::shared_ptr<const std::string> file;  // as the user named it; null for values made by us
  int line = 0;
  std::string str() const;  // "phone.yaml:14", or "(default)" without a file
};

// One value of a YAML or JSON document. Scalars keep their text; typing happens where the meaning is known. Copies share what is in a list
// or a map until one of them changes it, so a pointer into a node is valid until that node or its owner is changed.
class Node {
 public:
  enum class Kind : std::uint8_t { null, scalar, list, map };
  using Entry = std::pair<std::string, Node>;

  Node() = default;
  static Node scalar(std::string text, Origin origin = {}, bool quoted = false);
  static Node null(Origin origin);
  static Node list(std::vector<Node> items, Origin origin = {});
  static Node map(std::vector<Entry> entries, Origin origin = {});

  Kind kind() const { return kind_; }
  bool is_map() const { return kind_ == Kind::map; }
  bool is_list() const { return kind_ == Kind::list; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_null() const { return kind_ == Kind::null; }
  const Origin& origin() const { return origin_; }

  const std::string& text() const { return text_; }  // Requires: is_scalar()
  // The dotted key as the user wrote it, where that is not what it is called now; messages name it. Empty: the same.
  const std::string& written_as() const { return written_as_; }
  void set_written_as(std::string key) { written_as_ = std::move(key); }
  bool quoted() const { return quoted_; }  // a quoted scalar is text, even if it looks like a number
  const std::vector<Node>& items() const&;
  const std::vector<Entry>& entries() const&;                      // in file order
  const Node* find(std::string_view key) const;                    // null when absent or not a map
  void set(std::string_view key, Node value);                      // adds or replaces; a null node becomes a map
  void set_path(std::string_view dotted, Node value);              // "memory.ffn_in_dram"; makes maps on the way
  const Node* find_path(std::string_view dotted) const;

  std::string to_json() const;  // unquoted numbers, booleans and null stay what they are

 private:
  std::vector<Entry>& own_entries();  // that no other node has

  Kind kind_ = Kind::null;
  bool quoted_ = false;
  std::string text_, written_as_;
  std::shared_ptr<std::vector<Node>> items_;     // null: none
  std::shared_ptr<std::vector<Entry>> entries_;  // null: none
  Origin origin_;
};

// Readers. Size, depth and alias expansion are bounded, so a hostile file ends in a message.
Node parse_json(std::string_view text, std::string_view name);
Node load_json(const std::string& path);
// In yaml.cpp and include.cpp, which vitro-device does not link: it reads resolved experiments as JSON.
Node parse_yaml(std::string_view text, std::string_view name);
// Follows `include: other.yaml` (or a list of files) in any map: those come first, in order, then the map's own keys. Maps merge
// deeply, the later value wins; lists, and maps that carry a provenance (`kind:` or `value:`), are replaced as a whole. Paths
// start at the file that names them; values keep the file and line that wrote them.
Node load_yaml(const std::string& path);

// Throws ConfigError "origin: key: problem".
[[noreturn]] void fail_at(const Origin& origin, std::string_view key, std::string_view problem);

// Where a number came from. ARCHITECTURE: every hardware parameter carries one of these.
enum class Provenance : std::uint8_t { spec, measured, derived, scaled, fitted, assumed };
std::string_view to_string(Provenance kind);
std::optional<Provenance> provenance_by_name(std::string_view name);

struct Sourced {
  double value = 0;  // SI base unit of the dimension it was read with
  std::optional<Provenance> kind;
  std::string source;
};

class ResolvedTree;

// Reads one map: each accessor consumes a key, finish() rejects the keys that nobody asked for. `path` is the dotted
// name of the map itself, for messages. Copies of a Reader, and the Readers of maps inside, record what they read in one tree.
class Reader {
 public:
  Reader(const Node& node, std::string path);

  bool has(std::string_view key);  // present and not null; a key that was asked for is a known one
  const Node& node() const { return *node_; }
  const std::string& path() const { return path_; }
  std::string name_of(std::string_view key) const;

  // Required values; the overloads with a default are optional ones. A default outside the legal range, or an empty text, stands for
  // "not given": resolved() leaves such a key out.
  std::string text(std::string_view key);
  std::string text(std::string_view key, std::string_view otherwise);
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t otherwise);
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max);  // a list; one number is a list of one
  double number(std::string_view key, double min, double max);
  double number(std::string_view key, double min, double max, double otherwise);
  bool boolean(std::string_view key, bool otherwise);
  // No quantity but a temperature is negative.
  double quantity(std::string_view key, Dimension dimension);
  double quantity(std::string_view key, Dimension dimension, double otherwise);
  double share(std::string_view key, double otherwise);  // 0% to 100%, as 0 to 1
  // A plain quantity, or {value: 59.6 GB/s, kind: measured, source: "..."}. Dimension::none reads a bare number.
  Sourced sourced(std::string_view key, Dimension dimension);
  // One of `choices`; the message lists them.
  std::string choice(std::string_view key, const std::vector<std::string>& choices, std::string_view otherwise = {});

  Reader child(std::string_view key);  // required map
  std::optional<Reader> optional_child(std::string_view key);
  Reader section(std::string_view key, Node otherwise = {});  // a map whose keys have defaults; `otherwise` stands for an absent one
  const std::vector<Node>& list(std::string_view key);        // required list
  std::vector<Reader> maps(std::string_view key);             // required list of maps
  const Node* raw(std::string_view key);                      // consumes; null when absent
  void ignore(std::string_view key) { raw(key); }

  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

  // What was read so far, the defaults of absent keys included. Reading it gives the same values and the same tree.
  Node resolved() const;
  // An old spelling is written anew: resolved() has `value` below `key`, or has no such key.
  void rewrite(std::string_view key, Node value);
  void forget(std::string_view key);

  // Throws on keys that were not consumed, with the nearest known key as a suggestion. `also`: other names that it may suggest.
  void finish(const std::vector<std::string_view>& also = {}) const;

 private:
  Reader(const Node& node, std::string path, std::shared_ptr<ResolvedTree> resolved);

  const Node* take(std::string_view key);
  const Node& require(std::string_view key);
  std::string scalar_text(std::string_view key, const Node& node, std::string_view expected) const;
  std::int64_t integer_of(std::string_view key, const Node& node, std::int64_t min, std::int64_t max) const;

  const Node* node_;
  std::shared_ptr<const Node> owned_;  // of a section that the file does not have
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::shared_ptr<ResolvedTree> resolved_;
};

}  // namespace vitro
