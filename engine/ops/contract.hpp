// What each operator means: operand order, shapes and the use of KernelCall::params. B and R are row counts, all activations
// float32 row-major. Kernels read whole operands and write only their slice of the output. Where an operator needs
// positions, B is the size of call.batch. check_call() holds a call against this before a kernel runs.
// KernelCall::rows (matmul, glu, select, accumulate) holds row numbers of the whole operand, ascending, all inside the slice;
// other elements of the output stay as they are. KernelCall::places (matmul, accumulate) says where in the first operand's
// memory each of these rows lies; the operand's shape is then that of the matrix whose rows they are. A vector [D] may also
// be written [1, D]; q, k and v may have heads and dim folded.
#pragma once
#include "engine/ops/kernel_call.hpp"

namespace vitro {

enum class Activation : std::uint8_t { silu, relu, relu_squared, gelu };
enum class RopeStyle : std::uint8_t { interleaved, half_split };  // pairs (2i, 2i+1), or (i, i + dims/2)

// What select reads: the truth, or a guess at it. It tells a Function that draws or replays which of the two is asked for.
enum class SelectOf : std::uint8_t { gate, predictor };
inline SelectOf select_of(const KernelCall& call) { return static_cast<SelectOf>(call.params[2]); }  // Requires: Op::select

namespace contract {

// embed: in {table [V, D] of any Format, Layout::rows; tokens index32 [B]}; out [B, D].
// rms_norm: in {x [R, D] or [R, heads, D], weight [D]}; out as x, may alias it; params {eps}; slice over heads, where there are
//   heads. Each run of D: y = x / sqrt(mean(x^2) + eps) * weight.
// matmul: in {W [N, K]; x [R, K]; of W in q4_nibbles its scales f16 [N, K/32]; optional bias f32 [N]}; out [R, N]; slice
//   over N (a multiple of kTileRows unless it ends at N, for Layout::tiled). Scales stand in row order: places are of W alone.
// rope: in {x [B, heads, dim]; optional f32 [dims/2] frequency divisors}; out the same view (in place); slice over heads;
//   params {base, rotary dims, style, position scale}. Pair i turns by position * scale * base^(-2i/dims) / divisor_i.
// kv_append: in {k [B, KVH, dim]; v [B, KVH, dim]; block table index32 [B, blocks]}; out pool of P heads, a multiple of KVH, below;
//   slice over P; params {layers in the pool}. Writes position p of its sequence to block table[b][p / block_tokens], head h of k and
//   v to each of the heads h * P / KVH up to the next one's first.
// attention: in {q [B, H, dim]; pool; block table}; out [B, H, dim]; slice over P (each with its H / P query heads);
//   params {scale, window (0: all), layers in the pool}. Row b sees positions max(0, p - window + 1) .. p of its sequence.
//   s_i = scale * (16-lane dot of q and k_i); e_i = exp(s_i - max s); y = (sum over i ascending, fused, of e_i v_i) / (16-lane
//   sum of e_i). In the variant kLutExp: variants.hpp.
// The KV pool: view shape {P, block_tokens, dim}, format f32, f16 or int8_fp8; bytes [block][layer][K then V][P][block_tokens][dim],
//   a row of int8_fp8 as engine/quant/kv_rows.hpp says, whose numbers enter sums as the float32 that they stand for;
//   the layer is call.layer, but for a pool of one layer, which may hold several as blocks of their own. P is the number of KV heads, or of
//   query heads where each keeps keys and values of its own.
// glu: in {gate [R, N]; up [R, N]}; out [R, N]; slice over N; params {Activation}. h = act(gate) * up. With report_active,
//   the outcome is the ActiveSet of neurons n in the slice with act(gate[r][n]) != 0.
// add: in {a [R, N]; b [R, N]}; out [R, N], may alias a; slice over N.
// gather: in {x [R, D]; index32 [S]}; out [S, D].
// route: in {logits [B, E]}; no out; params {k, renormalise (1: softmax over the chosen k; 0: over all, chosen kept)};
//   outcome: one ExpertChoice per row; equal logits choose the lower id.
// expert_sum: in {partials [S, N]; sources index32 [B, k] (rows of partials, by ascending expert id); weights f32 [B, k]};
//   out [B, N]; slice over N. y = sum over j ascending of weights[b][j] * partials[sources[b][j]].
// reduce: in {partials [P, R, N]}; out [R, N]; slice over N; adds p = 0, 1, ... in order.
// sample: in {logits [B, V]; uniforms f32 [B]}; no out; params {temperature (0: arg-max, the lowest id wins a tie), top_k
//   (0: all), top_p (1: all)}; outcome TokenChoice.
// copy: in {x [R, N]}; out [R, N] of another Format. With rows and places, R of each: row i is taken rows[i] kPlaceUnit behind x's offset
//   and put places[i] behind the output's, in any order; no two places overlap. Both sides are f32 then, whatever the bytes mean.
// select: in {scores [R, N]}; no out; slice over N; params {threshold, Activation or -1 (none), SelectOf}; outcome: the
//   ActiveSet of neurons n with |act(scores[r][n])| > threshold, without an activation scores[r][n] > threshold.
// accumulate: in {Wt [N, D] of any Format, Layout::rows; h [R, N]; of q4_nibbles the scales f16 [N, D/32]}; out [R, D]; slice
//   over N (the neurons); params {1: on top of what y holds, 0: from zero}.
//   y[r] = sum over the named n ascending, one fused multiply-add each, of h[r][n] * Wt[n], dequantised exactly. A neuron
//   whose h is 0 in a row adds nothing to that row. Where variant::adds_in_int8: KernelSet::placed_coefficients_q4_0 over the others.

// Throws RunError naming operator, operand and shape when a call breaks the contract above.
void check_call(const KernelCall& call);

}  // namespace contract
}  // namespace vitro
