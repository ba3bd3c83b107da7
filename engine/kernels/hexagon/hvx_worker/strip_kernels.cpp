// Tiles of the matrix unit: of int8 from bit-serial panels, and of fp16 from rows as a file has them. A weight tile is their transpose with
// every two rows permuted (TTS-NPU Fig. 4): two halves of a row, one word, stay together, so a pair of tiles is one of 32 x 32 words.
#include "engine/kernels/hexagon/hmx.hpp"
#include "engine/kernels/hexagon/hvx_worker/hvx.hpp"
#include "engine/kernels/hexagon/hvx_worker/kernels.hpp"
#include "engine/kernels/hexagon/hvx_worker/transpose.hpp"

namespace vitro::hexagon {
namespace {

// 64 columns of 32 rows to a pair of tiles.
[[gnu::always_inline]] inline void pair_of_tiles(const HVX_Vector* in, uint32_t stride, HVX_Vector* out) {
  const auto rows_of = [in, stride](uint32_t half) {
    return [from = in + half * kHalfOfRows * stride, stride](uint32_t i) { return from[i * stride]; };
  };
  transpose(rows_of, [](HVX_Vector&, HVX_Vector&) {}, out);
}

// What the planes from kPlane on find for eight columns' low or high nibbles: columns 0 and 1, and 2 and 3.
struct Found {
  HVX_VectorPair first, second;
};
HVX_VectorPair either(HVX_VectorPair a, HVX_VectorPair b) {
  return Q6_W_vcombine_VV(Q6_V_vor_VV(Q6_V_hi_W(a), Q6_V_hi_W(b)), Q6_V_vor_VV(Q6_V_lo_W(a), Q6_V_lo_W(b)));
}
template <uint32_t kBits, bool kHigh, uint32_t kPlane = 0>
Found find(const HVX_Vector* planes, HVX_Vector low, HVX_Vector high) {
  const HVX_Vector tables = kPlane < 2 ? low : high, bits = kHigh ? high_nibbles(planes[kPlane]) : planes[kPlane];
  const Found found{look_up<kPlane % 2 * 2>(bits, tables), look_up<kPlane % 2 * 2 + 1>(bits, tables)};
  if constexpr (kPlane + 1 == kBits) {
    return found;
  } else {
    const Found more = find<kBits, kHigh, kPlane + 1>(planes, low, high);
    return {either(found.first, more.first), either(found.second, more.second)};
  }
}

// Rows of a panel stand so that a word of a strip is the even or the odd halves of both (lut_byte()).
void store_words(const Found& found, uint32_t stride, HVX_Vector* out) {
  const HVX_Vector a = Q6_V_lo_W(found.first), b = Q6_V_lo_W(found.second), c = Q6_V_hi_W(found.first), d = Q6_V_hi_W(found.second);
  out[0] = Q6_Vh_vshuffe_VhVh(b, a);
  out[stride] = Q6_Vh_vshuffo_VhVh(b, a);
  out[2 * stride] = Q6_Vh_vshuffe_VhVh(d, c);
  out[3 * stride] = Q6_Vh_vshuffo_VhVh(d, c);
}

template <uint32_t kBits>
void int8_tiles(const HVX_Vector* planes, const HVX_Vector* tables, uint32_t pairs, uint32_t stride, HVX_Vector* out) {
  const HVX_Vector low = tables[0], high = tables[1];
  for (uint32_t p = 0; p < pairs; ++p, planes += kBits, out += 2) {
    store_words(find<kBits, false>(planes, low, high), stride, out);
    store_words(find<kBits, true>(planes, low, high), stride, out + 1);
  }
}

}  // namespace

extern "C" [[gnu::noinline]] void hvx_int8_tiles(const unsigned char* planes, const uint16_t* tables, uint32_t bits, uint32_t pairs,
                                                 uint32_t tiles, int8_t* out) {
  const HVX_Vector *in = vectors_at(planes), *t = vectors_at(tables);
  const uint32_t stride = tiles * (kTileElements / kVectorBytes);
  switch (bits) {
    case 1:
      return int8_tiles<1>(in, t, pairs, stride, vectors_at(out));
    case 2:
      return int8_tiles<2>(in, t, pairs, stride, vectors_at(out));
    case 3:
      return int8_tiles<3>(in, t, pairs, stride, vectors_at(out));
    default:
      return int8_tiles<4>(in, t, pairs, stride, vectors_at(out));
  }
}

extern "C" [[gnu::noinline]] void hvx_f16_tiles(const unsigned char* strip, uint32_t pairs, uint16_t* tiles) {
  const HVX_Vector* in = vectors_at(strip);
  HVX_Vector* out = vectors_at(tiles);
  for (uint32_t p = 0; p < pairs; ++p, in += kTile, out += kTile) pair_of_tiles(in, 1, out);
}

extern "C" [[gnu::noinline]] void hvx_key_tiles(const uint16_t* rows, uint32_t stride, uint16_t* tiles) {
  pair_of_tiles(vectors_at(rows), stride, vectors_at(tiles));
}

// Values are weights as they lie: two rows by turns, half by half.
extern "C" [[gnu::noinline]] void hvx_value_tiles(const uint16_t* rows, uint32_t stride, uint16_t* first, uint16_t* second) {
  const HVX_Vector* in = vectors_at(rows);
  HVX_Vector *a = vectors_at(first), *b = vectors_at(second);
  for (uint32_t i = 0; i < kTilePairs; ++i, in += 2 * stride) {
    const HVX_VectorPair both = Q6_W_vshuff_VVR(in[stride], in[0], -2);
    *a++ = Q6_V_lo_W(both);
    *b++ = Q6_V_hi_W(both);
  }
}

}  // namespace vitro::hexagon
