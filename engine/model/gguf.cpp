#include "engine/model/gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/row_damage.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

// Any integer type of the file as a non-negative integer; nullopt for other types and negative values.
std::optional<std::uint64_t> as_unsigned(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::optional<std::uint64_t> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::integral<T> && is_number<T>) {
          if (std::cmp_less(v, 0)) return std::nullopt;
          return static_cast<std::uint64_t>(v);
        }
        return std::nullopt;
      },
      value);
}

std::optional<double> as_number(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        if constexpr (is_number<std::decay_t<decltype(v)>>) return static_cast<double>(v);
        return std::nullopt;
      },
      value);
}

std::string_view type_name(const GgufValue& value) { return to_string(static_cast<GgufType>(value.index())); }

}  // namespace

std::string_view to_string(GgufType type) {
  constexpr std::array<std::string_view, 13> kNames{"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                                    "bool",  "string", "array",  "uint64", "int64",  "float64"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::uint64_t TensorInfo::rows() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
  return rows;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = value_index_.find(key);
  return found == value_index_.end() ? nullptr : &values_[found->second].second;
}

void Gguf::fail(std::string_view key, std::string_view problem) const {
  throw ConfigError(fmt::format("{}: {}: {}", path(), key, problem));
}

const GgufValue& Gguf::require(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "the key is missing");
  return *value;
}

std::uint64_t Gguf::integer(std::string_view key, std::uint64_t min, std::uint64_t max) const {
  const GgufValue& value = require(key);
  const bool integral = std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        return std::integral<T> && is_number<T>;
      },
      value);
  if (!integral) fail(key, fmt::format("has type {} (expected an integer)", type_name(value)));
  const auto number = as_unsigned(value);
  if (!number || *number < min || *number > max) {
    fail(key, fmt::format("is {} (expected {} to {})", *as_number(value), min, max));
  }
  return *number;
}

std::uint64_t Gguf::integer(std::string_view key, std::uint64_t min, std::uint64_t max, std::uint64_t otherwise) const {
  return has(key) ? integer(key, min, max) : otherwise;
}

double Gguf::number(std::string_view key, double min, double max) const {
  const GgufValue& value = require(key);
  const auto number = as_number(value);
  if (!number) fail(key, fmt::format("has type {} (expected a number)", type_name(value)));
  if (!(*number >= min && *number <= max)) fail(key, fmt::format("is {} (expected {} to {})", *number, min, max));
  return *number;
}

double Gguf::number(std::string_view key, double min, double max, double otherwise) const {
  return has(key) ? number(key, min, max) : otherwise;
}

bool Gguf::boolean(std::string_view key, bool otherwise) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return otherwise;
  if (!std::holds_alternative<bool>(*value)) fail(key, fmt::format("has type {} (expected bool)", type_name(*value)));
  return std::get<bool>(*value);
}

const std::string& Gguf::text(std::string_view key) const {
  const GgufValue& value = require(key);
  if (!std::holds_alternative<std::string>(value)) fail(key, fmt::format("has type {} (expected string)", type_name(value)));
  return std::get<std::string>(value);
}

std::string Gguf::text(std::string_view key, std::string_view otherwise) const { return has(key) ? text(key) : std::string(otherwise); }

const GgufArray& Gguf::array(std::string_view key, GgufType type) const {
  const GgufValue& value = require(key);
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) fail(key, fmt::format("has type {} (expected an array)", type_name(value)));
  if (array->type != type) fail(key, fmt::format("holds {} values (expected {})", to_string(array->type), to_string(type)));
  return *array;
}

const std::vector<std::string>& Gguf::strings(std::string_view key) const { return array(key, GgufType::string).strings; }

std::vector<float> Gguf::floats(std::string_view key) const {
  const GgufArray& values = array(key, GgufType::f32);
  std::vector<float> out(values.count);
  if (!out.empty()) std::memcpy(out.data(), values.raw.data(), values.raw.size());
  return out;
}

std::vector<std::int32_t> Gguf::integers(std::string_view key) const {
  const GgufArray& values = array(key, GgufType::i32);
  std::vector<std::int32_t> out(values.count);
  if (!out.empty()) std::memcpy(out.data(), values.raw.data(), values.raw.size());
  return out;
}

const TensorInfo* Gguf::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

void Gguf::read(const TensorInfo& tensor, Bytes offset, std::span<std::byte> into) const {
  if (stored_layout(tensor.format) == Layout::rows) return read_stored(tensor, offset, into);
  const std::size_t k = tensor.columns();
  const Bytes rows = kStripRows * row_bytes(tensor.format, k), strip = kStripRows * row_bytes(tensor.format, k, Layout::strips);
  std::vector<std::byte> stored(strip), unpacked(rows);
  while (!into.empty()) {
    read_stored(tensor, offset / rows * strip, stored);
    unpack_strip(k, stored.data(), unpacked.data());
    const Bytes begin = offset % rows, count = std::min(rows - begin, Bytes{into.size()});
    std::copy_n(unpacked.begin() + static_cast<std::ptrdiff_t>(begin), count, into.begin());
    into = into.subspan(count);
    offset += count;
  }
}

void Gguf::read_stored(const TensorInfo& tensor, Bytes offset, std::span<std::byte> into) const {
  VITRO_CHECK(offset <= tensor.size && into.size() <= tensor.size - offset, "a read past the end of a tensor");
  file_.read_at(tensor.offset + offset, into);
}

void Gguf::check_blocks(const TensorInfo& tensor) const {
  if (!can_be_damaged(tensor.format)) return;
  const Bytes row = row_bytes(tensor.format, tensor.columns());
  std::vector<std::byte> rows(std::min(std::max(MiB / row, Bytes{1}) * row, tensor.size));
  for (Bytes at = 0; at < tensor.size; at += row) {
    if (at % rows.size() == 0) read(tensor, at, std::span(rows).first(std::min<Bytes>(rows.size(), tensor.size - at)));
    if (const auto damage = row_damage(tensor.format, rows.data() + at % rows.size(), tensor.columns(), at / row)) {
      fail(tensor.name, *damage);
    }
  }
}

}  // namespace vitro
