#include "engine/kernels/reference/reference.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/kernels/operands.hpp"
#include "engine/kernels/reference/work.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro {
namespace {

using Vector = Eigen::VectorXd;

// One call being computed: reads and writes rows as vectors of double and tallies what passes.
class Reference {
 public:
  Reference(const KernelCall& call, WorkCounts& tally) : call_(call), tally_(tally) {}
  Outcome run();

 private:
  void touch(const View& v, Bytes bytes) { tally_.read[static_cast<std::size_t>(v.memory.placement())] += bytes; }
  // n elements from element `first` on. Requires: block formats: whole blocks.
  Vector read(const View& v, std::size_t first, std::size_t n) {
    std::vector<float> values(n);
    touch(v, row_bytes(v.format, n));
    dequantise_row(v.format, v.data() + row_bytes(v.format, first), values.data(), n);
    return Eigen::Map<Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(n)).cast<double>();
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
    tally_.written[static_cast<std::size_t>(v.memory.placement())] += row_bytes(v.format, n);
    quantise_row(v.format, rounded.data(), v.data() + row_bytes(v.format, first), n);
  }
  // The weight row of a matmul. Tiled groups are visited in place: row r of a group has its units 16 apart.
  Vector weight_row(const View& w, std::size_t row);
  double activation(double g) const;
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

  const View& in(std::size_t i) const { return call_.in[i]; }
  const View& out() const { return call_.out[0]; }
  const KernelCall& call_;
  WorkCounts& tally_;
};

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
  for (std::size_t r = 0; r < out().shape[0]; ++r) {
    const Vector x = read(in(0), r * width, width);
    const double mean = x.squaredNorm() / static_cast<double>(width);
    write(out(), r * width, x.cwiseProduct(weight) / std::sqrt(mean + double{call_.params[0]}));
    tally_.elementwise += work::kNorm * width;
  }
}

Vector Reference::weight_row(const View& w, std::size_t row) {
  const std::size_t k = columns(w);
  if (w.layout == Layout::rows) return read(w, row * k, k);
  const std::size_t block = block_bytes(w.format), units = (block - 2) / 4;
  std::vector<std::byte> bytes(row_bytes(w.format, k));
  const std::byte* group = w.data() + row / kTileRows * kTileRows * bytes.size();
  const std::size_t lane = row % kTileRows;
  for (std::size_t b = 0; b < k / kBlock; ++b) {
    const std::byte* from = group + b * kTileRows * block;
    std::copy_n(from + 2 * lane, 2, &bytes[b * block]);
    for (std::size_t j = 0; j < units; ++j) std::copy_n(from + 2 * kTileRows + 4 * (j * kTileRows + lane), 4, &bytes[b * block + 2 + 4 * j]);
  }
  touch(w, bytes.size());
  std::vector<float> values(k);
  dequantise_row(w.format, bytes.data(), values.data(), k);
  return Eigen::Map<Eigen::VectorXf>(values.data(), static_cast<Eigen::Index>(k)).cast<double>();
}

void Reference::matmul() {
  const std::size_t n = in(0).shape[0], k = in(0).shape[1], batch = in(1).shape[0];
  Eigen::MatrixXd x(k, batch);
  for (std::size_t b = 0; b < batch; ++b) x.col(static_cast<Eigen::Index>(b)) = read(in(1), b * k, k);
  if (call_.variant == variant::kInt8) {
    tally_.conversions += k * batch;
  }
  for_each_run(call_, static_cast<std::uint32_t>(n), [&](Range run) {
    ++tally_.row_runs;
    for (std::size_t row = run.first; row < run.end(); ++row) {
      const Vector w = weight_row(in(0), row);
      if (call_.variant != variant::kInt8 && in(0).format != Format::f32) tally_.conversions += k;
      const bool biased = call_.in.size() > 2;
      const double bias = biased ? read(in(2), row, 1)[0] : 0;
      for (std::size_t b = 0; b < batch; ++b) {
        write(out(), b * n + row, Vector::Constant(1, w.dot(x.col(static_cast<Eigen::Index>(b))) + bias));
        tally_.macs += k;
        tally_.elementwise += biased;
      }
    }
  });
}

