#include "tests/hw_models/npu/device.hpp"

#include "tests/source_path.hpp"

namespace vitro::hw {

Node phone(const std::string& changes) {
  Node node = load_yaml(test::source_path("configs/devices/oneplus12.yaml"));
  const Node changed = parse_yaml("{" + changes + "}", "changes");
  for (const auto& [key, value] : changed.entries()) node.set_path(key, value);
  return node;
}

Work product(ComputeModel& model, const Weights& weights, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  Work work;
  work.kernel = model.kernel("float", weights.format).id;
  work.rows = m;
  work.columns = n;
  work.depth = k;
  work.weight_bytes = Bytes{n} * k / 32 * weights.block;
  work.weight_bits = weights.block * 8 / 32;  // a scale's bits are less than one for each weight
  work.read_bytes = work.weight_bytes + Bytes{4} * m * k;
  work.written_bytes = Bytes{4} * m * n;
  work.macs = std::uint64_t{m} * n * k;
  work.conversions = std::uint64_t{n} * k;
  work.row_runs = 1;
  return work;
}

Work product_in_tcm(ComputeModel& model, const std::string& variant) {
  constexpr std::uint32_t kSize = 1024;
  Work work;
  work.kernel = model.kernel(variant, "f16").id;
  work.rows = work.columns = work.depth = kSize;
  work.tcm_bytes = 3 * 2 * kSize * kSize;
  work.macs = std::uint64_t{kSize} * kSize * kSize;
  work.row_runs = 1;
  return work;
}

}  // namespace vitro::hw
