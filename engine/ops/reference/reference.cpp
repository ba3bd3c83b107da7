#include "engine/ops/reference/reference.hpp"

#include <algorithm>

#include "engine/ops/reference/call.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro::reference {

void Reference::embed() {
  const std::size_t width = columns(out());
  for (std::size_t b = 0; b < out().shape[0]; ++b) {
    write(out(), b * width, read(in(0), index(in(1), b, in(0).shape[0]) * width, width));
    if (in(0).format != Format::f32) tally_.conversions += width;
    ++tally_.row_runs;
  }
}

void Reference::rms_norm() {
  const std::size_t width = columns(out());
  const Vector weight = read(in(1), 0, width);
  const std::size_t heads = out().shape[2] == 0 ? 1 : out().shape[1];
  const Range slice = sliced_heads(call_, out());
  for (std::size_t r = 0; r < out().shape[0]; ++r) {
    for (std::size_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (r * heads + h) * width;
      const Vector x = read(in(0), at, width);
      const double mean = x.squaredNorm() / static_cast<double>(width);
      write(out(), at, x.cwiseProduct(weight) / std::sqrt(mean + double{call_.params[0]}));
      tally_.elementwise += work::kNorm * width;
    }
  }
}

Vector Reference::tiled_row(const View& w, std::size_t row) {
  const std::size_t k = columns(w), bytes = row_bytes(w.format, k), packed = row_bytes(w.format, k, w.layout), group = row / kTileRows;
  if (group != unpacked_group_) {
    unpacked_.resize(kTileRows * bytes);
    unpack_tile(w.format, k, w.data() + group * kTileRows * packed, unpacked_.data(), w.layout);
    unpacked_group_ = group;
  }
  touch(w, packed);
  std::vector<float> values(k);
  dequantise_row(w.format, &unpacked_[row % kTileRows * bytes], values.data(), k);
  return Eigen::Map<Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(k)).cast<double>();
}

template <class F>
void Reference::for_each_weight_row(F f) {
  const View& w = in(0);
  if (w.layout != Layout::rows) {
    return for_each_run(call_, w.shape[0], [&](Range run) {
      ++tally_.row_runs;
      for (std::uint32_t row = run.first; row < run.end(); ++row) f(row, tiled_row(w, row));
    });
  }
  Bytes end = ~Bytes{0};
  for_each_row(call_, [&](std::uint32_t row, Bytes at) {
    if (at != end) ++tally_.row_runs;
    end = at + row_bytes(w.format, columns(w));
    f(row, read_weights(row, at));
  });
}

void Reference::matmul() {
  const std::size_t n = in(0).shape[0], k = in(0).shape[1], batch = in(1).shape[0];
  Eigen::MatrixXd x(k, batch);
  for (std::size_t b = 0; b < batch; ++b) x.col(static_cast<Eigen::Index>(b)) = read(in(1), b * k, k);
  if (call_.variant == variant::kInt8) {
    tally_.conversions += k * batch;
  }
  for_each_weight_row([&](std::size_t row, const Vector& w) {
    if (call_.variant != variant::kInt8 && in(0).format != Format::f32) tally_.conversions += k;
    const bool biased = bias_of(call_) != nullptr;
    const double bias = biased ? read(*bias_of(call_), row, 1)[0] : 0;
    for (std::size_t b = 0; b < batch; ++b) {
      write(out(), b * n + row, Vector::Constant(1, w.dot(x.col(static_cast<Eigen::Index>(b))) + bias));
      tally_.macs += k;
      tally_.elementwise += biased;
    }
  });
}

void Reference::accumulate() {
  const std::size_t n = in(0).shape[0], width = in(0).shape[1], batch = in(1).shape[0];
  Eigen::MatrixXd y = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(width), static_cast<Eigen::Index>(batch));
  if (call_.params[0] != 0) {
    for (std::size_t b = 0; b < batch; ++b) y.col(static_cast<Eigen::Index>(b)) = read(out(), b * width, width);
  }
  for_each_weight_row([&](std::size_t row, const Vector& w) {
    const bool int8 = variant::adds_in_int8(call_.variant, in(0).format);
    if (in(0).format != Format::f32) tally_.conversions += int8 ? batch * (width / kBlock) : width;
    for (std::size_t b = 0; b < batch; ++b) {
      tally_.macs += width;
      const double h = read(in(1), b * n + row, 1)[0];
      if (h != 0) y.col(static_cast<Eigen::Index>(b)) += h * w;
    }
  });
  for (std::size_t b = 0; b < batch; ++b) write(out(), b * width, y.col(static_cast<Eigen::Index>(b)));
}

double Reference::activation(Activation act, double g) const {
  switch (act) {
    case Activation::silu:
      return g / (1 + std::exp(-g));
    case Activation::relu:
      return std::max(g, 0.0);
    case Activation::relu_squared:
      return std::max(g, 0.0) * std::max(g, 0.0);
    case Activation::gelu:
      return 0.5 * g * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g)));
  }
  return 0;
}

