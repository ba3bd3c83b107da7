#include "engine/model/bundle_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/check.hpp"
#include "engine/model/input_order.hpp"
#include "engine/model/quantize.hpp"
#include "engine/quant/blocks.hpp"

namespace vitro {
namespace {

using Ids = std::span<const std::uint32_t>;

void store_row(const Gguf& gguf, const TensorInfo& tensor, std::uint32_t neuron, Format target, std::span<const float> values,
               std::byte* out) {
  if (const auto k = first_unholdable(target, values)) {
    throw ConfigError(fmt::format("{}: {}: neuron {}, element {} is {}, which {} can not hold", gguf.path(), tensor.name, neuron, *k,
                                  values[*k], to_string(target)));
  }
  quantise_row(target, values.data(), out, values.size());
}

// The weights of a norm, by neuron; none where there is no norm.
std::vector<float> read_gains(const Gguf& gguf, const TensorInfo* norm) {
  if (norm == nullptr) return {};
  std::vector<float> gains(norm->columns());
  std::vector<std::byte> raw(row_bytes(norm->format, gains.size()));
  gguf.read(*norm, 0, raw);
  dequantise_row(norm->format, raw.data(), gains.data(), gains.size());
  return gains;
}

// Rows of Gate or Up, or of a Down that lies by neuron, one at a time.
class RowReader {
 public:
  RowReader(const Gguf& gguf, const TensorInfo& tensor, Format target, std::span<const float> gains = {})
      : gguf_(gguf), tensor_(tensor), target_(target), gains_(gains) {
    raw_.resize(row_bytes(tensor.format, tensor.columns()));
    values_.resize(tensor.columns());
    order_ = read_input_order(gguf, tensor.name);
    ordered_.resize(order_.size());
  }

  // `first`: the expert's first row.
  void store(std::uint64_t first, std::uint32_t neuron, std::byte* out) {
    gguf_.read(tensor_, (first + neuron) * raw_.size(), raw_);
    if (tensor_.format == target_ && gains_.empty() && order_.empty()) {
      std::memcpy(out, raw_.data(), raw_.size());
      return;
    }
    dequantise_row(tensor_.format, raw_.data(), values_.data(), values_.size());
    for (float& value : values_) value *= gains_.empty() ? 1 : gains_[neuron];
    for (std::size_t k = 0; k < order_.size(); ++k) ordered_[order_[k]] = values_[k];
    store_row(gguf_, tensor_, neuron, target_, order_.empty() ? values_ : ordered_, out);
  }

 private:
  const Gguf& gguf_;
  const TensorInfo& tensor_;
  Format target_;
  std::span<const float> gains_;
  std::vector<std::byte> raw_;
  std::vector<float> values_, ordered_;
  std::vector<std::uint32_t> order_;  // bundles have their elements as the inputs stand
};

// Columns of Down as rows, a group of neurons at a time.
class ColumnReader {
 public:
  ColumnReader(const Gguf& gguf, const TensorInfo& tensor, Format target, std::uint32_t width, std::span<const float> gains = {})
      : gguf_(gguf), tensor_(tensor), target_(target), width_(width), gains_(gains) {
    // Plain elements that stay what they are move as bits; all else goes by way of floats.
    bits_ = tensor.format == target && block_elements(target) == 1 && gains.empty();
    const std::vector<std::uint32_t> order = read_input_order(gguf, tensor.name);
    column_of_.resize(order.size());
    for (std::uint32_t column = 0; column < order.size(); ++column) column_of_[order[column]] = column;
  }

  Bytes bytes_per_neuron() const { return Bytes{width_} * element(); }

  void load(std::uint32_t expert, Ids ids) {
    ids_ = ids;
    at_.assign(ids.begin(), ids.end());
    for (std::uint32_t& at : at_) at = column_of_.empty() ? at : column_of_[at];
    columns_.resize(ids.size() * bytes_per_neuron());
    // Only the part of each row that the group spans: in file order every element is read once over all groups. Where the columns stand in
    // an order of their own, a group spans nearly all of the row, and so does each of the others.
    const auto [low, high] = std::ranges::minmax(at_);
    const std::size_t block = run_elements(tensor_.format, tensor_.columns());
    first_ = low / block * block;
    length_ = (high / block + 1) * block - first_;
    rows_.resize(kRowsAtOnce * length_ * element());
    raw_.resize(row_bytes(tensor_.format, length_));
    const Bytes stride = row_bytes(tensor_.format, tensor_.columns());
    const Bytes skipped = row_bytes(tensor_.format, first_);
    for (std::uint32_t row = 0; row < width_; row += kRowsAtOnce) {
      const std::uint32_t count = std::min(kRowsAtOnce, width_ - row);
      for (std::uint32_t r = 0; r < count; ++r) {
        gguf_.read(tensor_, (Bytes{expert} * width_ + row + r) * stride + skipped, raw_);
        std::byte* into = rows_.data() + r * length_ * element();
        if (bits_) {
          std::memcpy(into, raw_.data(), raw_.size());
        } else {
          dequantise_row(tensor_.format, raw_.data(), reinterpret_cast<float*>(into), length_);
        }
      }
      if (element() == 2) {
        gather<std::uint16_t>(row, count);
      } else {
        gather<std::uint32_t>(row, count);
      }
    }
    if (gains_.empty()) return;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (float& value : std::span(reinterpret_cast<float*>(columns_.data()) + i * width_, width_)) value *= gains_[ids[i]];
    }
  }

