// What attention does beside its tiles and its softmax: masks of scores, and reciprocals of sums.
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_integers.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

// Of a tile's 32 keys, the first of which is key `first`.
int32_t seen_of_tile(uint32_t seen, uint32_t first) {
  const auto left = static_cast<int32_t>(seen - first);
  return left < 0 ? 0 : left < static_cast<int32_t>(kTile) ? left : static_cast<int32_t>(kTile);
}

}  // namespace

extern "C" [[gnu::noinline]] void hvx_mask_scores(uint16_t* scores, const uint32_t* seen, uint32_t pairs, uint32_t first) {
  HVX_Vector* s = vectors_at(scores);
  const HVX_Vector places = *vectors_at(kAttention.places);
  for (uint32_t i = 0; i < pairs; ++i) {
    const int32_t even = seen_of_tile(seen[2 * i], first), odd = seen_of_tile(seen[2 * i + 1], first);
    s[i] = seen_scores<HvxIntegers>(s[i], places, even | odd << 16);
  }
}

extern "C" [[gnu::noinline]] void hvx_reciprocals(uint16_t* sums, uint32_t pairs) {
  for (; pairs > 0; --pairs, sums += kVectorBytes / sizeof *sums) {
    const float even = reciprocal(sums[0]), odd = reciprocal(sums[1]);
    reinterpret_cast<float*>(sums)[0] = even;
    reinterpret_cast<float*>(sums)[1] = odd;
  }
}

}  // namespace vitro::hexagon
