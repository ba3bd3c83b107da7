// FFNs with an RMS norm over all neurons between the activation and Down (BitNet's sub-norm):
//   y = sum over n of w[n] h[n] / rms(h) down[n].
// The weights w are in the rows of Down when these are packed, so a cluster adds its neurons up as in any other model, in whatever order
// they come. 1 / rms(h) is one number for a row: it multiplies the sum when all neurons are through. Those that do not fire are zeros in h.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster_ffn.hpp"

namespace vitro {
namespace {

View floats(const Lease& lease, Bytes first, std::array<std::uint32_t, 3> shape) {
  View view;
  view.memory = lease;
  view.offset = Bytes{4} * first;
  view.shape = shape;
  return view;
}

}  // namespace

void ClusterFfn::lease_for_norm() {
  const auto lease = [&](Bytes elements, float value, Lease& into) {
    Result<Lease> result = machine_.memory.lease(4 * elements, Placement::dram, Region::activation);
    if (!result.ok()) throw ConfigError("memory.budget: no room for the norm before Down: " + result.status().message);
    into = std::move(result).value();
    if (into.data() != nullptr) std::fill_n(reinterpret_cast<float*>(into.data()), elements, value);
  };
  lease(store_.neurons(), 0, silent_);
  lease(store_.layout().width, 1, ones_);
  lease(options_.max_rows, 0, scales_);
  lease(Bytes{options_.max_rows} * store_.layout().width, 0, sums_);
}

// In float32, whatever the output is: before they are divided they may be larger than float16 holds.
void ClusterFfn::sum_apart(Step& step) const {
  step.outputs.clear();
  for (std::uint32_t g = 0; g < step.groups.size(); ++g) {
    FfnGroup& group = step.groups[g];
    const View sums = floats(sums_, Bytes{step.first_row[g]} * store_.layout().width, {group.out.shape[0], group.out.shape[1], 0});
    step.outputs.push_back(std::exchange(group.out, sums));
  }
}

// Of the rows of a step, so that what is not computed counts as zero.
Task<void> ClusterFfn::clear_hidden(const Step* step) {
  Chain chain;
  for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
    for (std::uint32_t row = 0; row < step->groups[g].rows->size(); ++row) {
      KernelCall& copy = chain.emplace_back();
      copy.op = ops::Copy{};
      copy.variant = variant::kFloat;
      copy.layer = step->layer;
      copy.in = {floats(silent_, 0, {1, store_.neurons(), 0})};
      copy.out = {floats(hidden_, Bytes{step->first_row[g] + row} * store_.neurons(), {1, store_.neurons(), 0})};
    }
  }
  co_await run_on_first(std::move(chain));
}

Task<void> ClusterFfn::divide_by_norm(const Step* step) {
  Chain chain;
  for (std::uint32_t g = 0; g < step->groups.size(); ++g) {
    const FfnGroup& group = step->groups[g];
    const auto rows = static_cast<std::uint32_t>(group.rows->size());
    const View scales = floats(scales_, step->first_row[g], {rows, 1, 0});
    KernelCall call;
    call.variant = variant::kFloat;
    call.layer = step->layer;
    call.expert = group.expert;
    call.batch = group.rows;
    KernelCall& norm = chain.emplace_back(call);
    norm.op = ops::InverseRms{*options_.norm_eps};
    norm.in = {floats(hidden_, Bytes{step->first_row[g]} * store_.neurons(), {rows, store_.neurons(), 0})};
    norm.out = {scales};
    KernelCall& scale = chain.emplace_back(call);
    scale.op = ops::ScaleRows{};
    scale.in = {group.out, scales, floats(ones_, 0, {store_.layout().width, 0, 0})};
    scale.out = {step->outputs[g]};
  }
  co_await run_on_first(std::move(chain));
}

}  // namespace vitro