  // The i-th of the loaded ids.
  void store(std::size_t i, std::byte* out) const {
    const std::byte* column = columns_.data() + i * bytes_per_neuron();
    if (bits_) {
      std::memcpy(out, column, bytes_per_neuron());
    } else {
      store_row(gguf_, tensor_, ids_[i], target_, {reinterpret_cast<const float*>(column), width_}, out);
    }
  }

 private:
  static constexpr std::uint32_t kRowsAtOnce = 16;  // of f32: a cache line of each column

  std::size_t element() const { return bits_ ? block_bytes(target_) : sizeof(float); }

  template <class T>
  void gather(std::uint32_t row, std::uint32_t count) {
    const T* rows = reinterpret_cast<const T*>(rows_.data());
    T* columns = reinterpret_cast<T*>(columns_.data());
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const T* from = rows + (at_[i] - first_);
      for (std::uint32_t r = 0; r < count; ++r) columns[i * width_ + row + r] = from[r * length_];
    }
  }

  const Gguf& gguf_;
  const TensorInfo& tensor_;
  Format target_;
  std::uint32_t width_;
  bool bits_ = false;
  std::span<const float> gains_;
  std::vector<std::uint32_t> column_of_, at_;  // a neuron's column where these stand in an order of their own; those of `ids_`
  Ids ids_;
  std::size_t first_ = 0, length_ = 0;  // the loaded part of a row, in elements
  std::vector<std::byte> raw_, rows_, columns_;
};

}  // namespace

std::vector<std::byte> write_bundles(const Gguf& gguf, const std::array<const TensorInfo*, 4>& sources, const Weight& bundles,
                                     const NeuronOrder& order, SectionWriter& out, Bytes transpose_bytes) {
  const BundleLayout layout = bundles.bundles();
  const bool split = layout.format == Format::q4_nibbles;
  const Format format = split ? Format::q4_0 : layout.format;
  RowReader gate(gguf, *sources[0], format), up(gguf, *sources[1], format);
  const bool by_neuron = sources[2]->name == down_by_neuron_name(bundles.layer);
  const std::vector<float> gains = read_gains(gguf, sources[3]);
  RowReader down_rows(gguf, *sources[2], format, gains);
  ColumnReader down(gguf, *sources[2], format, layout.width, gains);
  const Bytes scale_row = split ? layout.width / kBlock * 2 : 0;
  std::vector<std::byte> scales(3 * Bytes{layout.neurons} * bundles.experts * scale_row);
  std::vector<std::byte> row(row_bytes(format, layout.width));
  std::vector<std::uint32_t> as_in_file(layout.neurons);
  std::iota(as_in_file.begin(), as_in_file.end(), 0u);
  // Whole blocks, and where it can be whole blocks of the source's columns, which are then decoded once.
  const Bytes step = std::lcm(Bytes{layout.per_block}, Bytes{block_elements(sources[2]->format)});
  const Bytes group = std::max(step, transpose_bytes / down.bytes_per_neuron() / step * step);
  std::vector<std::byte> piece(layout.piece());
  for (std::uint32_t expert = 0; expert < bundles.experts; ++expert) {
    const Ids places = order.empty() ? Ids(as_in_file) : order.of(static_cast<std::uint32_t>(bundles.layer), expert);
    const std::uint64_t first_row = std::uint64_t{expert} * layout.neurons;
    const std::uint64_t first_up = sources[0] == sources[1] ? layout.neurons : first_row;
    for (std::uint32_t stripe = 0; stripe < layout.stripes; ++stripe) {
      for (std::uint32_t place = 0; place < layout.neurons; ++place) {
        std::byte* bundle = piece.data() + layout.within_block(place);
        // store(where the row goes): the row itself, or its nibbles while its scales go to theirs.
        const auto put = [&](std::uint32_t matrix, Bytes at, auto store) {
          if (layout.stripes > 1 && stripe != matrix) return;
          if (!split) return store(bundle + at);
          store(row.data());
          const Bytes rows_before = (Bytes{expert} * 3 + matrix) * layout.neurons + place;
          split_q4_0(row.data(), layout.width, bundle + at, scales.data() + rows_before * scale_row);
        };
        put(0, layout.gate, [&](std::byte* to) { gate.store(first_row, places[place], to); });
        put(1, layout.up, [&](std::byte* to) { up.store(first_up, places[place], to); });
        put(2, layout.down, [&](std::byte* to) {
          if (by_neuron) return down_rows.store(first_row, places[place], to);
          if (place % group == 0) down.load(expert, places.subspan(place, std::min<std::size_t>(group, layout.neurons - place)));
          down.store(place % group, to);
        });
        if (layout.block_of(place + 1) != layout.block_of(place) || place + 1 == layout.neurons) {
          out.write(piece);
          std::fill(piece.begin(), piece.end(), std::byte{0});
        }
      }
    }
  }
  return scales;
}

void write_transposed(const Gguf& gguf, const TensorInfo& source, const Weight& weight, SectionWriter& out, Bytes transpose_bytes) {
  ColumnReader columns(gguf, source, weight.format, weight.columns);
  std::vector<std::uint32_t> ids(weight.rows);
  std::iota(ids.begin(), ids.end(), 0u);
  const Bytes step = block_elements(source.format);
  const Bytes group = std::max(step, transpose_bytes / columns.bytes_per_neuron() / step * step);
  std::vector<std::byte> row(row_bytes(weight.format, weight.columns));
  for (std::uint32_t r = 0; r < weight.rows; ++r) {
    if (r % group == 0) columns.load(0, Ids(ids).subspan(r, std::min<std::size_t>(group, weight.rows - r)));
    columns.store(r % group, row.data());
    out.write(row);
  }
}

}  // namespace vitro
