#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/check.hpp"
#include "engine/model/gguf.hpp"
#include "engine/model/input_order.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are read as they lie in memory");

constexpr std::uint32_t kMagic = 0x46554747;            // "GGUF"
constexpr std::uint32_t kPowerInferMagic = 0x49525750;  // "PWRI"
constexpr std::uint32_t kInt32 = 26, kOldInt32 = 18;    // the id that PowerInfer writes; iq3_xxs has it since
constexpr std::size_t kMaxDims = 4;
constexpr std::size_t kMaxName = 65535;
// The smallest entries that a file can hold: a key or a name of no bytes still needs its length, type and value.
constexpr Bytes kMinValueBytes = 8 + 4 + 1, kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// Sequential reads through a window, so that a header of many small fields does not become as many system calls.
class Cursor {
 public:
  explicit Cursor(const InputFile& file) : file_(file) {}

  Bytes position() const { return position_; }
  Bytes left() const { return file_.size() - position_; }
  [[noreturn]] void fail(Bytes at, std::string_view problem) const {
    throw ConfigError(fmt::format("{}: at byte {}: {}", file_.path(), at, problem));
  }

  void read(std::byte* into, Bytes length, std::string_view what) {
    if (length > left()) fail(position_, fmt::format("the file ends inside {} ({} bytes needed, {} left)", what, length, left()));
    if (length > kWindow) {
      file_.read_at(position_, {into, length});
      position_ += length;
      return;
    }
    if (position_ < start_ || position_ + length > start_ + window_.size()) refill();
    if (length > 0) std::memcpy(into, window_.data() + (position_ - start_), length);
    position_ += length;
  }

  template <class T>
  T number(std::string_view what) {
    T value{};
    read(reinterpret_cast<std::byte*>(&value), sizeof value, what);
    return value;
  }

  std::string text(std::string_view what, Bytes max) {
    const Bytes at = position_;
    const auto length = number<std::uint64_t>(what);
    if (length > left()) fail(at, fmt::format("{} of {} bytes is longer than the rest of the file ({} bytes)", what, length, left()));
    if (length > max) fail(at, fmt::format("{} of {} bytes is longer than {}", what, length, max));
    std::string value(length, '\0');
    read(reinterpret_cast<std::byte*>(value.data()), length, what);
    return value;
  }

 private:
  static constexpr Bytes kWindow = 64 * KiB;

  void refill() {
    start_ = position_;
    window_.resize(std::min(kWindow, left()));
    file_.read_at(start_, window_);
  }

  const InputFile& file_;
  Bytes position_ = 0, start_ = 0;
  std::vector<std::byte> window_;
};

std::size_t width_of(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
      return 8;  // at least: the length
    case GgufType::array:
      break;
  }
  check_failed("type", __FILE__, __LINE__, "an array has no element width");
}

}  // namespace

class GgufParser {
 public:
  GgufParser(Gguf& out, bool indices) : out_(out), in_(out.file_), indices_(indices) {}

  void run() {
    const auto magic = in_.number<std::uint32_t>("the magic number");
    const bool powerinfer = magic == kPowerInferMagic;
    out_.powerinfer_ = powerinfer;
    if (magic != kMagic && !powerinfer) in_.fail(0, "not a GGUF file (the first four bytes are not \"GGUF\")");
    const auto version = in_.number<std::uint32_t>("the version");
    if (version == 0x02000000 || version == 0x03000000) in_.fail(4, "a big-endian GGUF file; only little-endian is read");
    if (version != 2 && version != 3) in_.fail(4, fmt::format("GGUF version {} (expected 2 or 3)", version));
    const auto tensors = in_.number<std::uint64_t>("the tensor count");
    const auto values = in_.number<std::uint64_t>("the key count");
    if (values > in_.left() / kMinValueBytes) in_.fail(16, fmt::format("{} keys can not fit in the file", values));
    for (std::uint64_t i = 0; i < values; ++i) read_value();
    read_alignment();
    if (tensors > in_.left() / kMinTensorBytes) in_.fail(8, fmt::format("{} tensors can not fit in the file", tensors));
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
  }

