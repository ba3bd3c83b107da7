#include "engine/model/product_copy.hpp"

#include "engine/quant/blocks.hpp"

namespace vitro {

std::vector<Weight> products_of(const ModelConfig& config) {
  std::vector<Weight> weights = weights_of(config);
  std::erase_if(weights,
                [](const Weight& w) { return w.layer < 0 || is_vector(w.role) || w.role == Role::router || is_predictor(w.role); });
  return weights;
}

void write_anew(const Gguf& gguf, const TensorInfo& source, const Weight& weight, SectionWriter& out) {
  std::vector<std::byte> raw(row_bytes(source.format, weight.columns)), row(row_bytes(weight.format, weight.columns));
  std::vector<float> values(weight.columns);
  for (std::uint64_t r = 0; r < source.rows(); ++r) {
    gguf.read(source, r * raw.size(), raw);
    dequantise_row(source.format, raw.data(), values.data(), values.size());
    quantise_row(weight.format, values.data(), row.data(), values.size());
    out.write(row);
  }
}

}  // namespace vitro
