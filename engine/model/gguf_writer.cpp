#include "engine/model/gguf_writer.hpp"

#include <bit>

#include "engine/base/check.hpp"
#include "engine/quant/blocks.hpp"
#include "engine/quant/tile_groups.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kVersion = 3;

// Collects the header in memory: a few hundred kilobytes even for a large vocabulary.
class Bytestream {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view value) {
    number<std::uint64_t>(value.size());
    text_ += value;
  }
  void value(const GgufValue& value) {
    number(static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& v) { put(v); }, value);
  }
  const std::string& str() const { return text_; }

 private:
  void put(const std::string& v) { string(v); }
  void put(bool v) { number(static_cast<std::uint8_t>(v)); }
  void put(const GgufArray& v) {
    number(static_cast<std::uint32_t>(v.type));
    number(v.count);
    for (const std::string& s : v.strings) string(s);
    text_.append(reinterpret_cast<const char*>(v.raw.data()), v.raw.size());
  }
  template <class T>
  void put(T v) {
    number(v);
  }

  std::string text_;
};

template <class T>
GgufArray array_of(GgufType type, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {type, values.size(), {bytes.begin(), bytes.end()}, {}};
}

}  // namespace

GgufWriter::GgufWriter(std::string path, std::uint64_t alignment) : out_(std::move(path)), alignment_(alignment) {
  VITRO_CHECK(std::has_single_bit(alignment), "an alignment is a power of two");
  if (alignment != 32) add("general.alignment", static_cast<std::uint32_t>(alignment));
}

void GgufWriter::add(std::string key, GgufValue value) {
  VITRO_CHECK(!header_written_, "metadata comes before data");
  values_.emplace_back(std::move(key), std::move(value));
}

void GgufWriter::add_tensor(std::string name, std::vector<std::uint64_t> dims, Format format) {
  VITRO_CHECK(!header_written_, "tensor shapes come before data");
  TensorInfo tensor{std::move(name), std::move(dims), format, 0, 0};
  tensor.size = row_bytes(format, tensor.columns(), stored_layout(format)) * tensor.rows();
  if (!tensors_.empty()) tensor.offset = round_up(tensors_.back().offset + tensors_.back().size, alignment_);
  tensors_.push_back(std::move(tensor));
}

void GgufWriter::write_header() {
  Bytestream header;
  header.number(std::uint32_t{0x46554747});  // "GGUF"
  header.number(kVersion);
  header.number<std::uint64_t>(tensors_.size());
  header.number<std::uint64_t>(values_.size());
  for (const auto& [key, value] : values_) {
    header.string(key);
    header.value(value);
  }
  for (const TensorInfo& tensor : tensors_) {
    header.string(tensor.name);
    header.number(static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t dim : tensor.dims) header.number(dim);
    header.number(gguf_type_id(tensor.format));
    header.number(tensor.offset);
  }
  out_.write(header.str());
  out_.pad_to(alignment_);
  data_start_ = out_.position();
  header_written_ = true;
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (!header_written_) write_header();
  VITRO_CHECK(next_ < tensors_.size() && bytes.size() <= tensors_[next_].size - done_, "more data than the tensors hold");
  out_.write(bytes);
  done_ += bytes.size();
  if (done_ < tensors_[next_].size) return;
  out_.pad_to(alignment_);
  ++next_;
  done_ = 0;
  VITRO_CHECK(next_ == tensors_.size() || out_.position() == data_start_ + tensors_[next_].offset, "a tensor is out of place");
}

void GgufWriter::commit() {
  if (!header_written_) write_header();
  VITRO_CHECK(next_ == tensors_.size(), "a tensor is incomplete");
  out_.commit();
}

GgufArray gguf_array(std::vector<std::string> strings) {
  const std::uint64_t count = strings.size();
  return {GgufType::string, count, {}, std::move(strings)};
}
GgufArray gguf_array(std::span<const float> values) { return array_of(GgufType::f32, values); }
GgufArray gguf_array(std::span<const std::int32_t> values) { return array_of(GgufType::i32, values); }

}  // namespace vitro
