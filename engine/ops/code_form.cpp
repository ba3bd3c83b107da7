#include "engine/ops/code_form.hpp"

#include <algorithm>

#include "engine/quant/group_formats.hpp"

namespace vitro {

std::optional<CodeForm> code_form(Format format) {
  if (format != Format::q4_0 && !format.has_outliers() && !has_group_kernels(format)) return std::nullopt;
  CodeForm form{format.bits, format.block, format.zero_point, 1, 0, format.bits, format.row_scale, format.has_outliers()};
  if (!form.zero_point) {
    form.step = form.bits == 1 ? 2 : 1;
    form.zero = form.bits == 1 ? 1 : 1 << (form.bits - 1);
  }
  return form;
}

std::optional<ValueTable> value_table(Format format) {
  const std::optional<float> step = integer_step(format);
  if (!step) return std::nullopt;
  ValueTable table{{}, *step};
  std::ranges::transform(*code_table(format), table.values, [&](float x) { return static_cast<std::int8_t>(x / *step); });
  return table;
}

}  // namespace vitro
