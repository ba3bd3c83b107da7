#include "engine/kernels/hexagon/hmx_matmul.hpp"

#include <vector>

#include "engine/kernels/file_rows.hpp"
#include "engine/kernels/hexagon/hmx.hpp"

namespace vitro::hexagon {
namespace {

void round_to_halves(float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = half_to_float(float_to_half(x[i]));
}

// Weight rows side by side, as the columns of a tile: [k][kTile], values of fp16.
class Columns {
 public:
  explicit Columns(const KernelCall& call)
      : call_(call), k_(columns(call.in[0])), x_(elements(call.in[1])), weights_(std::size_t{k_} * kTile), row_(k_) {
    const float* x = call.in[1].as<float>();
    x_.assign(x, x + elements(call.in[1]));
    round_to_halves(x_.data(), x_.size());
  }

  void add(std::uint32_t row, const std::byte* data) {
    dequantise_row(call_.in[0].format, data, row_.data(), k_);
    round_to_halves(row_.data(), k_);
    for (std::size_t k = 0; k < k_; ++k) weights_[k * kTile + count_] = row_[k];
    ids_[count_++] = row;
    if (count_ == kTile) multiply();
  }

  void multiply() {
    const std::size_t batch = call_.in[1].shape[0], n = call_.in[0].shape[0];
    for (std::size_t b = 0; b < batch && count_ > 0; ++b) {
      float acc[kTile] = {};
      for (std::size_t k = 0; k < k_; ++k) {
        const float x = x_[b * k_ + k];
        const float* w = &weights_[k * kTile];
        for (std::size_t c = 0; c < kTile; ++c) acc[c] += x * w[c];  // the product is exact, fused or not
      }
      for (std::size_t c = 0; c < count_; ++c) call_.out[0].as<float>()[b * n + ids_[c]] = half_to_float(float_to_half(acc[c]));
    }
    count_ = 0;
  }

 private:
  const KernelCall& call_;
  std::size_t k_;
  std::vector<float> x_, weights_, row_;
  std::uint32_t count_ = 0, ids_[kTile] = {};
};

}  // namespace

void hmx_matmul(const KernelCall& call) {
  const View& w = call.in[0];
  Columns columns(call);
  if (w.layout == Layout::rows) {
    for_each_row(call, [&](std::uint32_t row, Bytes at) { columns.add(row, w.data() + at); });
  } else {
    FileRows rows(w);
    for_each_run(call, w.shape[0], [&](Range run) {
      for (std::uint32_t row = run.first; row < run.end(); ++row) columns.add(row, rows[row]);
    });
  }
  columns.multiply();
}

}  // namespace vitro::hexagon
