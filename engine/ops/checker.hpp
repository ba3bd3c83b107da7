// The checks that operators share when a call is held against contract.hpp. Used by contract.cpp alone.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>

#include "engine/ops/operands.hpp"

namespace vitro::contract {

inline std::string shape_text(const View& view) {
  std::string text = std::string(to_string(view.format)) + " [";
  for (std::size_t i = 0; i < 3 && view.shape[i] != 0; ++i) text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

// Every failure is a RunError that names operator, operand and shape.
class Checker {
 public:
  explicit Checker(const KernelCall& call) : call_(call) {}

  [[noreturn]] void fail(const std::string& problem) const { throw RunError(std::string(to_string(call_.op)) + ": " + problem); }
  [[noreturn]] void fail(const char* operand, const View& view, const std::string& problem) const {
    fail(std::string("operand ") + operand + " is " + shape_text(view) +
         (view.layout == Layout::rows ? "" : " " + std::string(to_string(view.layout))) + ": " + problem);
  }

  void counts(std::size_t in_min, std::size_t in_max, std::size_t out) const {
    if (call_.in.size() < in_min || call_.in.size() > in_max) {
      fail(std::to_string(call_.in.size()) + " inputs (expected " + std::to_string(in_min) +
           (in_max > in_min ? " to " + std::to_string(in_max) : "") + ")");
    }
    if (call_.out.size() != out) fail(std::to_string(call_.out.size()) + " outputs (expected " + std::to_string(out) + ")");
  }

  // Any format, inside its lease, whole blocks; `dims` where they are known (0: any size).
  const View& view(const View& v, const char* name, std::initializer_list<std::uint64_t> dims) const {
    std::size_t used = 0;
    while (used < 3 && v.shape[used] != 0) ++used;
    if (used != dims.size()) fail(name, v, "expected " + std::to_string(dims.size()) + " dimensions, none of them 0");
    std::size_t i = 0;
    for (const std::uint64_t d : dims) {
      if (d != 0 && v.shape[i] != d) fail(name, v, "dimension " + std::to_string(i) + " has to be " + std::to_string(d));
      ++i;
    }
    if (columns(v) % block_elements(v.format) != 0) {
      fail(name, v, "rows have to be whole blocks of " + std::to_string(block_elements(v.format)));
    }
    if (v.layout != Layout::rows && call_.op != Op::matmul) fail(name, v, "only matmul takes a tiled operand");
    if (!v.memory) fail(name, v, "it has no memory");
    const Bytes needed = call_.places != nullptr && &v == &call_.in[0] ? placed_bytes(v, name) : view_bytes(v);
    if (v.offset > v.memory.size() || needed > v.memory.size() - v.offset) {
      fail(name, v,
           std::to_string(needed) + " bytes at offset " + std::to_string(v.offset) + " leave its lease of " +
               std::to_string(v.memory.size()));
    }
    if (v.offset % alignment(v.format) != 0) fail(name, v, "offset " + std::to_string(v.offset) + " is not aligned to an element");
    return v;
  }
  // Of W in q4_nibbles, whose scales are an operand of their own. Requires: W passed view().
  void scales(const View& w) const {
    if (w.format != Format::q4_nibbles) return;
    if (call_.in[2].format != Format::f16) fail("scales", call_.in[2], "expected f16");
    view(call_.in[2], "scales", {w.shape[0], w.shape[1] / kBlock});
  }
  const View& floats(const View& v, const char* name, std::initializer_list<std::uint64_t> dims) const {
    if (v.format != Format::f32) fail(name, v, "expected f32");
    return view(v, name, dims);
  }
  // f32 with n elements in whatever shape: a vector may be [D] or [1, D], heads may be folded into columns.
  void float_elements(const View& v, const char* name, std::uint64_t n) const {
    if (v.format != Format::f32) fail(name, v, "expected f32");
    if (elements(v) != n) fail(name, v, "expected " + std::to_string(n) + " elements");
    bounds(v, name);
  }
  void indices(const View& v, const char* name, std::initializer_list<std::uint64_t> dims) const {
    if (v.format != Format::index32) fail(name, v, "expected index32");
    view(v, name, dims);
  }
  void index_elements(const View& v, const char* name, std::uint64_t n) const {
    if (v.format != Format::index32) fail(name, v, "expected index32");
    if (elements(v) != n) fail(name, v, "expected " + std::to_string(n) + " elements");
    bounds(v, name);
  }
  // For any number of dimensions: checks what view() checks apart from the shape.
  void bounds(const View& v, const char* name) const {
    switch (v.shape[1] == 0 ? 1 : v.shape[2] == 0 ? 2 : 3) {
      case 1:
        view(v, name, {0});
        break;
      case 2:
        view(v, name, {0, 0});
        break;
      default:
        view(v, name, {0, 0, 0});
        break;
    }
  }

  void slice(std::uint32_t n) const {
    const Slice& s = call_.slice;
    if (s.first > n || (s.count != ~0u && s.count > n - s.first)) {
      fail("slice " + std::to_string(s.first) + "+" + std::to_string(s.count) + " is outside [0, " + std::to_string(n) + ")");
    }
    if (call_.rows == nullptr) return;
    const Range range = sliced(call_, n);
    std::int64_t last = std::int64_t{range.first} - 1;
    for (const std::uint32_t row : *call_.rows) {
      if (row <= last || row >= range.end()) fail("row " + std::to_string(row) + " is out of order or outside the slice");
      last = row;
    }
  }
  void no_slice() const {
    if (call_.slice != Slice{}) fail("takes no slice");
  }
  void no_rows() const {
    if (call_.rows != nullptr) fail("takes no row list");
  }
  void no_places() const {
    if (call_.places != nullptr) fail("takes no places");
  }
  void batch(std::uint64_t rows) const {
    if (call_.batch == nullptr || call_.batch->size() != rows) {
      fail("the batch has " + std::to_string(call_.batch ? call_.batch->size() : 0) + " rows (expected " + std::to_string(rows) + ")");
    }
  }
  // A parameter that is a whole number in [low, high].
  std::uint32_t whole(std::size_t i, const char* name, double low, double high) const {
    const double value = call_.params[i];
    if (!(value >= low && value <= high) || value != std::floor(value)) {
      fail(std::string("parameter ") + name + " is " + std::to_string(value) + " (expected a whole number from " +
           std::to_string(static_cast<std::int64_t>(low)) + " to " + std::to_string(static_cast<std::int64_t>(high)) + ")");
    }
    return static_cast<std::uint32_t>(value);
  }
  // The pool, and that the block table covers the positions and names blocks inside the pool's lease.
  void pool(const View& v, std::size_t layers_param, const View& table) const {
    if (v.format != Format::f32 && v.format != Format::f16 && v.format != Format::int8_fp8) {
      fail("pool", v, "expected f32, f16 or int8_fp8");
    }
    const std::uint32_t layers = whole(layers_param, "layers", 1, 32767);
    if (call_.layer < 0 || (layers > 1 && static_cast<std::uint32_t>(call_.layer) >= layers))
      fail("layer " + std::to_string(call_.layer) + " is not in the pool");
    view(v, "pool", {0, 0, 0});
    indices(table, "block table", {call_.batch->size(), 0});
    const KvPool sizes(v, call_.params[layers_param], call_.layer);
    const Bytes blocks = (v.memory.size() - v.offset) / sizes.block_bytes();
    for (std::size_t b = 0; b < call_.batch->size(); ++b) {
      const std::uint32_t last = (*call_.batch)[b].position / sizes.block_tokens;
      if (last >= table.shape[1]) {
        fail("block table", table, "position " + std::to_string((*call_.batch)[b].position) + " needs block " + std::to_string(last));
      }
      if (table.data() == nullptr) continue;  // a phantom run
      const std::uint32_t first =
          call_.op == Op::attention
              ? visible((*call_.batch)[b].position, static_cast<std::uint32_t>(call_.params[1])).first / sizes.block_tokens
              : last;
      for (std::uint32_t t = first; t <= last; ++t) {
        const std::uint32_t block = table.as<std::uint32_t>()[b * table.shape[1] + t];
        if (block >= blocks)
          fail("block table", table, "block " + std::to_string(block) + " is outside a pool of " + std::to_string(blocks));
      }
    }
  }

 private:
  // Up to the end of the last of the rows that call.places names.
  Bytes placed_bytes(const View& v, const char* name) const {
    if (v.layout != Layout::rows) fail(name, v, "rows that have places stand by themselves, not in tiles");
    if (call_.rows == nullptr) fail("places are given without the rows that they are of");
    if (call_.places->size() != call_.rows->size()) {
      fail(std::to_string(call_.places->size()) + " places for " + std::to_string(call_.rows->size()) + " rows");
    }
    Bytes end = 0;
    for (const std::uint32_t place : *call_.places) end = std::max(end, place * kPlaceUnit + row_bytes(v.format, columns(v)));
    return end;
  }
  static std::size_t alignment(Format format) {
    const bool numbers = format.family == Format::Family::plain || format.family == Format::Family::index;
    return numbers ? format.block_bytes() : 1;
  }
  const KernelCall& call_;
};

}  // namespace vitro::contract