void Reference::rope() {
  const std::size_t heads = out().shape[1], dim = out().shape[2];
  const auto pairs = static_cast<std::uint32_t>(call_.params[1]) / 2;
  const bool interleaved = static_cast<RopeStyle>(call_.params[2]) == RopeStyle::interleaved;
  std::vector<float> cosines(pairs), sines(pairs);
  if (call_.in.size() > 1) touch(in(1), Bytes{4} * pairs);
  const Range slice = sliced(call_, static_cast<std::uint32_t>(heads));
  for (std::size_t b = 0; b < out().shape[0]; ++b) {
    rope_angles(call_, (*call_.batch)[b].position, cosines.data(), sines.data());
    tally_.elementwise += work::kAngle * pairs;
    for (std::size_t h = slice.first; h < slice.end(); ++h) {
      Vector x = read(in(0), (b * heads + h) * dim, dim);
      for (std::uint32_t i = 0; i < pairs; ++i) {
        double& first = x[interleaved ? 2 * i : i];
        double& second = x[interleaved ? 2 * i + 1 : i + pairs];
        const double turned = first * cosines[i] - second * sines[i];
        second = first * sines[i] + second * cosines[i];
        first = turned;
        tally_.elementwise += work::kTurn;
      }
      write(out(), (b * heads + h) * dim, x);
    }
  }
}

void Reference::kv_append() {
  const KvPool pool(out(), call_.params[0], call_.layer);
  const Range slice = sliced(call_, pool.kv_heads);
  for (std::size_t b = 0; b < call_.batch->size(); ++b) {
    const std::uint32_t position = (*call_.batch)[b].position;
    const std::uint32_t block = index(in(2), b * in(2).shape[1] + position / pool.block_tokens, ~0u);
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        const Vector x = read(in(which), (b * pool.kv_heads + h) * pool.dim, pool.dim);
        write(out(), pool.offset(block, which, h) / pool.element_bytes() + position % pool.block_tokens * pool.dim, x);
        if (pool.format != Format::f32) tally_.conversions += pool.dim;
      }
    }
  }
}

void Reference::attention() {
  const KvPool pool(in(1), call_.params[2], call_.layer);
  const std::size_t batch = call_.batch->size(), dim = pool.dim, heads = elements(in(0)) / batch / dim, group = heads / pool.kv_heads;
  const Range slice = sliced(call_, pool.kv_heads);
  for (std::size_t b = 0; b < batch; ++b) {
    const Range tokens = visible((*call_.batch)[b].position, static_cast<std::uint32_t>(call_.params[1]));
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      Eigen::MatrixXd kv[2];  // [dim, tokens] each
      for (std::uint32_t which = 0; which < 2; ++which) {
        kv[which].resize(static_cast<Eigen::Index>(dim), tokens.count);
        std::uint32_t block = 0;
        for (std::uint32_t i = 0; i < tokens.count; ++i) {
          const std::uint32_t t = tokens.first + i, inside = t % pool.block_tokens;
          if (i == 0 || inside == 0) {
            block = index(in(2), b * in(2).shape[1] + t / pool.block_tokens, ~0u);
            ++tally_.row_runs;
          }
          kv[which].col(i) = read(in(1), pool.offset(block, which, h) / pool.element_bytes() + inside * dim, dim);
          if (pool.format != Format::f32) tally_.conversions += dim;
        }
      }
      for (std::size_t g = 0; g < group; ++g) {
        const std::size_t at = (b * heads + h * group + g) * dim;
        const Vector q = read(in(0), at, dim);
        const Vector p = softmax(double{call_.params[0]} * (kv[0].transpose() * q));
        write(out(), at, kv[1] * p);
        tally_.macs += 2 * dim * tokens.count;
        tally_.elementwise += tokens.count + dim;  // the scale, and the division by the sum
      }
    }
  }
}

double Reference::activation(double g) const {
  switch (static_cast<Activation>(call_.params[0])) {
    case Activation::silu: return g / (1 + std::exp(-g));
    case Activation::relu: return std::max(g, 0.0);
    case Activation::relu_squared: return std::max(g, 0.0) * std::max(g, 0.0);
    case Activation::gelu: return 0.5 * g * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g)));
  }
  return 0;
}

