// The checks that operators share when a call is held against their contracts.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>

#include "engine/ops/operands.hpp"

namespace vitro::ops {

inline std::string shape_text(const View& view) {
  std::string text = std::string(to_string(view.format)) + " [";
  for (std::size_t i = 0; i < 3 && view.shape[i] != 0; ++i) text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

// Every failure is a RunError that names operator, operand and shape.
class Checker {
 public:
  Checker(const KernelCall& call, const Arity& arity) : call_(call), arity_(arity) {}
  const KernelCall& call() const { return call_; }
  const View& in(std::size_t i) const { return call_.in[i]; }
  const View& out() const { return call_.out[0]; }

  [[noreturn]] void fail(const std::string& problem) const { throw RunError(std::string(to_string(call_.op)) + ": " + problem); }
  [[noreturn]] void fail(const char* operand, const View& view, const std::string& problem) const {
    fail(std::string("operand ") + operand + " is " + shape_text(view) +
         (view.layout == Layout::rows ? "" : " " + std::string(to_string(view.layout))) + ": " + problem);
  }

  // What the arity says: how many operands, and that nothing is given which means nothing.
  void arity() const {
    const std::size_t apart = arity_.weights && !call_.in.empty() && in(0).format == Format::q4_nibbles ? 1 : 0;
    const std::size_t in_min = arity_.in_min + apart, in_max = arity_.in_max + apart;
    if (call_.in.size() < in_min || call_.in.size() > in_max) {
      fail(std::to_string(call_.in.size()) + " inputs (expected " + std::to_string(in_min) +
           (in_max > in_min ? " to " + std::to_string(in_max) : "") + ")");
    }
    if (call_.out.size() != arity_.out) fail(std::to_string(call_.out.size()) + " outputs (expected " + std::to_string(arity_.out) + ")");
    if (!arity_.slice) no_slice();
    if (!arity_.rows && call_.rows != nullptr) fail("takes no row list");
    if (!arity_.regions && call_.regions != nullptr) fail("takes no regions");
    if (!arity_.row_offsets && call_.row_offsets != nullptr) fail("takes no row offsets");
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
    if (v.layout != Layout::rows && !arity_.tiled) fail(name, v, "only matmul takes a tiled operand");
    if (!v.memory) fail(name, v, "it has no memory");
    const Bytes needed = call_.row_offsets != nullptr && &v == &call_.in[0] ? placed_bytes(v, name) : view_bytes(v);
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
  // f32, or f16 where the operator takes activations so.
  const View& floats(const View& v, const char* name, std::initializer_list<std::uint64_t> dims) const {
    float_format(v, name);
    return view(v, name, dims);
  }
  // The same with n elements in whatever shape: a vector may be [D] or [1, D], heads may be folded into columns.
  void float_elements(const View& v, const char* name, std::uint64_t n) const {
    float_format(v, name);
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
  void batch(std::uint64_t rows) const {
    if (call_.batch == nullptr || call_.batch->size() != rows) {
      fail("the batch has " + std::to_string(call_.batch ? call_.batch->size() : 0) + " rows (expected " + std::to_string(rows) + ")");
    }
  }
  void range(std::uint32_t value, const char* name, std::uint32_t low, std::uint32_t high) const {
    if (value >= low && value <= high) return;
    fail(std::string("parameter ") + name + " is " + std::to_string(value) + " (expected from " + std::to_string(low) + " to " +
         std::to_string(high) + ")");
  }
  // Two operands and a result of one shape, sliced over columns.
  void two_alike() const {
    const View& a = floats(in(0), "first", {0, 0});
    floats(in(1), "second", {a.shape[0], a.shape[1]});
    floats(out(), "y", {a.shape[0], a.shape[1]});
    slice(a.shape[1]);
  }
  // The pool, and that the block table covers the positions and names blocks inside the pool's lease. `window`: the positions, its own the
  // last, that a row reads or writes; 0: all.
  void pool(const View& v, std::uint32_t layers, const View& table, std::uint32_t window) const {
    if (!holds_kv(v.format)) fail("pool", v, "expected " + kv_format_list());
    range(layers, "layers", 1, 32767);
    if (call_.layer < 0 || (layers > 1 && static_cast<std::uint32_t>(call_.layer) >= layers))
      fail("layer " + std::to_string(call_.layer) + " is not in the pool");
    view(v, "pool", {0, 0, 0});
    indices(table, "block table", {call_.batch->size(), 0});
    const KvPool sizes(v, layers, call_.layer);
    const Bytes blocks = (v.memory.size() - v.offset) / sizes.block_bytes();
    for (std::size_t b = 0; b < call_.batch->size(); ++b) {
      const std::uint32_t position = (*call_.batch)[b].position, last = position / sizes.block_tokens;
      if (last >= table.shape[1]) {
        fail("block table", table, "position " + std::to_string(position) + " needs block " + std::to_string(last));
      }
      if (table.data() == nullptr) continue;  // a phantom run
      for (std::uint32_t t = visible(position, window).first / sizes.block_tokens; t <= last; ++t) {
        const std::uint32_t block = table.as<std::uint32_t>()[b * table.shape[1] + t];
        if (block >= blocks)
          fail("block table", table, "block " + std::to_string(block) + " is outside a pool of " + std::to_string(blocks));
      }
    }
  }

 private:
  void float_format(const View& v, const char* name) const {
    bool halves = !call_.out.empty() && &v == &call_.out[0] && arity_.f16_out;
    for (std::size_t i = 0; i < call_.in.size(); ++i) halves = halves || (&v == &call_.in[i] && (arity_.f16_in >> i & 1) != 0);
    if (v.format != Format::f32 && !(halves && v.format == Format::f16)) fail(name, v, halves ? "expected f32 or f16" : "expected f32");
  }
  // Up to the end of the last of the rows that call.row_offsets names.
  Bytes placed_bytes(const View& v, const char* name) const {
    if (v.layout != Layout::rows) fail(name, v, "rows with offsets stand by themselves, not in tiles");
    if (call_.rows == nullptr) fail("row offsets are given without their rows");
    if (call_.row_offsets->size() != call_.rows->size()) {
      fail(std::to_string(call_.row_offsets->size()) + " row offsets for " + std::to_string(call_.rows->size()) + " rows");
    }
    Bytes end = 0;
    for (const std::uint32_t place : *call_.row_offsets) end = std::max(end, place * kRowOffsetUnit + row_bytes(v.format, columns(v)));
    return end;
  }
  static std::size_t alignment(Format format) {
    const bool numbers = format.family == Format::Family::plain || format.family == Format::Family::index;
    return numbers ? format.block_bytes() : 1;
  }
  const KernelCall& call_;
  const Arity& arity_;
};

}  // namespace vitro::ops
