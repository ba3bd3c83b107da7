#include "tests/fuzz/gguf_mutator.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "engine/base/check.hpp"
#include "engine/base/file.hpp"
#include "engine/base/units.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace vitro::fuzz {
namespace {

constexpr std::uint32_t kString = 8, kArray = 9, kTypes = 13;
constexpr std::size_t kAlignment = 32, kMostEntries = 4096;
constexpr std::size_t kWidths[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by the id of a type

class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}
  std::size_t at() const { return at_; }
  bool failed() const { return failed_; }

  std::string_view take(std::uint64_t length) {
    if (failed_ || length > bytes_.size() - at_) return failed_ = true, std::string_view();
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  template <class T>
  T number() {
    T value{};
    if (const std::string_view bytes = take(sizeof value); !failed_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<std::uint64_t>()); }

  void skip(std::uint32_t type, bool inner = false) {
    if (type >= kTypes || (inner && type == kArray)) {
      failed_ = true;
    } else if (type == kString) {
      text();
    } else if (type != kArray) {
      take(kWidths[type]);
    } else {
      const auto of = number<std::uint32_t>();
      const auto count = number<std::uint64_t>();
      for (std::uint64_t i = 0; i < count && !failed_; ++i) skip(of, true);
    }
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

using Random = std::minstd_rand;
std::uint64_t below(Random& random, std::uint64_t end) { return random() % end; }

// A number near a bound of some width, or near the old one.
std::uint64_t odd_number(Random& random, std::uint64_t old) {
  const std::uint64_t kOdd[] = {0, 1, old + 1, old - 1, old * 2, old / 2, 32, 256, 1u << 31, ~std::uint64_t{0}, std::uint64_t{1} << 63,
                                std::uint64_t{1} << below(random, 64)};
  return kOdd[below(random, std::size(kOdd))];
}

// Bytes of another type with what the old ones begin with, or the same as an array.
void change_type(GgufParts::Value& value, Random& random) {
  const auto type = static_cast<std::uint32_t>(below(random, kTypes));
  std::string bytes = value.bytes;
  if (type == kArray) {
    std::string array;
    const auto of = value.type == kArray ? std::uint32_t{4} : value.type;
    append(array, of);
    append(array, std::uint64_t{of == value.type ? 1u : static_cast<unsigned>(bytes.size() / 4)});
    bytes = array + bytes.substr(0, of == value.type ? bytes.size() : bytes.size() / 4 * 4);
  } else if (type == kString) {
    std::string text;
    append_text(text, bytes);
    bytes = text;
  } else {
    bytes.resize(kWidths[type]);
  }
  value.type = type, value.bytes = bytes;
}

// The length of a text or of an array, with so many elements or not.
void change_length(GgufParts::Value& value, Random& random) {
  const std::size_t at = value.type == kString ? 0 : value.type == kArray ? 4 : std::string::npos;
  if (at == std::string::npos || value.bytes.size() < at + 8) return change_type(value, random);
  std::uint64_t length = 0;
  std::memcpy(&length, value.bytes.data() + at, sizeof length);
  const std::uint64_t changed = odd_number(random, length);
  const std::uint32_t of = value.type == kArray ? static_cast<std::uint8_t>(value.bytes[0]) : 0;
  const std::size_t width = of < kTypes ? kWidths[of] : 0;
  if (width > 0 && changed < kMostEntries) value.bytes.resize(at + 8 + changed * width);
  std::memcpy(value.bytes.data() + at, &changed, sizeof changed);
}

void change_value(GgufParts& parts, Random& random) {
  const std::size_t i = below(random, parts.values.size());
  GgufParts::Value& value = parts.values[i];
  const std::size_t number = value.type < kTypes ? kWidths[value.type] : 0;
  std::uint64_t old = 0;
  std::memcpy(&old, value.bytes.data(), std::min(number, value.bytes.size()));
  switch (below(random, 5)) {
    case 0: return change_type(value, random);
    case 1: return change_length(value, random);
    case 2: old = odd_number(random, old), std::memcpy(value.bytes.data(), &old, std::min(number, value.bytes.size())); return;
    case 3: parts.values.erase(parts.values.begin() + static_cast<std::ptrdiff_t>(i)); return;
    default: value.key = parts.values[below(random, parts.values.size())].key;
  }
}

void change_tensor(GgufParts& parts, Random& random) {
  const std::size_t i = below(random, parts.tensors.size());
  GgufParts::Tensor& tensor = parts.tensors[i];
  const GgufParts::Tensor& other = parts.tensors[below(random, parts.tensors.size())];
  constexpr std::uint32_t kFormats = 48;  // ids that ggml has, and some behind
  switch (below(random, 8)) {
    case 0: tensor.type = static_cast<std::uint32_t>(below(random, kFormats)); return;
    case 1: tensor.offset = odd_number(random, tensor.offset); return;
    case 2: tensor.offset = other.offset; return;
    case 3: tensor.name = other.name; return;
    case 4: std::reverse(tensor.dims.begin(), tensor.dims.end()); return;
    case 5: tensor.dims.resize(below(random, 6), 1); return;
    case 6: parts.tensors.erase(parts.tensors.begin() + static_cast<std::ptrdiff_t>(i)); return;
    default: if (!tensor.dims.empty()) {
      std::uint64_t& dim = tensor.dims[below(random, tensor.dims.size())];
      dim = odd_number(random, dim);
    }
  }
}

}  // namespace

std::optional<GgufParts> take_apart(std::string_view bytes) {
  Cursor in(bytes);
  GgufParts parts;
  parts.begin = in.take(8);
  const auto tensors = in.number<std::uint64_t>(), values = in.number<std::uint64_t>();
  if (in.failed() || tensors > kMostEntries || values > kMostEntries) return std::nullopt;
  for (std::uint64_t i = 0; i < values; ++i) {
    GgufParts::Value value{std::string(in.text()), in.number<std::uint32_t>(), {}};
    const std::size_t begin = in.at();
    in.skip(value.type);
    value.bytes = bytes.substr(begin, in.at() - begin);
    parts.values.push_back(std::move(value));
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    GgufParts::Tensor tensor{std::string(in.text()), {}, 0, 0};
    const auto dims = in.number<std::uint32_t>();
    for (std::uint32_t d = 0; d < dims && !in.failed(); ++d) tensor.dims.push_back(in.number<std::uint64_t>());
    tensor.type = in.number<std::uint32_t>();
    tensor.offset = in.number<std::uint64_t>();
    parts.tensors.push_back(std::move(tensor));
  }
  if (in.failed()) return std::nullopt;
  parts.data = bytes.substr(std::min<std::size_t>(round_up(in.at(), kAlignment), bytes.size()));
  return parts;
}

std::string put_together(const GgufParts& parts) {
  std::string out = parts.begin;
  append(out, std::uint64_t{parts.tensors.size()} + static_cast<std::uint64_t>(parts.more_tensors));
  append(out, std::uint64_t{parts.values.size()} + static_cast<std::uint64_t>(parts.more_values));
  for (const GgufParts::Value& value : parts.values) {
    append_text(out, value.key);
    append(out, value.type);
    out += value.bytes;
  }
  for (const GgufParts::Tensor& tensor : parts.tensors) {
    append_text(out, tensor.name);
    append(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) append(out, dim);
    append(out, tensor.type);
    append(out, tensor.offset);
  }
  out.resize(round_up(out.size(), kAlignment));
  return out + parts.data;
}

void try_mutator(const char* seed) {
  const InputFile file(seed);
  std::string bytes(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes)));
  const std::optional<GgufParts> parts = take_apart(bytes);
  VITRO_CHECK(parts && !parts->tensors.empty() && put_together(*parts) == bytes, "a file survives being taken apart");
}

std::size_t mutate_gguf(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  std::optional<GgufParts> parts = take_apart({reinterpret_cast<const char*>(data), size});
  if (!parts || below(random, 4) == 0) return LLVMFuzzerMutate(data, size, most);
  const std::uint64_t kind = below(random, 8);
  if (kind < 3 && !parts->values.empty()) {
    change_value(*parts, random);
  } else if (kind < 6 && !parts->tensors.empty()) {
    change_tensor(*parts, random);
  } else if (kind == 6) {
    (below(random, 2) == 0 ? parts->more_tensors : parts->more_values) = static_cast<std::int64_t>(odd_number(random, 0));
  } else {
    parts->data.resize(below(random, parts->data.size() + 64));
  }
  const std::string changed = put_together(*parts);
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

}  // namespace vitro::fuzz
