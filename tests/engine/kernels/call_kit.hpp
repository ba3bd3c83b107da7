// Random but reproducible calls of every operator, for tests.
#pragma once
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/aligned.hpp"
#include "engine/base/rng.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::test {

// Each operator in the order of the list, with default parameters.
inline const std::vector<Op> kAllOps = [] {
  return []<std::size_t... I>(std::index_sequence<I...>) { return std::vector<Op>{std::variant_alternative_t<I, Op>{}...}; }
  (std::make_index_sequence<std::variant_size_v<Op>>());
}();

// A view of fresh memory; `skew` bytes before it make its address odd in every larger alignment than an element's.
View make_view(std::array<std::uint32_t, 3> shape, Format format, Bytes skew = 0, Layout layout = Layout::rows);
View laid(const View& rows, Layout layout, Bytes skew = 0);  // the same weights in another layout
void fill(const View& view, Rng& rng, double scale);         // normal draws; formats that can not be quantised get random bytes
View weights(Rng& rng, std::uint32_t rows, std::uint32_t columns, Format format, Layout layout, Bytes skew = 0);
View floats(Rng& rng, std::array<std::uint32_t, 3> shape, double scale = 1, Bytes skew = 0);
View indices(const std::vector<std::uint32_t>& values, std::array<std::uint32_t, 3> shape);

// Of a matmul or an accumulate of q4_0 in rows: the same weights as nibbles and scales apart.
KernelCall with_scales_apart(const KernelCall& call);

// The same call with outputs of its own (copies of the present bytes), so that implementations can be compared.
KernelCall with_own_output(const KernelCall& call);
std::vector<std::byte> bytes_of(const View& view);

struct MatmulShape {
  std::uint32_t n = 0, k = 0, batch = 0;
};
KernelCall matmul_call(Rng& rng, Format format, Layout layout, VariantId variant, MatmulShape shape, bool bias = false, Bytes skew = 0);

// A norm of each head by itself, [3 rows, 5 heads, 24], and slices of its heads.
KernelCall norm_of_heads(Rng& rng);
inline constexpr Slice kHeadSlices[] = {Slice{}, Slice{1, 3}, Slice{4, 1}};

// Keys and values of [3 rows, 2 heads, 24] into a pool of 6 heads, three for each of them, and slices of those.
KernelCall append_of_copies(Rng& rng, Format format);
inline constexpr Slice kCopySlices[] = {Slice{}, Slice{3, 3}, Slice{1, 4}, Slice{2, 0}};

// Shapes, slices, row lists, tails and parameters are drawn; of `op` it matters which one it is. `matmul_variant`: of a matmul; other
// operators come as kFloat. The call passes check_call().
KernelCall random_call(Rng& rng, const Op& op, VariantId matmul_variant);

// An int8 matmul of any format that the contract takes, in any layout that the format has.
KernelCall random_code_call(Rng& rng);

// Activations of the call in float16: all of them, or of operators that convert some by themselves a drawn part. The values are rounded.
KernelCall in_halves(const KernelCall& call, Rng& rng);
// The same call with float32 activations of the same values, outputs too.
KernelCall in_floats(const KernelCall& halves);
// The view itself, or a copy in another format of activations.
View stored_as(Format format, const View& view);

// The same matmul or accumulate with the rows of its weights in random places, some of them side by side, and in memory that
// holds other rows too. Requires: Layout::rows. A call without a row list gets that of its slice.
KernelCall placed(Rng& rng, const KernelCall& call);

// Outcomes as plain words, for comparing and hashing.
std::vector<std::uint32_t> words_of(const Outcome& outcome);

}  // namespace vitro::test
