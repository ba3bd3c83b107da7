// Matmuls with weights in panels (panels.hpp) in the contract `a16` (engine/ops/variants.hpp): y [batch, rows] = x [batch, columns] W^T.
// Built once for each form: BITS 4 or 8, ZERO_POINTS 0 or 1, ZERO, IMAGES 0 or 1, FOLDED 0 or 1 (more lines than
// `height`), TILE rows of x. Halfs are loaded by vload_half, which
// every device has, and computed with in float: the result does not depend on whether the device has cl_khr_fp16.
#pragma OPENCL FP_CONTRACT OFF

#if IMAGES
#define WEIGHTS __read_only image2d_t
__constant sampler_t kTexels = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
#if FOLDED
#define LINE(i, row) read_imageui(weights, kTexels, (int2)((row) + (i) / height * count, (i) % height))
#else
#define LINE(i, row) read_imageui(weights, kTexels, (int2)(row, i))
#endif
#else
#define WEIGHTS __global const uint4*
#define LINE(i, row) weights[(size_t)(i)*count + (row)]
#endif

// Where a piece of the weights stands in the matrix. `chunks`: of 32 columns with one scale.
#define OPERANDS                                                                                                             \
  WEIGHTS weights, __global const half *scales, __global const uchar *zeros, __global const half *x, __global float *y,      \
      const uint columns, const uint chunks, const uint rows, const uint first, const uint count, const uint height

#define GIVEN weights, scales, zeros, x, y, columns, chunks, rows, first, count, height

// Of 32 columns: halves h = 0, 1 of four quads each, quad i being columns 16 h + 4 i to 16 h + 4 i + 3.
#if BITS == 4
typedef uint4 Chunk;
#define CHUNK(c, row) LINE(c, row)
int4 codes(const Chunk chunk, const uint h, const uint i) { return as_int4((chunk >> (16 * h + 4 * i)) & 15u); }
#else
typedef uint8 Chunk;
#define CHUNK(c, row) (uint8)(LINE(2 * (c), row), LINE(2 * (c) + 1, row))
int4 codes(const Chunk chunk, const uint h, const uint i) { return as_int4((h == 0 ? chunk.lo : chunk.hi) << (24 - 8 * i)) >> 24; }
#endif

#if ZERO_POINTS
#define ZERO_OF(at) (int)zeros[at]
#else
#define ZERO_OF(at) ZERO
#endif

// The lanes of a row are summed 8 apart, 4, 2, 1.
float sum_of_lanes(const float4 a, const float4 b, const float4 c, const float4 d) {
  const float4 sum = (a + c) + (b + d);
  return (sum.x + sum.z) + (sum.y + sum.w);
}

// One row of x. `parts` work items (dimension 1) share a row of weights, 4 / parts quads of lanes each, and meet in local memory.
void decode_lanes(OPERANDS, __local float4* lanes, const uint parts) {
  const uint row = get_global_id(0), quads = 4 / parts, quad = get_local_id(1) * quads;
  float4 acc[4] = {0, 0, 0, 0};
  if (row < count) {
    for (uint first_chunk = 0; 32 * first_chunk < columns; first_chunk += chunks) {
      const size_t at = (size_t)(first_chunk / chunks) * rows + first + row;
      const float scale = vload_half(at, scales);
      const int zero = ZERO_OF(at);
      for (uint c = first_chunk; c < first_chunk + chunks; ++c) {
        const Chunk chunk = CHUNK(c, row);
        for (uint h = 0; h < 2; ++h) {
          for (uint i = 0; i < quads; ++i) {
            const float4 w = convert_float4(codes(chunk, h, quad + i) - zero) * scale;
            acc[i] = fma(w, vload_half4(8 * c + 4 * h + quad + i, x), acc[i]);
          }
        }
      }
    }
  }
  __local float4* all = lanes + 4 * get_local_id(0);
  for (uint i = 0; i < quads; ++i) all[quad + i] = acc[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (row < count && quad == 0) y[first + row] = sum_of_lanes(all[0], all[1], all[2], all[3]);
}

__kernel void decode_1(OPERANDS, __local float4* lanes) { decode_lanes(GIVEN, lanes, 1); }
__kernel void decode_2(OPERANDS, __local float4* lanes) { decode_lanes(GIVEN, lanes, 2); }
__kernel void decode_4(OPERANDS, __local float4* lanes) { decode_lanes(GIVEN, lanes, 4); }

// TILE rows of x for each work item: weights are read and unpacked once for all of them.
__kernel void prefill(OPERANDS, const uint batch) {
  const uint row = get_global_id(0), m0 = TILE * get_global_id(1);
  if (row >= count) return;
  float4 acc[TILE][4];
  for (uint m = 0; m < TILE; ++m) {
    for (uint i = 0; i < 4; ++i) acc[m][i] = 0;
  }
  for (uint first_chunk = 0; 32 * first_chunk < columns; first_chunk += chunks) {
    const size_t at = (size_t)(first_chunk / chunks) * rows + first + row;
    const float scale = vload_half(at, scales);
    const int zero = ZERO_OF(at);
    for (uint c = first_chunk; c < first_chunk + chunks; ++c) {
      const Chunk chunk = CHUNK(c, row);
      for (uint h = 0; h < 2; ++h) {
        for (uint i = 0; i < 4; ++i) {
          const float4 w = convert_float4(codes(chunk, h, i) - zero) * scale;
          for (uint m = 0; m < TILE; ++m) {  // beyond the batch its last row is computed again
            const __global half* row_of_x = x + (size_t)min(m0 + m, batch - 1) * columns;
            acc[m][i] = fma(w, vload_half4(8 * c + 4 * h + i, row_of_x), acc[m][i]);
          }
        }
      }
    }
  }
  for (uint m = 0; m < TILE && m0 + m < batch; ++m) {
    y[(size_t)(m0 + m) * rows + first + row] = sum_of_lanes(acc[m][0], acc[m][1], acc[m][2], acc[m][3]);
  }
}
