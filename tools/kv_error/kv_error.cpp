// How far attention over keys and values in the formats of KV pools is from that over float32: a table for docs/design/kv-cache.md.
//
//     build/release/tools/kv_error/kv-error
//
// The input is made, with a fixed seed. Keys are normal around an offset of their channel; 4 of 128 channels, drawn, are outliers,
// with offsets of 8 standard deviations and 3 times the spread, as channels of keys are in trained models. Values are normal, one
// channel in 32 ten times as large. 32 queries are normal, of a size at which scores have a standard deviation of about 2. A cell is
// the root mean square of the difference over that of the float32 result.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kDim = 128, kQueries = 32, kMostKeys = 32768, kOutliers = 4;
using Floats = std::vector<float>;

View view_of(Format format, std::array<std::uint32_t, 3> shape, void* data, Bytes bytes) {
  auto block = std::make_shared<Block>();
  block->data = static_cast<std::byte*>(data);
  block->size = bytes;
  View view;
  view.format = format;
  view.shape = shape;
  view.memory = Lease(block);
  return view;
}

struct Input {
  Floats keys, values, queries;
};

Input made() {
  Rng rng(7);
  const auto normal = [&] { return static_cast<float>(rng.normal()); };
  Floats offset(kDim), spread(kDim, 1.0f);
  for (float& of : offset) of = 0.5f * normal();
  for (std::uint32_t i = 0; i < kOutliers; ++i) {
    const std::uint64_t d = rng.below(kDim);
    offset[d] = rng.below(2) == 0 ? 8.0f : -8.0f;
    spread[d] = 3;
  }
  Input in{Floats(kMostKeys * kDim), Floats(kMostKeys * kDim), Floats(kQueries * kDim)};
  for (std::uint32_t i = 0; i < kMostKeys * kDim; ++i) in.keys[i] = offset[i % kDim] + spread[i % kDim] * normal();
  for (std::uint32_t i = 0; i < kMostKeys * kDim; ++i) in.values[i] = (i % 32 == 11 ? 10.0f : 1.0f) * normal();
  for (float& x : in.queries) x = 1.8f * normal();
  return in;
}

// What rows stand for once they are written.
Floats through(Format format, std::uint32_t which, const Floats& x) {
  std::vector<std::byte> row(kv_row_bytes(format, which, kDim));
  Floats y(x.size());
  for (std::size_t at = 0; at < x.size(); at += kDim) {
    write_kv_row(format, which, x.data() + at, kDim, row.data());
    read_kv_row(format, which, row.data(), kDim, y.data() + at);
  }
  return y;
}

// Keys in int4 as the format has them, but for the length of its groups.
Floats int4_groups(const Floats& x, std::uint32_t group) {
  Floats y(x.size());
  for (std::size_t at = 0; at < x.size(); at += group) {
    const auto [low, high] = std::minmax_element(x.data() + at, x.data() + at + group);
    const float scale = half_to_float(float_to_half((*high - *low) / 15)), zero = half_to_float(float_to_half(*low + 8 * scale));
    for (std::size_t i = at; i < at + group; ++i) {
      y[i] = std::min(std::max(-8.0f, std::floor((x[i] - zero) / scale + 0.5f)), 7.0f) * scale + zero;
    }
  }
  return y;
}

Floats attention(const Input& in, const Floats& keys, const Floats& values, std::uint32_t n) {
  Floats pool(std::size_t{2} * n * kDim), out(kQueries * kDim);
  std::copy_n(keys.begin(), std::size_t{n} * kDim, pool.begin());
  std::copy_n(values.begin(), std::size_t{n} * kDim, pool.begin() + std::size_t{n} * kDim);
  Floats queries = in.queries;
  std::vector<std::uint32_t> table(kQueries, 0);
  KernelCall call;
  ops::Attention op;
  op.scale = 1 / std::sqrt(static_cast<float>(kDim));
  call.op = op;
  call.variant = variant::kFloat;
  call.layer = 0;
  call.batch = std::make_shared<const std::vector<SeqPos>>(kQueries, SeqPos{0, n - 1});
  call.in = {view_of(Format::f32, {kQueries, 1, kDim}, queries.data(), 4 * queries.size()),
             view_of(Format::f32, {1, n, kDim}, pool.data(), 4 * pool.size()),
             view_of(Format::index32, {kQueries, 1, 0}, table.data(), 4 * table.size())};
  call.out = {view_of(Format::f32, {kQueries, 1, kDim}, out.data(), 4 * out.size())};
  ComputeFunction(ComputeOptions{}).execute(call);
  return out;
}

double difference(const Floats& y, const Floats& right) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    error += std::pow(double{y[i]} - double{right[i]}, 2);
    size += std::pow(double{right[i]}, 2);
  }
  return std::sqrt(error / size);
}

void print() {
  const Input in = made();
  struct Kind {
    std::string name;
    Floats keys, values;
  };
  std::vector<Kind> kinds;
  for (const Format format : {Format::int8_fp8, Format::int4_fp8}) {
    kinds.push_back({std::string("keys ") + (format.bits == 8 ? "int8" : "int4"), through(format, 0, in.keys), in.values});
  }
  for (const std::uint32_t group : {64u, 128u}) {
    kinds.push_back({"keys int4, groups of " + std::to_string(group), int4_groups(in.keys, group), in.values});
  }
  kinds.push_back({"values e4m3", in.keys, through(Format::int8_fp8, 1, in.values)});
  kinds.push_back({"values e5m2", in.keys, through(Format::int8_e5m2, 1, in.values)});
  for (const Format format : kKvFormats) {
    if (format == Format::f32) continue;
    kinds.push_back({std::string(to_string(format)), through(format, 0, in.keys), through(format, 1, in.values)});
  }
  std::printf("| keys and values | 1 K | 4 K | 16 K | 32 K |\n|---|---|---|---|---|\n");
  std::vector<Floats> right;
  for (const std::uint32_t n : {1024u, 4096u, 16384u, 32768u}) right.push_back(attention(in, in.keys, in.values, n));
  for (const Kind& kind : kinds) {
    std::printf("| %s |", kind.name.c_str());
    std::size_t column = 0;
    for (const std::uint32_t n : {1024u, 4096u, 16384u, 32768u}) {
      std::printf(" %.4f |", difference(attention(in, kind.keys, kind.values, n), right[column++]));
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace vitro

int main() { vitro::print(); }