 private:
  GgufType type_id() {
    const Bytes at = in_.position();
    const auto id = in_.number<std::uint32_t>("a value type");
    if (id > static_cast<std::uint32_t>(GgufType::f64)) in_.fail(at, fmt::format("unknown value type {}", id));
    return static_cast<GgufType>(id);
  }

  bool boolean() {
    const Bytes at = in_.position();
    const auto value = in_.number<std::uint8_t>("a boolean");
    if (value > 1) in_.fail(at, fmt::format("a boolean has the value {}", value));
    return value == 1;
  }

  GgufArray array() {
    const Bytes at = in_.position();
    GgufArray out;
    out.type = type_id();
    if (out.type == GgufType::array) in_.fail(at, "arrays of arrays are not supported");
    out.count = in_.number<std::uint64_t>("an array length");
    if (out.count > in_.left() / width_of(out.type)) {
      in_.fail(at, fmt::format("an array of {} {} values is longer than the rest of the file", out.count, to_string(out.type)));
    }
    if (out.type == GgufType::string) {
      for (std::uint64_t i = 0; i < out.count; ++i) out.strings.push_back(in_.text("a string", in_.left()));
      return out;
    }
    const Bytes first = in_.position();
    out.raw.resize(out.count * width_of(out.type));
    in_.read(out.raw.data(), out.raw.size(), "an array");
    if (out.type == GgufType::boolean) {
      for (std::size_t i = 0; i < out.raw.size(); ++i) {
        if (std::to_integer<int>(out.raw[i]) > 1) in_.fail(first + i, "a boolean is neither 0 nor 1");
      }
    }
    return out;
  }

  GgufValue value(GgufType type) {
    switch (type) {
      case GgufType::u8:
        return in_.number<std::uint8_t>("a value");
      case GgufType::i8:
        return in_.number<std::int8_t>("a value");
      case GgufType::u16:
        return in_.number<std::uint16_t>("a value");
      case GgufType::i16:
        return in_.number<std::int16_t>("a value");
      case GgufType::u32:
        return in_.number<std::uint32_t>("a value");
      case GgufType::i32:
        return in_.number<std::int32_t>("a value");
      case GgufType::f32:
        return in_.number<float>("a value");
      case GgufType::boolean:
        return boolean();
      case GgufType::string:
        return in_.text("a string", in_.left());
      case GgufType::array:
        return array();
      case GgufType::u64:
        return in_.number<std::uint64_t>("a value");
      case GgufType::i64:
        return in_.number<std::int64_t>("a value");
      case GgufType::f64:
        return in_.number<double>("a value");
    }
    check_failed("type", __FILE__, __LINE__, "unknown type");
  }

  void read_value() {
    const Bytes at = in_.position();
    std::string key = in_.text("a key", kMaxName);
    if (key.empty()) in_.fail(at, "a key is empty");
    const GgufType type = type_id();
    if (!out_.value_index_.emplace(key, out_.values_.size()).second) in_.fail(at, fmt::format("key {} is given twice", key));
    out_.values_.emplace_back(std::move(key), value(type));
  }

  void read_alignment() {
    out_.alignment_ = out_.integer("general.alignment", 1, 1u << 30, 32);
    if (!std::has_single_bit(out_.alignment_)) out_.fail("general.alignment", "not a power of two");
  }

  // Of a model's tensors, orders of columns alone are integers.
  std::optional<Format> format_of(std::uint32_t type, std::string_view name) const {
    if (!indices_) {
      const bool integers = (type == kInt32 && !is_order_name(name)) || (out_.powerinfer_ && type == kOldInt32);
      return integers ? std::nullopt : format_of_gguf_type(type);
    }
    return type == kInt32 || type == kOldInt32 ? std::optional(Format::index32) : std::nullopt;
  }

