#include "engine/ops/copy.hpp"

#include <algorithm>

#include "engine/ops/checker.hpp"
#include "engine/ops/counter.hpp"
#include "engine/ops/reference.hpp"

namespace vitro::ops {
namespace {

// Of either side: an offset inside the lease for each row.
void check_offsets(const Checker& check, const View& v, const char* name, const IndexList& offsets) {
  if (v.format != Format::f32) check.fail(name, v, "expected f32");
  if (v.shape[0] == 0 || v.shape[1] == 0 || v.shape[2] != 0) check.fail(name, v, "expected 2 dimensions, none of them 0");
  if (!v.memory) check.fail(name, v, "it has no memory");
  if (offsets == nullptr || offsets->size() != v.shape[0]) check.fail(name, v, "expected an offset for each row");
  const std::uint32_t last = *std::ranges::max_element(*offsets);
  if (v.offset + last * kRowOffsetUnit + Bytes{4} * v.shape[1] > v.memory.size()) {
    check.fail(name, v, "offset " + std::to_string(last) + " leaves its lease of " + std::to_string(v.memory.size()));
  }
}

}  // namespace

void Copy::check(const Checker& check) const {
  const View &x = check.in(0), &y = check.out();
  const KernelCall& call = check.call();
  if (x.shape != y.shape) check.fail("y", y, "expected the shape of x, " + shape_text(x));
  if (call.rows != nullptr || call.row_offsets != nullptr) {
    check_offsets(check, x, "x", call.rows);
    return check_offsets(check, y, "y", call.row_offsets);
  }
  check.bounds(x, "x");
  check.bounds(y, "y");
  const bool numbers = x.format.is_for_weights();
  if (x.format != y.format && (!numbers || !can_quantise(y.format))) check.fail("y", y, "no conversion from " + shape_text(x));
}

void Copy::count(Counter& c) const {
  c.read_all(c.in(0));
  c.write(c.out(), view_bytes(c.out()));
  if (c.in(0).format != c.out().format) c.counts.conversions = elements(c.in(0));
}

void Copy::reference(Reference& r) const {
  const View &x = r.in(0), &y = r.out();
  const KernelCall& call = r.call();
  const std::size_t width = columns(x);
  for (std::size_t row = 0; row < elements(x) / width; ++row) {
    if (call.row_offsets != nullptr) {
      r.write(y, (*call.row_offsets)[row] * kRowOffsetUnit / sizeof(float), r.read_at(x, (*call.rows)[row] * kRowOffsetUnit, width));
      continue;
    }
    r.write(y, row * width, r.read(x, row * width, width));
    if (x.format != y.format) r.tally().conversions += width;
  }
}

}  // namespace vitro::ops
