#include "engine/ops/matmul.hpp"

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro::ops {

void Matmul::check(const Checker& check) const {
  const View &w = check.in(0), &x = check.in(1);
  const KernelCall& call = check.call();
  if (!variant::supports(call.variant, w.format, w.layout)) {
    check.fail("W", w, "variant " + std::string(variant::name(call.variant)) + " does not take it");
  }
  check.view(w, "W", {0, 0});
  check.floats(x, "x", {0, w.shape[1]});
  check.scales(w);
  if (const View* bias = bias_of(call)) check.float_elements(*bias, "bias", w.shape[0]);
  check.floats(check.out(), "y", {x.shape[0], w.shape[0]});
  check.slice(w.shape[0]);
  if (w.layout == Layout::rows) return;
  const std::uint32_t group = group_rows(w.layout);
  if (w.shape[0] % group != 0) check.fail("W", w, "tiled rows have to be a multiple of " + std::to_string(group));
  const Range slice = sliced(call, w.shape[0]);
  if (slice.first % group != 0 || slice.end() % group != 0) {
    check.fail("slice " + std::to_string(slice.first) + "+" + std::to_string(slice.count) + " cuts a tile of " + std::to_string(group));
  }
}

// What makes int8 of activations in blocks keeps it for the next product.
static bool quantises(const KernelCall& call) {
  return !call.quantised_before || (call.variant != variant::kInt8 && call.variant != variant::kInt8Tables);
}

void Matmul::count(Counter& c) const {
  const View &w = c.in(0), &x = c.in(1);
  const std::uint64_t k = w.shape[1], batch = x.shape[0], rows = c.weight_rows();
  const VariantId id = c.call.variant;
  c.read_all(x);
  if (const View* bias = bias_of(c.call)) {
    c.read(*bias, 4 * rows);
    c.counts.elementwise += rows * batch;
  }
  c.write_floats(rows * batch);
  c.counts.macs = rows * k * batch;
  if (id == variant::kInt8 || id == variant::kInt8Tables || id == variant::kInt16Tables || id == variant::kInt8Rows) {
    c.counts.conversions = quantises(c.call) ? k * batch : 0;
  } else if (w.format != Format::f32) {
    c.counts.conversions = rows * k;
  }
}

void Matmul::reference(Reference& r) const {
  const std::size_t n = r.in(0).shape[0], k = r.in(0).shape[1], batch = r.in(1).shape[0];
  Eigen::MatrixXd x(k, batch);
  for (std::size_t b = 0; b < batch; ++b) x.col(static_cast<Eigen::Index>(b)) = r.read(r.in(1), b * k, k);
  const bool int8 = r.call().variant == variant::kInt8;
  if (int8 && quantises(r.call())) r.tally().conversions += k * batch;
  r.for_each_weight_row([&](std::size_t row, const Vector& w) {
    if (!int8 && r.in(0).format != Format::f32) r.tally().conversions += k;
    const View* biases = bias_of(r.call());
    const double bias = biases != nullptr ? r.read(*biases, row, 1)[0] : 0;
    for (std::size_t b = 0; b < batch; ++b) {
      r.write(r.out(), b * n + row, Vector::Constant(1, w.dot(x.col(static_cast<Eigen::Index>(b))) + bias));
      r.tally().macs += k;
      r.tally().elementwise += biases != nullptr;
    }
  });
}

}  // namespace vitro::ops