Outcome Reference::glu() {
  const std::size_t rows = out().shape[0], width = columns(out());
  ActiveSet active;
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<std::uint32_t> ids;
    for_each_run(call_, static_cast<std::uint32_t>(width), [&](Range run) {
      const auto act = static_cast<Activation>(call_.params[0]);
      const Vector gate = read(in(0), r * width + run.first, run.count).unaryExpr([&](double g) { return activation(act, g); });
      write(out(), r * width + run.first, gate.cwiseProduct(read(in(1), r * width + run.first, run.count)));
      tally_.elementwise += work::activation(static_cast<Activation>(call_.params[0])) * run.count;
      for (std::uint32_t i = 0; i < run.count; ++i) {
        if (static_cast<float>(gate[i]) != 0) ids.push_back(run.first + i);
      }
    });
    active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  if (!call_.report_active) return {};
  return active;
}

Outcome Reference::select() {
  const std::size_t width = columns(in(0));
  ActiveSet active;
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) {
    std::vector<std::uint32_t> ids;
    for_each_run(call_, static_cast<std::uint32_t>(width), [&](Range run) {
      for (std::uint32_t n = run.first; n < run.end(); ++n) {
        const double score = read(in(0), r * width + n, 1)[0], act = call_.params[1];
        tally_.elementwise += work::select(call_.params[1]);
        if ((act < 0 ? score : std::abs(activation(static_cast<Activation>(act), score))) > call_.params[0]) ids.push_back(n);
      }
    });
    active.rows.push_back(std::make_shared<const std::vector<std::uint32_t>>(std::move(ids)));
  }
  return active;
}

void Reference::add() {
  const std::size_t width = columns(out());
  const Range slice = sliced(call_, static_cast<std::uint32_t>(width));
  for (std::size_t r = 0; r < out().shape[0]; ++r) {
    const std::size_t at = r * width + slice.first;
    write(out(), at, read(in(0), at, slice.count) + read(in(1), at, slice.count));
    tally_.elementwise += slice.count;
  }
}

void Reference::gather() {
  const std::size_t width = columns(out());
  for (std::size_t s = 0; s < out().shape[0]; ++s) {
    write(out(), s * width, read(in(0), index(in(1), s, in(0).shape[0]) * width, width));
  }
}

void Reference::expert_sum() {
  const std::size_t width = columns(out()), k = columns(in(1));
  const Range slice = sliced(call_, static_cast<std::uint32_t>(width));
  for (std::size_t b = 0; b < out().shape[0]; ++b) {
    Vector sum = Vector::Zero(slice.count);
    for (std::size_t j = 0; j < k; ++j) {
      const double weight = read(in(2), b * k + j, 1)[0];
      sum += weight * read(in(0), index(in(1), b * k + j, in(0).shape[0]) * width + slice.first, slice.count);
      tally_.elementwise += 2 * slice.count;
    }
    write(out(), b * width + slice.first, sum);
  }
}

void Reference::reduce() {
  const std::size_t rows = out().shape[0], width = columns(out());
  const Range slice = sliced(call_, static_cast<std::uint32_t>(width));
  for (std::size_t r = 0; r < rows; ++r) {
    Vector sum = Vector::Zero(slice.count);
    for (std::size_t p = 0; p < in(0).shape[0]; ++p) {
      sum += read(in(0), (p * rows + r) * width + slice.first, slice.count);
      if (p > 0) tally_.elementwise += slice.count;
    }
    write(out(), r * width + slice.first, sum);
  }
}

void Reference::softmax() {
  const std::size_t width = columns(in(0));
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) write(out(), r * width, softmax(read(in(0), r * width, width)));
  tally_.elementwise *= static_cast<std::uint64_t>(call_.params[1]);  // done again and again, for its time
}

void Reference::copy() {
  const std::size_t width = columns(in(0));
  for (std::size_t r = 0; r < elements(in(0)) / width; ++r) {
    if (call_.places != nullptr) {
      write(out(), (*call_.places)[r] * kPlaceUnit / sizeof(float), read_at(in(0), (*call_.rows)[r] * kPlaceUnit, width));
      continue;
    }
    write(out(), r * width, read(in(0), r * width, width));
    if (in(0).format != out().format) tally_.conversions += width;
  }
}

Outcome Reference::run() {
  switch (call_.op) {
    case Op::embed:
      embed();
      break;
    case Op::rms_norm:
      rms_norm();
      break;
    case Op::matmul:
      matmul();
      break;
    case Op::rope:
      rope();
      break;
    case Op::kv_append:
      kv_append();
      break;
    case Op::attention:
      attention();
      break;
    case Op::glu:
      return glu();
    case Op::add:
      add();
      break;
    case Op::gather:
      gather();
      break;
    case Op::route:
      return route();
    case Op::expert_sum:
      expert_sum();
      break;
    case Op::reduce:
      reduce();
      break;
    case Op::sample:
      return sample();
    case Op::copy:
      copy();
      break;
    case Op::select:
      return select();
    case Op::accumulate:
      accumulate();
      break;
    case Op::precompute:
      touch(in(0), view_bytes(in(0)));
      tally_.elementwise += work::kTable * elements(in(0));
      break;
    case Op::softmax:
      softmax();
      break;
  }
  return {};
}

}  // namespace vitro::reference

namespace vitro {

Outcome run_reference(const KernelCall& call, WorkCounts* tally) {
  WorkCounts ignored;
  return reference::Reference(call, tally != nullptr ? *tally : ignored).run();
}

}  // namespace vitro