Outcome Reference::glu() {
  const std::size_t rows = out().shape[0], width = columns(out());
  ActiveSet active;
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<std::uint32_t> ids;
    for_each_run(call_, static_cast<std::uint32_t>(width), [&](Range run) {
      const Vector gate = read(in(0), r * width + run.first, run.count).unaryExpr([this](double g) { return activation(g); });
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

// The ids by descending value, the lower id first among equals.
std::vector<std::uint32_t> by_descending(const Vector& x) {
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(x.size()));
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
  return ids;
}

Outcome Reference::route() {
  const std::size_t experts = columns(in(0)), k = static_cast<std::size_t>(call_.params[0]);
  std::vector<ExpertChoice> choices;
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) {
    const Vector logits = read(in(0), r * experts, experts);
    tally_.elementwise += experts;
    std::vector<std::uint32_t> ids = by_descending(logits);
    ids.resize(k);
    Vector chosen(k);
    for (std::size_t j = 0; j < k; ++j) chosen[static_cast<Eigen::Index>(j)] = logits[ids[j]];
    const Vector weights = softmax(call_.params[1] != 0 ? chosen : logits);
    ExpertChoice choice;
    for (std::size_t j = 0; j < k; ++j) {
      choice.ids.push_back(static_cast<std::uint16_t>(ids[j]));
      choice.weights.push_back(static_cast<float>(weights[call_.params[1] != 0 ? j : ids[j]]));
    }
    choices.push_back(std::move(choice));
  }
  return choices;
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

Outcome Reference::sample() {
  const std::size_t vocab = columns(in(0));
  TokenChoice choice;
  for (std::size_t r = 0; r < in(0).shape[0]; ++r) {
    const Vector logits = read(in(0), r * vocab, vocab);
    const double uniform = read(in(1), r, 1)[0];
    tally_.elementwise += vocab;
    std::vector<std::uint32_t> ids = by_descending(logits);
    if (call_.params[0] == 0) {
      choice.tokens.push_back(static_cast<std::int32_t>(ids[0]));
      continue;
    }
    const auto top_k = static_cast<std::size_t>(call_.params[1]);
    const bool cut = (top_k > 0 && top_k < vocab) || call_.params[2] < 1;
    if (!cut) std::sort(ids.begin(), ids.end());
    if (top_k > 0) ids.resize(std::min(top_k, vocab));
    Vector scaled(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) scaled[static_cast<Eigen::Index>(i)] = logits[ids[i]] / double{call_.params[0]};
    const Vector p = softmax(scaled);
    double mass = 0;
    Eigen::Index kept = 0;
    while (kept < p.size() && (kept == 0 || call_.params[2] >= 1 || mass < call_.params[2])) mass += p[kept++];
    Eigen::Index chosen = 0;
    for (double sum = p[0]; chosen + 1 < kept && sum <= uniform * mass;) sum += p[++chosen];
    choice.tokens.push_back(static_cast<std::int32_t>(ids[static_cast<std::size_t>(chosen)]));
  }
  return choice;
}

void Reference::copy() {
  const std::size_t width = columns(in(0));
  for (std::size_t r = 0; r < elements(in(0)) / width; ++r) {
    write(out(), r * width, read(in(0), r * width, width));
    if (in(0).format != out().format) tally_.conversions += width;
  }
}

Outcome Reference::run() {
  switch (call_.op) {
    case Op::embed: embed(); break;
    case Op::rms_norm: rms_norm(); break;
    case Op::matmul: matmul(); break;
    case Op::rope: rope(); break;
    case Op::kv_append: kv_append(); break;
    case Op::attention: attention(); break;
    case Op::glu: return glu();
    case Op::add: add(); break;
    case Op::gather: gather(); break;
    case Op::route: return route();
    case Op::expert_sum: expert_sum(); break;
    case Op::reduce: reduce(); break;
    case Op::sample: return sample();
    case Op::copy: copy(); break;
  }
  return {};
}

}  // namespace

Outcome run_reference(const KernelCall& call, WorkCounts* tally) {
  WorkCounts ignored;
  return Reference(call, tally != nullptr ? *tally : ignored).run();
}

}  // namespace vitro
