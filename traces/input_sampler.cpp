#include "traces/input_sampler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/file.hpp"

namespace vitro {

Outcome InputSampler::execute(const KernelCall& call) {
  if (call.is<ops::Matmul>() || call.is<ops::Glu>()) {
    const std::scoped_lock lock(mutex_);
    const View& x = call.in[1];
    if (call.is<ops::Matmul>()) {
      inputs_[{call.out[0].memory.id(), call.out[0].offset}] = {x.as<float>(), x.shape[0], x.shape[1]};
    } else if (call.slice.first == 0) {  // once per FFN, however many units share it
      keep(call);
    }
  }
  return inner_.execute(call);
}

void InputSampler::keep(const KernelCall& glu) {
  const auto found = inputs_.find({glu.in[0].memory.id(), glu.in[0].offset});
  if (found == inputs_.end()) return;
  const Rows& x = found->second;
  std::vector<float>& kept = kept_[{glu.layer, glu.expert}];
  const std::size_t wanted = std::min(x.count, rows_ - kept.size() / x.width);
  kept.insert(kept.end(), x.data, x.data + wanted * x.width);
}

void InputSampler::save(const std::string& folder) const {
  for (const auto& [of, rows] : kept_) {
    OutputFile file(fmt::format("{}/{}.{}.f32", folder, of.first, of.second));
    file.write(std::as_bytes(std::span(rows)));
    file.commit();
  }
}

}  // namespace vitro
