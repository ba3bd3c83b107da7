// FlashAttention of one tile of queries: tables and comparisons in HVX, HMX as a model, floats as scalars.
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx_ieee.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"

namespace vitro::hexagon {
namespace {

alignas(kVectorBytes) AttentionScratch<HVX_Vector> scratch;  // on a phone in TCM
HmxModel hmx;

}  // namespace

extern "C" [[gnu::noinline]] void float_attention(const AttentionShape* shape, const uint16_t* q, const uint16_t* k, const uint16_t* v,
                                                  const uint16_t* table, uint16_t* out) {
  attend<HvxIeee>(*shape, q, k, v, table, scratch, hmx, out);
}

}  // namespace vitro::hexagon
