#include "traces/input_moments.hpp"

#include "engine/base/check.hpp"

namespace vitro {

std::size_t InputMoments::watch(const std::byte* weights, std::uint32_t columns) {
  const bool added = watched_.emplace(weights, sums_.size()).second;
  VITRO_CHECK(weights != nullptr && added, "a matrix to watch has a place of its own");
  sums_.push_back({Eigen::MatrixXd::Zero(columns, columns), 0});
  return sums_.size() - 1;
}

Outcome InputMoments::execute(const KernelCall& call) {
  if (call.is<ops::Matmul>() && call.slice.first == 0 && (call.rows == nullptr || (!call.rows->empty() && call.rows->front() == 0))) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = watched_.find(call.in[0].data()); found != watched_.end()) {
      const View& x = call.in[1];
      Sum& sum = sums_[found->second];
      VITRO_CHECK(x.format == Format::f32 && x.shape[1] == sum.moments.cols(), "inputs of a matrix are float32 [R, K]");
      const Eigen::Map<const Eigen::MatrixXf> rows(x.as<float>(), x.shape[1], x.shape[0]);  // a column each
      sum.moments.selfadjointView<Eigen::Lower>().rankUpdate(rows.cast<double>());
      sum.rows += x.shape[0];
    }
  }
  return inner_.execute(call);
}

}  // namespace vitro
