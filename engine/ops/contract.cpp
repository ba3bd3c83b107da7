#include "engine/ops/contract.hpp"

#include <cmath>

#include "engine/ops/checker.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::contract {
namespace {

void check_matmul(const Checker& check, const KernelCall& call) {
  const View &w = call.in[0], &x = call.in[1];
  if (!variant::supports(call.variant, w.format, w.layout)) {
    check.fail("W", w, "variant " + std::string(variant::name(call.variant)) + " does not take it");
  }
  check.view(w, "W", {0, 0});
  check.floats(x, "x", {0, w.shape[1]});
  check.scales(w);
  if (const View* bias = bias_of(call)) check.float_elements(*bias, "bias", w.shape[0]);
  check.floats(call.out[0], "y", {x.shape[0], w.shape[0]});
  check.slice(w.shape[0]);
  if (w.layout == Layout::rows) return;
  if (w.shape[0] % kTileRows != 0) check.fail("W", w, "tiled rows have to be a multiple of " + std::to_string(kTileRows));
  const Range slice = sliced(call, w.shape[0]);
  if (slice.first % kTileRows != 0 || slice.end() % kTileRows != 0) {
    check.fail("slice " + std::to_string(slice.first) + "+" + std::to_string(slice.count) + " cuts a tile of " + std::to_string(kTileRows));
  }
}

void check_rms_norm(const Checker& check, const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  check.float_elements(call.in[1], "weight", columns(x));
  if (x.shape[2] == 0) {
    check.floats(x, "x", {0, 0});
    check.floats(y, "y", {x.shape[0], x.shape[1]});
    return check.no_slice();
  }
  check.floats(x, "x", {0, 0, 0});
  check.floats(y, "y", {x.shape[0], x.shape[1], x.shape[2]});
  check.slice(x.shape[1]);
}

void check_rope(const Checker& check, const KernelCall& call) {
  const View& x = check.floats(call.in[0], "x", {0, 0, 0});
  check.floats(call.out[0], "y", {x.shape[0], x.shape[1], x.shape[2]});
  check.batch(x.shape[0]);
  if (!(call.params[0] > 0)) check.fail("parameter base has to be above 0");
  const std::uint32_t dims = check.whole(1, "rotary dims", 2, x.shape[2]);
  if (dims % 2 != 0) check.fail("parameter rotary dims is odd");
  check.whole(2, "style", 0, 1);
  if (call.in.size() > 1) check.float_elements(call.in[1], "frequency divisors", dims / 2);
  check.slice(x.shape[1]);
}

void check_attention(const Checker& check, const KernelCall& call) {
  const View &q = call.in[0], &pool = call.in[1];
  check.batch(q.shape[0]);
  check.whole(1, "window", 0, 4e9);
  check.pool(pool, 2, call.in[2]);
  const std::uint64_t group_elements = std::uint64_t{q.shape[0]} * pool.shape[0] * pool.shape[2];
  if (elements(q) % group_elements != 0) check.fail("q", q, "heads have to be a multiple of the pool's " + std::to_string(pool.shape[0]));
  check.float_elements(q, "q", elements(q));
  check.float_elements(call.out[0], "y", elements(q));
  check.slice(pool.shape[0]);
}

void check_kv_append(const Checker& check, const KernelCall& call) {
  const View &k = call.in[0], &pool = call.out[0];
  check.batch(k.shape[0]);
  check.pool(pool, 0, call.in[2]);
  const std::uint64_t all = std::uint64_t{k.shape[0]} * pool.shape[0] * pool.shape[2], n = elements(k);
  if (n == 0 || all % n != 0 || n % (std::uint64_t{k.shape[0]} * pool.shape[2]) != 0) {
    check.fail("k", k, "the pool's " + std::to_string(pool.shape[0]) + " heads have to be a multiple of its heads");
  }
  check.float_elements(k, "k", n);
  check.float_elements(call.in[1], "v", n);
  check.slice(pool.shape[0]);
}

void check_two_alike(const Checker& check, const KernelCall& call) {
  const View& a = check.floats(call.in[0], "first", {0, 0});
  check.floats(call.in[1], "second", {a.shape[0], a.shape[1]});
  check.floats(call.out[0], "y", {a.shape[0], a.shape[1]});
  check.slice(a.shape[1]);
}

void check_reduce(const Checker& check, const KernelCall& call) {
  const View& partials = check.floats(call.in[0], "partials", {0, 0, 0});
  check.floats(call.out[0], "y", {partials.shape[1], partials.shape[2]});
  check.slice(partials.shape[2]);
}

void check_expert_sum(const Checker& check, const KernelCall& call) {
  const View& partials = check.floats(call.in[0], "partials", {0, 0});
  const View& out = check.floats(call.out[0], "y", {0, partials.shape[1]});
  check.indices(call.in[1], "sources", {out.shape[0], 0});
  check.floats(call.in[2], "weights", {out.shape[0], call.in[1].shape[1]});
  check.slice(partials.shape[1]);
}

void check_sample(const Checker& check, const KernelCall& call) {
  const View& logits = check.floats(call.in[0], "logits", {0, 0});
  check.float_elements(call.in[1], "uniforms", logits.shape[0]);
  const float temperature = call.params[0];
  if (!(temperature == 0 || (temperature >= 1e-3f && temperature <= 1e6f))) {
    check.fail("parameter temperature is " + std::to_string(temperature) + " (expected 0, or from 0.001 to 1000000)");
  }
  if (temperature == 0) return;
  check.whole(1, "top_k", 0, 4e9);
  if (!(call.params[2] > 0 && call.params[2] <= 1)) check.fail("parameter top_p has to be in (0, 1]");
}

// Of either side: a place inside the lease for each row.
void check_row_places(const Checker& check, const View& v, const char* name, const IndexList& places) {
  if (v.format != Format::f32) check.fail(name, v, "expected f32");
  if (v.shape[0] == 0 || v.shape[1] == 0 || v.shape[2] != 0) check.fail(name, v, "expected 2 dimensions, none of them 0");
  if (!v.memory) check.fail(name, v, "it has no memory");
  if (places == nullptr || places->size() != v.shape[0]) check.fail(name, v, "expected a place for each row");
  const std::uint32_t last = *std::ranges::max_element(*places);
  if (v.offset + last * kPlaceUnit + Bytes{4} * v.shape[1] > v.memory.size()) {
    check.fail(name, v, "place " + std::to_string(last) + " leaves its lease of " + std::to_string(v.memory.size()));
  }
}

void check_placed_copy(const Checker& check, const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  check_row_places(check, x, "x", call.rows);
  check_row_places(check, y, "y", call.places);
}

void check_copy(const Checker& check, const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  if (x.shape != y.shape) check.fail("y", y, "expected the shape of x, " + shape_text(x));
  if (call.rows != nullptr || call.places != nullptr) return check_placed_copy(check, call);
  check.bounds(x, "x");
  check.bounds(y, "y");
  const bool numbers = x.format != Format::index32 && x.format != Format::int8_fp8 && x.format != Format::q4_nibbles;
  if (x.format != y.format && (!numbers || !can_quantise(y.format))) check.fail("y", y, "no conversion from " + shape_text(x));
}

void check_select(const Checker& check, const KernelCall& call) {
  const View& scores = check.floats(call.in[0], "scores", {0, 0});
  if (std::isnan(call.params[0])) check.fail("parameter threshold is not a number");
  check.whole(1, "activation", -1, 3);
  check.whole(2, "what is selected", 0, 1);
  check.slice(scores.shape[1]);
}

void check_accumulate(const Checker& check, const KernelCall& call) {
  const View& w = check.view(call.in[0], "W", {0, 0});
  if (w.format == Format::index32) check.fail("W", w, "expected weights");
  const View& h = check.floats(call.in[1], "h", {0, w.shape[0]});
  check.scales(w);
  check.floats(call.out[0], "y", {h.shape[0], w.shape[1]});
  check.whole(0, "continues", 0, 1);
  check.slice(w.shape[0]);
}

// Operand counts, and whether slice, row list and places mean anything, per operator in the order of Op.
struct Arity {
  std::size_t in_min, in_max, out;
  bool slice = false, rows = false, places = false;
};
constexpr Arity kArity[] = {
    {2, 2, 1},                     // embed
    {2, 2, 1, true},               // rms_norm
    {2, 3, 1, true, true, true},   // matmul
    {1, 2, 1, true},               // rope
    {3, 3, 1, true},               // kv_append
    {3, 3, 1, true},               // attention
    {2, 2, 1, true, true},         // glu
    {2, 2, 1, true},               // add
    {2, 2, 1},                     // gather
    {1, 1, 0},                     // route
    {3, 3, 1, true},               // expert_sum
    {1, 1, 1, true},               // reduce
    {2, 2, 0},                     // sample
    {1, 1, 1, false, true, true},  // copy
    {1, 1, 0, true, true},         // select
    {2, 2, 1, true, true, true},   // accumulate
    {1, 1, 0},                     // precompute
    {1, 1, 1},                     // softmax
};

}  // namespace

