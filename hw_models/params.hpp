// Parameters of a device model: one table says what exists, the device file says what holds, and every value remembers
// where it came from.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config.hpp"

namespace vitro::hw {

// One row of a model's table. `fallback` is the default as it would stand in a file; empty: the key is required.
// `source` says where the default comes from; a default counts as assumed. With `choices` ("none|all_bank|per_bank") the
// value is one of these words, the default among them; a word is a decision, not a measurement, and carries no provenance.
struct ParamSpec {
  std::string_view key;
  Dimension dimension;
  std::string_view fallback, source;
  std::string_view choices = {};
};

struct Param {
  std::string name;  // dotted, as in messages: "ufs.map_cache_miss"
  double value = 0;  // SI base unit
  Dimension dimension = Dimension::none;
  Provenance kind = Provenance::assumed;
  std::string source;
  mutable bool read = false;  // a model asked for it
  std::string word = {};      // of a parameter with choices
  Origin origin = {};         // of the value, or of the map that lacks it
};

// A map of numbers under one key that shares one provenance: {kind: ..., source: ..., float: {f16: 16}, int8: {q4_0: 40}}.
// Keys are flattened with a dot: "int8.q4_0".
struct ParamTable {
  std::string name;
  std::map<std::string, double, std::less<>> values = {};
  Provenance kind = Provenance::assumed;
  std::string source = {};
  mutable bool read = false;
  Origin origin = {};
  std::map<std::string, Origin, std::less<>> origins = {};  // of `values`

  // Throws ConfigError "file:line: name.key: problem"; without a key, about the table itself.
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;
};

class Params {
 public:
  Params() = default;
  // Consumes the keys of `specs` from `reader`; the caller finishes the reader. Throws ConfigError on a missing key, a
  // missing or wrong unit, a negative value, a bandwidth or a clock of 0. A value without provenance counts as assumed.
  Params(Reader& reader, std::span<const ParamSpec> specs);

  // A table of numbers (see ParamTable), of which `required` decides whether it may be absent.
  void add_table(Reader& reader, std::string_view key, bool required);

  // Typed access; the value counts as used. Requires: the key is in the specs, with that dimension.
  double number(std::string_view key) const { return get(key, Dimension::none); }
  double positive(std::string_view key) const;  // a bare number; throws ConfigError when it is 0
  double ratio(std::string_view key) const { return get(key, Dimension::ratio); }
  Picoseconds time(std::string_view key) const { return from_seconds(get(key, Dimension::time)); }
  Bytes bytes(std::string_view key) const { return static_cast<Bytes>(get(key, Dimension::bytes)); }
  BytesPerSecond bandwidth(std::string_view key) const { return {get(key, Dimension::bandwidth)}; }
  Hertz frequency(std::string_view key) const { return {get(key, Dimension::frequency)}; }
  double watts(std::string_view key) const { return get(key, Dimension::power); }
  double degrees(std::string_view key) const { return get(key, Dimension::temperature); }
  double joules_per_byte(std::string_view key) const { return get(key, Dimension::energy_per_byte); }
  const std::string& word(std::string_view key) const;  // Requires: the spec has choices
  const ParamTable& table(std::string_view key) const;  // empty when the file has none

  // Throws ConfigError "file:line: path.key: problem". Requires: the key is in the specs.
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

  const std::string& path() const { return path_; }
  const std::vector<Param>& all() const { return params_; }  // in table order
  const std::map<std::string, ParamTable, std::less<>>& tables() const { return tables_; }
  std::vector<std::string> assumed_and_read() const;  // dotted names, in table order

 private:
  const Param& find(std::string_view key) const;
  double get(std::string_view key, Dimension dimension) const;

  std::string path_;
  std::vector<Param> params_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, ParamTable, std::less<>> tables_;
};

}  // namespace vitro::hw
