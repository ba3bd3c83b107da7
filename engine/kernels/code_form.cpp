#include "engine/kernels/code_form.hpp"

#include "engine/quant/group_formats.hpp"

namespace vitro {

std::optional<CodeForm> code_form(Format format) {
  if (format == Format::q4_0) return CodeForm{4, 32, false, 1, 8, 4};
  const std::optional<GroupFormat> group = group_format(format);
  if (!group) return std::nullopt;
  CodeForm form{group->bits, group->group, group->zero_point, 1, 0, group->bits, group->row_scale};
  if (!form.zero_point) {
    form.step = form.bits == 1 ? 2 : 1;
    form.zero = form.bits == 1 ? 1 : 1 << (form.bits - 1);
  }
  return form;
}

const ValueTable* value_table(Format format) {
  const auto table = [](Format of, float factor) {
    ValueTable out{{}, factor};
    for (std::size_t i = 0; i < kCodes; ++i) out.values[i] = static_cast<std::int8_t>((*code_table(of))[i] / factor);
    return out;
  };
  static const ValueTable iq4_nl = table(Format::iq4_nl, 1), fp4 = table(Format::fp4, 0.5f);
  return format == Format::iq4_nl ? &iq4_nl : format == Format::fp4 ? &fp4 : nullptr;
}

}  // namespace vitro