void check_call(const KernelCall& call) {
  const Checker check(call);
  const Arity& arity = kArity[static_cast<std::size_t>(call.op)];
  const bool weighs = call.op == Op::matmul || call.op == Op::accumulate;
  const std::size_t apart = weighs && !call.in.empty() && call.in[0].format == Format::q4_nibbles ? 1 : 0;
  check.counts(arity.in_min + apart, arity.in_max + apart, arity.out);
  if (!arity.slice) check.no_slice();
  if (!arity.rows) check.no_rows();
  if (!arity.places) check.no_places();
  switch (call.op) {
    case Op::embed: {
      const View& table = check.view(call.in[0], "table", {0, 0});
      if (!table.format.is_for_weights()) {
        check.fail("table", table, "expected weights");
      }
      const View& out = check.floats(call.out[0], "y", {0, table.shape[1]});
      return check.index_elements(call.in[1], "tokens", out.shape[0]);
    }
    case Op::rms_norm:
      return check_rms_norm(check, call);
    case Op::matmul:
      return check_matmul(check, call);
    case Op::rope:
      return check_rope(check, call);
    case Op::kv_append:
      return check_kv_append(check, call);
    case Op::attention:
      return check_attention(check, call);
    case Op::glu:
      check.whole(0, "activation", 0, 3);
      return check_two_alike(check, call);
    case Op::add:
      return check_two_alike(check, call);
    case Op::gather: {
      const View& x = check.floats(call.in[0], "x", {0, 0});
      const View& out = check.floats(call.out[0], "y", {0, x.shape[1]});
      return check.index_elements(call.in[1], "indices", out.shape[0]);
    }
    case Op::route: {
      const View& logits = check.floats(call.in[0], "logits", {0, 0});
      check.whole(0, "k", 1, logits.shape[1]);
      check.whole(1, "renormalise", 0, 1);
      return;
    }
    case Op::expert_sum:
      return check_expert_sum(check, call);
    case Op::reduce:
      return check_reduce(check, call);
    case Op::sample:
      return check_sample(check, call);
    case Op::copy:
      return check_copy(check, call);
    case Op::select:
      return check_select(check, call);
    case Op::accumulate:
      return check_accumulate(check, call);
    case Op::precompute:
      check.floats(call.in[0], "x", {0, 0});
      return;
    case Op::softmax: {
      const View& x = check.floats(call.in[0], "x", {0, 0});
      check.floats(call.out[0], "out", {x.shape[0], x.shape[1]});
      check.whole(0, "exponential", 0, 2);
      check.whole(1, "times", 1, 1 << 20);
    }
  }
}

}  // namespace vitro::contract
