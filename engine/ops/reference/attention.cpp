#include "engine/ops/reference/call.hpp"

namespace vitro::reference {

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
  const Range slice = sliced(call_, pool.heads);
  const std::uint32_t copies = copies_of(in(0), out());
  for (std::size_t b = 0; b < call_.batch->size(); ++b) {
    const std::uint32_t position = (*call_.batch)[b].position;
    const std::uint32_t block = index(in(2), b * in(2).shape[1] + position / pool.block_tokens, ~0u);
    for (std::uint32_t which = 0; which < 2; ++which) {
      Vector x;
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        if (h == slice.first || h % copies == 0) x = read(in(which), (b * pool.heads / copies + h / copies) * pool.dim, pool.dim);
        touch_written(out(), pool.row_bytes(which));
        const Eigen::VectorXf rounded = x.cast<float>();
        write_kv_row(pool.format, which, rounded.data(), pool.dim,
                     out().data() + pool.offset(block, which, h) + position % pool.block_tokens * pool.row_bytes(which));
        if (pool.format != Format::f32) tally_.conversions += pool.dim;
      }
    }
  }
}

void Reference::attention() {
  const KvPool pool(in(1), call_.params[2], call_.layer);
  const std::size_t batch = call_.batch->size(), dim = pool.dim, heads = elements(in(0)) / batch / dim, group = heads / pool.heads;
  const Range slice = sliced(call_, pool.heads);
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
          Eigen::VectorXf row(static_cast<Eigen::Index>(dim));
          touch(in(1), pool.row_bytes(which));
          read_kv_row(pool.format, which, in(1).data() + pool.offset(block, which, h) + inside * pool.row_bytes(which), pool.dim,
                      row.data());
          kv[which].col(i) = row.cast<double>();
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

}  // namespace vitro::reference