  void read_tensor() {
    const Bytes at = in_.position();
    TensorInfo tensor;
    tensor.name = in_.text("a tensor name", kMaxName);
    if (tensor.name.empty()) in_.fail(at, "a tensor has no name");
    const auto bad = [&](std::string_view problem) { in_.fail(at, fmt::format("tensor {}: {}", tensor.name, problem)); };
    const auto dims = in_.number<std::uint32_t>("a dimension count");
    if (dims == 0 || dims > kMaxDims) bad(fmt::format("{} dimensions (expected 1 to {})", dims, kMaxDims));
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dims; ++i) {
      tensor.dims.push_back(in_.number<std::uint64_t>("a dimension"));
      if (tensor.dims.back() == 0 && !indices_) bad("a dimension is zero");
      // No format stores an element in less than a bit.
      if (elements > 0 && tensor.dims.back() > 8 * out_.file_size() / elements) bad("larger than the file");
      elements *= tensor.dims.back();
    }
    const auto type = in_.number<std::uint32_t>("a tensor type");
    const auto format = format_of(type, tensor.name);
    if (!format && out_.powerinfer_ && (type == kInt32 || type == kOldInt32)) bad("int32: a PowerInfer index of neurons, not a model");
    if (!format) {
      bad(fmt::format("type {} is not supported (expected {})", type,
                      indices_ ? "I32" : "F32, F16, BF16, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, IQ1_S to IQ4_XS or one of vitro's own"));
    }
    tensor.format = *format;
    if (!indices_ && tensor.format == Format::index32 && dims != 1) {
      bad(fmt::format("{} dimensions (expected one: which input each column multiplies)", dims));
    }
    if (stored_layout(*format) == Layout::rows && tensor.columns() % block_elements(*format) != 0) {
      bad(fmt::format("rows of {} elements are not whole {} blocks of {}", tensor.columns(), to_string(*format), block_elements(*format)));
    }
    if (format->has_outliers() && tensor.columns() > kMostOutlierColumns) {
      bad(fmt::format("rows of {} elements are too long for {} (expected {} or less)", tensor.columns(), to_string(*format),
                      kMostOutlierColumns));
    }
    if (const std::uint64_t rows = tensor.dims.size() > 1 ? tensor.dims[1] : 1; !can_store(*format, rows, tensor.columns())) {
      bad(fmt::format("{} rows of {} elements are not whole groups of {} (expected multiples of {} and {})", rows, tensor.columns(),
                      to_string(*format), kStripRows, kStripColumns));
    }
    tensor.size = row_bytes(*format, tensor.columns(), stored_layout(*format)) * tensor.rows();
    tensor.offset = in_.number<std::uint64_t>("a tensor offset");
    if (tensor.offset % out_.alignment_ != 0) bad(fmt::format("offset {} is not a multiple of {}", tensor.offset, out_.alignment_));
    if (!out_.tensor_index_.emplace(tensor.name, out_.tensors_.size()).second) bad("given twice");
    out_.tensors_.push_back(std::move(tensor));
  }

  // Offsets in the file count from the aligned end of the header.
  void place_tensors() {
    const Bytes size = out_.file_size();
    out_.data_offset_ = round_up(in_.position(), out_.alignment_);
    if (out_.tensors_.empty()) {
      out_.data_offset_ = std::min(out_.data_offset_, size);
      return;
    }
    if (out_.data_offset_ > size) in_.fail(in_.position(), "the file ends before its tensor data");
    const Bytes room = size - out_.data_offset_;
    std::vector<const TensorInfo*> by_offset;
    for (TensorInfo& tensor : out_.tensors_) {
      if (tensor.offset > room || tensor.size > room - tensor.offset) {
        in_.fail(size, fmt::format("the file ends before the data of tensor {} ({} bytes at data offset {})", tensor.name, tensor.size,
                                   tensor.offset));
      }
      tensor.offset += out_.data_offset_;
      by_offset.push_back(&tensor);
    }
    std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
      const TensorInfo &before = *by_offset[i - 1], &after = *by_offset[i];
      if (after.offset - before.offset < before.size) {
        in_.fail(after.offset, fmt::format("tensors {} and {} overlap", before.name, after.name));
      }
    }
  }

  Gguf& out_;
  Cursor in_;
  bool indices_;
};

Gguf Gguf::open(const std::string& path) {
  Gguf gguf{InputFile(path)};
  GgufParser(gguf, false).run();
  return gguf;
}

Gguf Gguf::open_indices(const std::string& path) {
  Gguf gguf{InputFile(path)};
  GgufParser(gguf, true).run();
  return gguf;
}

}  // namespace vitro
