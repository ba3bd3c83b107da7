// Weights as OpenCL kernels read them (MNN-LLM 5.1): [l / 32, h, 32], so that work items of neighbouring rows read neighbouring words, and
// each of them 128 bits at once. matmul.cl computes with them.
//
// A matrix [h, l] is `lines` of one texel (128 bits) per row. Codes of up to 4 bits take 4, and line c has columns 32 c to 32 c + 31:
// nibble s of word w is the code of column 32 c + 4 s + w. Codes of 8 bits are signed, and lines 2 c and 2 c + 1 have 16 columns each: byte
// s of word w is column 4 s + w of them. Scales (binary16) and zero points (bytes) lie apart, [l / group, h].
#pragma once
#include <optional>
#include <vector>

#include "engine/ops/operands.hpp"

namespace vitro::opencl {

inline constexpr std::uint32_t kColumns = 32;     // l_p: of a chunk
inline constexpr std::uint32_t kTexelBytes = 16;  // four words of 32 bits

// A weight is scale * (code - zero).
struct PanelForm {
  std::uint32_t bits = 0;   // 4 or 8, as laid out
  std::uint32_t group = 0;  // columns with one scale; a multiple of kColumns
  bool zero_points = false;
  std::int32_t zero = 0;  // without zero points

  std::uint32_t lines(std::uint32_t columns) const { return columns / kColumns * (bits / 4); }
  friend bool operator==(const PanelForm&, const PanelForm&) = default;
};

// None for what the kernels have no form of: formats other than q8_0, q4_0 and group formats; matrices that are not in file order.
std::optional<PanelForm> panel_form(const View& weights);

struct Panels {
  PanelForm form;
  std::uint32_t rows = 0, columns = 0;
  std::vector<std::uint32_t> codes;  // [lines][rows][4]
  std::vector<std::uint16_t> scales;
  std::vector<std::uint8_t> zeros;  // empty without zero points

  std::uint32_t lines() const { return form.lines(columns); }
};

// Requires: panel_form(weights), rows of it, and its bytes.
Panels pack_panels(const View& weights, Range rows);

}  // namespace vitro::opencl
