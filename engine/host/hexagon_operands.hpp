// A matmul call in the worker's terms: which operator computes it, how its weights are laid out, and its activations.
#pragma once
#include "engine/base/status.hpp"
#include "engine/kernels/hexagon/panels.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::hexagon {

struct MatmulForm {
  Kind kind = Kind::none;
  PlaneForm planes;  // of bit-serial panels; its scales of matmul_hmx, too

  bool bit_serial() const {
    return looks_up() || kind == Kind::matmul_hmx_lut || kind == Kind::matmul_hmx_scaled || kind == Kind::matmul_hmx_int8;
  }
  bool by_blocks() const { return kind == Kind::matmul_q8_0 || kind == Kind::matmul_q4_0; }
  // Whether weights packed in one form serve the other. Bit-serial panels are the same in all contracts, so one copy serves decoding and
  // prompts (T-MAN 4.1); so are strips of q8_0, and of q4_0.
  bool packs_as(const MatmulForm& other) const {
    const auto strips = [](const MatmulForm& form) {
      return form.kind == Kind::matmul_q8_0 ? Kind::matmul_hmx_q8 : form.kind == Kind::matmul_q4_0 ? Kind::matmul_hmx : form.kind;
    };
    return bit_serial() ? other.bit_serial() : strips(*this) == strips(other) && planes.scales == other.planes.scales;
  }
  bool looks_up() const { return kind == Kind::matmul_lut || kind == Kind::matmul_lut_rounded || kind == Kind::matmul_lut_wide; }
  bool in_tiles() const {  // activations
    const bool strips = kind == Kind::matmul_hmx || kind == Kind::matmul_hmx_q8 || kind == Kind::matmul_hmx_f16;
    return strips || kind == Kind::matmul_hmx_lut || kind == Kind::matmul_hmx_scaled;
  }
};

// Code::unsupported_shape, with the reason, for calls that the worker does not compute. Group formats have look-ups alone.
Result<MatmulForm> matmul_form(const KernelCall& call, CodeMatmul products);

// Rows of a matrix whose bytes the worker's kernels take as they are stored. none: they are packed.
struct StoredRows {
  Bytes first = 0, size = 0;  // of the matrix's bytes
  Bytes aligned = kVectorBytes;  // to which the first of them has to be
  bool in_rows = false;          // one after the other, for Kind::matmul_hmx_f16_rows
};
std::optional<StoredRows> stored_rows(const MatmulForm& form, const View& weights, Range rows);

Bytes weights_bytes(const MatmulForm& form, std::uint32_t rows, std::uint32_t columns);
void pack_weights(const MatmulForm& form, const View& weights, Range rows, std::byte* out);

// Activations x [batch, columns] become one or two operands: int8 blocks with their scales; int8, or tiles of it, and scales apart; or fp16
// tiles and tables for the weights' codes. Quantised here by the code of the cores, so that both have the same bits.
struct ActivationBytes {
  Bytes first = 0, second = 0;
};
ActivationBytes activations_bytes(const MatmulForm& form, std::uint32_t batch, std::uint32_t columns);
void write_activations(const MatmulForm& form, const View& x, std::byte* first, std::byte* second);
// What tells two encodings of the same activations apart.
std::uint32_t encoding(const MatmulForm& form);

}  // namespace vitro::hexagon
