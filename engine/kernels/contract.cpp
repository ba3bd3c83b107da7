#include "engine/kernels/contract.hpp"

#include <initializer_list>
#include <optional>
#include <string>

#include "engine/kernels/operands.hpp"
#include "engine/kernels/variants.hpp"

namespace vitro::contract {
namespace {

std::string shape_text(const View& view) {
  std::string text = std::string(to_string(view.format)) + " [";
  for (std::size_t i = 0; i < 3 && view.shape[i] != 0; ++i) text += (i ? ", " : "") + std::to_string(view.shape[i]);
  return text + "]";
}

// The checks that operators share; every failure names operator, operand and shape.
class Checker {
 public:
  explicit Checker(const KernelCall& call) : call_(call) {}

  [[noreturn]] void fail(const std::string& problem) const { throw RunError(std::string(to_string(call_.op)) + ": " + problem); }
  [[noreturn]] void fail(const char* operand, const View& view, const std::string& problem) const {
    fail(std::string("operand ") + operand + " is " + shape_text(view) + (view.layout == Layout::tiled ? " tiled" : "") + ": " + problem);
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
    if (v.layout == Layout::tiled && call_.op != Op::matmul) fail(name, v, "only matmul takes a tiled operand");
    if (!v.memory) fail(name, v, "it has no memory");
    if (v.offset > v.memory.size() || view_bytes(v) > v.memory.size() - v.offset) {
      fail(name, v, std::to_string(view_bytes(v)) + " bytes at offset " + std::to_string(v.offset) + " leave its lease of " +
                        std::to_string(v.memory.size()));
    }
    if (v.offset % alignment(v.format) != 0) fail(name, v, "offset " + std::to_string(v.offset) + " is not aligned to an element");
    return v;
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
      case 1: view(v, name, {0}); break;
      case 2: view(v, name, {0, 0}); break;
      default: view(v, name, {0, 0, 0}); break;
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
    if (v.format != Format::f32 && v.format != Format::f16) fail("pool", v, "expected f32 or f16");
    const std::uint32_t layers = whole(layers_param, "layers", 1, 32767);
    if (call_.layer < 0 || static_cast<std::uint32_t>(call_.layer) >= layers) fail("layer " + std::to_string(call_.layer) + " is not in the pool");
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
          call_.op == Op::attention ? visible((*call_.batch)[b].position, static_cast<std::uint32_t>(call_.params[1])).first / sizes.block_tokens
                                    : last;
      for (std::uint32_t t = first; t <= last; ++t) {
        const std::uint32_t block = table.as<std::uint32_t>()[b * table.shape[1] + t];
        if (block >= blocks) fail("block table", table, "block " + std::to_string(block) + " is outside a pool of " + std::to_string(blocks));
      }
    }
  }

 private:
  static std::size_t alignment(Format format) {
    switch (format) {
      case Format::f32:
      case Format::index32: return 4;
      case Format::f16:
      case Format::bf16: return 2;
      default: return 1;
    }
  }
  const KernelCall& call_;
};

void check_matmul(const Checker& check, const KernelCall& call) {
  const View &w = call.in[0], &x = call.in[1];
  if (!variant::supports(call.variant, w.format, w.layout)) {
    check.fail("W", w, "variant " + std::string(variant::name(call.variant)) + " does not take it");
  }
  check.view(w, "W", {0, 0});
  check.floats(x, "x", {0, w.shape[1]});
  if (call.in.size() > 2) check.float_elements(call.in[2], "bias", w.shape[0]);
  check.floats(call.out[0], "y", {x.shape[0], w.shape[0]});
  check.slice(w.shape[0]);
  if (w.layout != Layout::tiled) return;
  if (w.shape[0] % kTileRows != 0) check.fail("W", w, "tiled rows have to be a multiple of " + std::to_string(kTileRows));
  const Range slice = sliced(call, w.shape[0]);
  if (slice.first % kTileRows != 0 || slice.end() % kTileRows != 0) {
    check.fail("slice " + std::to_string(slice.first) + "+" + std::to_string(slice.count) + " cuts a tile of " + std::to_string(kTileRows));
  }
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
  const std::uint64_t n = std::uint64_t{k.shape[0]} * pool.shape[0] * pool.shape[2];
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

void check_copy(const Checker& check, const KernelCall& call) {
  const View &x = call.in[0], &y = call.out[0];
  check.bounds(x, "x");
  check.bounds(y, "y");
  if (x.shape != y.shape) check.fail("y", y, "expected the shape of x, " + shape_text(x));
  if (x.format != y.format && (x.format == Format::index32 || !can_quantise(y.format))) check.fail("y", y, "no conversion from " + shape_text(x));
}

// Operand counts, and whether slice and row list mean anything, per operator in the order of Op.
struct Arity {
  std::size_t in_min, in_max, out;
  bool slice, rows;
};
constexpr Arity kArity[] = {
    {2, 2, 1, false, false}, {2, 2, 1, false, false}, {2, 3, 1, true, true},   {1, 2, 1, true, false},  {3, 3, 1, true, false},
    {3, 3, 1, true, false},  {2, 2, 1, true, true},   {2, 2, 1, true, false},  {2, 2, 1, false, false}, {1, 1, 0, false, false},
    {3, 3, 1, true, false},  {1, 1, 1, true, false},  {2, 2, 0, false, false}, {1, 1, 1, false, false},
};

}  // namespace

void check_call(const KernelCall& call) {
  const Checker check(call);
  const Arity& arity = kArity[static_cast<std::size_t>(call.op)];
  check.counts(arity.in_min, arity.in_max, arity.out);
  if (!arity.slice) check.no_slice();
  if (!arity.rows) check.no_rows();
  switch (call.op) {
    case Op::embed: {
      const View& table = check.view(call.in[0], "table", {0, 0});
      if (table.format == Format::index32) check.fail("table", table, "expected weights");
      const View& out = check.floats(call.out[0], "y", {0, table.shape[1]});
      return check.index_elements(call.in[1], "tokens", out.shape[0]);
    }
    case Op::rms_norm: {
      const View& x = check.floats(call.in[0], "x", {0, 0});
      check.float_elements(call.in[1], "weight", x.shape[1]);
      check.floats(call.out[0], "y", {x.shape[0], x.shape[1]});
      return;
    }
    case Op::matmul: return check_matmul(check, call);
    case Op::rope: return check_rope(check, call);
    case Op::kv_append: return check_kv_append(check, call);
    case Op::attention: return check_attention(check, call);
    case Op::glu: check.whole(0, "activation", 0, 3); return check_two_alike(check, call);
    case Op::add: return check_two_alike(check, call);
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
    case Op::expert_sum: return check_expert_sum(check, call);
    case Op::reduce: return check_reduce(check, call);
    case Op::sample: return check_sample(check, call);
    case Op::copy: return check_copy(check, call);
  }
}

}  // namespace vitro::contract
