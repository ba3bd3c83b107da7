// One call in the reference's hands. Internal to this folder.
#pragma once
#include <Eigen/Core>
#include <vector>

#include "engine/ops/operands.hpp"
#include "engine/ops/reference/reference.hpp"
#include "engine/ops/work.hpp"

namespace vitro::reference {

using Vector = Eigen::VectorXd;

// One call being computed: reads and writes rows as vectors of double and tallies what passes.
class Reference {
 public:
  Reference(const KernelCall& call, WorkCounts& tally) : call_(call), tally_(tally) {}
  Outcome run();

 private:
  void touch(const View& v, Bytes bytes) { tally_.read[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void touch_written(const View& v, Bytes bytes) { tally_.written[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  // n elements from element `first` on. Requires: block formats: whole blocks.
  Vector read(const View& v, std::size_t first, std::size_t n) { return read_at(v, row_bytes(v.format, first), n); }
  Vector read_at(const View& v, Bytes at, std::size_t n) {
    std::vector<float> values(n);
    touch(v, row_bytes(v.format, n));
    dequantise_row(v.format, v.data() + at, values.data(), n);
    return Eigen::Map<Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(n)).cast<double>();
  }
  // A weight row and, of q4_nibbles, its scales.
  Vector read_weights(std::size_t row, Bytes at) {
    const View& w = in(0);
    const View* scales = scales_of(call_);
    if (scales == nullptr) return read_at(w, at, columns(w));
    std::vector<float> values(columns(w));
    touch(w, row_bytes(w.format, values.size()));
    touch(*scales, scale_row_bytes(w));
    dequantise_nibbles(w.data() + at, scales->data() + row * scale_row_bytes(w), values.data(), values.size());
    return Eigen::Map<Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(values.size())).cast<double>();
  }
  std::uint32_t index(const View& v, std::size_t i, std::size_t bound) {
    touch(v, 4);
    const std::uint32_t value = v.as<std::uint32_t>()[i];
    if (value >= bound) throw RunError(std::string(to_string(call_.op)) + ": index " + std::to_string(value) + " is outside");
    return value;
  }
  void write(const View& v, std::size_t first, const Vector& values) {
    const Eigen::VectorXf rounded = values.cast<float>();
    const auto n = static_cast<std::size_t>(values.size());
    touch_written(v, row_bytes(v.format, n));
    quantise_row(v.format, rounded.data(), v.data() + row_bytes(v.format, first), n);
  }
  // A row of the call's first operand, which is in groups of rows. They are unpacked one at a time.
  Vector tiled_row(const View& w, std::size_t row);
  // Calls f(row, values) for each weight row that the call names.
  template <class F>
  void for_each_weight_row(F f);
  double activation(Activation act, double g) const;
  Vector softmax(const Vector& x) {
    tally_.elementwise += work::kSoftmax * static_cast<std::uint64_t>(x.size());
    const Vector e = (x.array() - x.maxCoeff()).exp();
    return e / e.sum();
  }

  void embed();
  void rms_norm();
  void matmul();
  void rope();
  void kv_append();
  void attention();
  Outcome glu();
  void add();
  void gather();
  Outcome route();
  void expert_sum();
  void reduce();
  Outcome sample();
  void copy();
  void softmax();
  Outcome select();
  void accumulate();

  const View& in(std::size_t i) const { return call_.in[i]; }
  const View& out() const { return call_.out[0]; }
  const KernelCall& call_;
  WorkCounts& tally_;
  std::vector<std::byte> unpacked_;
  std::size_t unpacked_group_ = ~std::size_t{0};
};

}  // namespace vitro::reference
