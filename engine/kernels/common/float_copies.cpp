#include "engine/kernels/common/float_copies.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {
namespace {

struct FloatBlock : Block {
  explicit FloatBlock(std::size_t n) : floats(n) {
    data = reinterpret_cast<std::byte*>(floats.data());
    size = n * sizeof(float);
  }
  std::vector<float> floats;
};

}  // namespace

View out_in_f32(const View& v) {
  if (v.format != Format::f16) return v;
  View wide = v;
  wide.memory = Lease(std::make_shared<FloatBlock>(elements(v)));
  wide.offset = 0;
  wide.format = Format::f32;
  return wide;
}

View in_f32(const View& v) {
  View wide = out_in_f32(v);
  if (v.format == Format::f16) kernel_set("auto").to_f32(v.as<Half>(), elements(v), wide.as<float>());
  return wide;
}

void store_f32(const View& out, std::size_t first, const float* from, std::size_t count) {
  if (out.format == Format::f16) return kernel_set("auto").to_f16(from, count, out.as<Half>() + first);
  std::copy_n(from, count, out.as<float>() + first);
}

}  // namespace vitro
