#include "engine/model/npu_int4.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "engine/quant/float16.hpp"

namespace vitro {
namespace {

// To whole multiples, up to `levels`, of one scale for the values that `ids` names.
void round_together(std::span<float> channel, std::span<const std::size_t> ids, float levels) {
  float largest = 0;
  for (const std::size_t id : ids) largest = std::max(largest, std::abs(channel[id]));
  const float scale = half_to_float(float_to_half(largest / levels));
  for (const std::size_t id : ids) {
    channel[id] = scale == 0 ? 0 : scale * std::clamp(std::round(channel[id] / scale), -levels, levels);
  }
}

}  // namespace

void round_to_int4_channel(std::span<float> channel, double outliers) {
  std::vector<std::size_t> ids(channel.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  const auto apart = static_cast<std::size_t>(std::ceil(outliers * static_cast<double>(channel.size())));
  std::stable_sort(ids.begin(), ids.end(), [&](std::size_t a, std::size_t b) { return std::abs(channel[a]) > std::abs(channel[b]); });
  round_together(channel, std::span(ids).first(apart), 127);
  round_together(channel, std::span(ids).subspan(apart), 7);
}

}  // namespace vitro
