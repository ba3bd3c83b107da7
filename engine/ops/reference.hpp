// One call in the reference's hands: reads and writes rows as vectors of double and tallies what passes. For the operators' own files.
#pragma once
#include <Eigen/Core>
#include <vector>

#include "engine/ops/activation.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/work.hpp"

namespace vitro::ops {

using Vector = Eigen::VectorXd;

class Reference {
 public:
  Reference(const KernelCall& call, WorkCounts& tally) : call_(call), tally_(tally) {}

  const KernelCall& call() const { return call_; }
  const View& in(std::size_t i) const { return call_.in[i]; }
  const View& out() const { return call_.out[0]; }
  WorkCounts& tally() { return tally_; }

  void touch(const View& v, Bytes bytes) { tally_.read[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  void touch_written(const View& v, Bytes bytes) { tally_.written[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  // n elements from element `first` on. Requires: block formats: whole blocks.
  Vector read(const View& v, std::size_t first, std::size_t n) { return read_at(v, row_bytes(v.format, first), n); }
  Vector read_at(const View& v, Bytes at, std::size_t n);
  std::uint32_t index(const View& v, std::size_t i, std::size_t bound);
  void write(const View& v, std::size_t first, const Vector& values);
  Vector softmax(const Vector& x);

  // Calls f(row, values) for each weight row of the first operand that the call names.
  template <class F>
  void for_each_weight_row(F f) {
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

 private:
  // A weight row and, of q4_nibbles, its scales.
  Vector read_weights(std::size_t row, Bytes at);
  // A row of the call's first operand, which is in groups of rows. They are unpacked one at a time.
  Vector tiled_row(const View& w, std::size_t row);

  const KernelCall& call_;
  WorkCounts& tally_;
  std::vector<std::byte> unpacked_;
  std::size_t unpacked_group_ = ~std::size_t{0};
};

double activated(Activation act, double g);
// The ids by descending value, the lower id first among equals.
std::vector<std::uint32_t> by_descending(const Vector& x);

}  // namespace vitro::ops
