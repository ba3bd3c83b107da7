#include "engine/kernels/bench.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "engine/base/hash.hpp"
#include "engine/base/rng.hpp"
#include "engine/kernels/bench_attention.hpp"
#include "engine/kernels/bench_reads.hpp"
#include "engine/kernels/bench_weights.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const BenchOptions& options, const Clock& clock) : options_(options), clock_(clock), function_({options.set}) {}

  std::vector<BenchRow> run() {
    memory_bound("matvec q4_0", {Format::q4_0, Layout::tiled, variant::kInt8});
    memory_bound("matvec q8_0", {Format::q8_0, Layout::tiled, variant::kInt8});
    for (const Format format : {Format::q4_k, Format::q5_k, Format::q6_k, Format::iq4_xs, Format::w4_outliers}) {
      const Subject subject{format, Layout::tiled, variant::kInt8};
      const std::string name = "matvec " + std::string(to_string(format));
      memory_bound(name, subject);
      against_q4_0(name, subject);
    }
    for (const Format format : all_formats()) {
      if (format.is_codebook()) memory_bound("matvec " + std::string(to_string(format)), {format, Layout::rows, variant::kInt8});
    }
    for (const Format format : {Format::w(1, 64, 'z'), Format::w(2, 64, 'z'), Format::w(3, 64, 'z'), Format::w(4, 64, 'z')}) {
      const Subject look_ups{format, Layout::lut, variant::kInt8}, dots{format, Layout::tiled, variant::kInt8};
      const std::string name = "matvec " + std::string(to_string(format));
      memory_bound(name + " look-up", look_ups);
      memory_bound(name + " dot", dots);
      against_q4_0(name + " look-up", look_ups);
      against_q4_0(name + " dot", dots);
    }
    for (const Format format : {Format::w(2, 64, 'z'), Format::w(4, 64, 'z')}) {
      const Subject rounded{format, Layout::lut, variant::kInt8Tables};
      const std::string name = "matvec " + std::string(to_string(format)) + " look-up in int8 tables";
      memory_bound(name, rounded);
      against_q4_0(name, rounded);
    }
    memory_bound("matvec f16", {Format::f16, Layout::rows, variant::kFloat});
    memory_bound("neurons: matvec f16", {Format::f16, Layout::rows, variant::kFloat, true});
    memory_bound("neurons: matvec q4_0", {Format::q4_0, Layout::rows, variant::kInt8, true});
    memory_bound("neurons: matvec q4_k", {Format::q4_k, Layout::rows, variant::kInt8, true});
    memory_bound("neurons: accumulate f16", {Format::f16, Layout::rows, variant::kFloat, true, ops::Accumulate{}});
    memory_bound("neurons: accumulate q4_0", {Format::q4_0, Layout::rows, variant::kFloat, true, ops::Accumulate{}});
    memory_bound("neurons: accumulate q4_0, int8", {Format::q4_0, Layout::rows, variant::kInt8, true, ops::Accumulate{}});
    compute_bound("matmul q4_0", {Format::q4_0, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    compute_bound("matmul q4_k", {Format::q4_k, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    compute_bound("matmul q5_k", {Format::q5_k, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    compute_bound("matmul q6_k", {Format::q6_k, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    for (const Format format : {Format::iq1_s, Format::iq2_xxs, Format::iq3_s}) {
      const std::string name = "matmul " + std::string(to_string(format));
      compute_bound(name, {format, Layout::rows, variant::kInt8}, function_.set().int8_macs);
    }
    for (std::uint32_t bits = 1; bits <= 4; ++bits) {
      const Format format = Format::w(bits, 64, 'z');
      const std::string name = "matmul " + std::string(to_string(format));
      compute_bound(name + " look-up layout", {format, Layout::lut, variant::kInt8}, function_.set().int8_macs);
      compute_bound(name + " dot layout", {format, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    }
    compute_bound("matmul f16", {Format::f16, Layout::rows, variant::kFloat}, function_.set().float_macs);
    for (const auto& [name, format] : {std::pair{"f16", Format::f16}, std::pair{"f32", Format::f32}}) {
      for (const std::uint32_t group : {1u, 4u}) {
        for (const std::uint32_t tokens : {256u, 1024u}) {
          attention(std::string("attention ") + name + ", " + std::to_string(group) + " queries per KV head, 64 rows of " +
                        std::to_string(tokens) + " tokens",
                    bench_attention({8 / group, group, 64, 64, tokens}, format));
        }
      }
    }
    for (const Format format : kKvFormats) {
      if (!format.is_for_kv()) continue;
      const std::string name = "attention " + std::string(to_string(format)) + ", 4 queries per KV head, ";
      for (const std::uint32_t rows : {64u, 1u}) {
        const AttentionShape shape{2, 4, 128, rows, 1024};
        const std::string what = name + std::to_string(rows) + (rows > 1 ? " rows" : " row") + " of 1024 tokens";
        attention(what, bench_attention(shape, format));
        against_f16(what, bench_attention(shape, format), bench_attention(shape, Format::f16));
      }
      const AttentionShape shape{8, 1, 128, 64, 256};
      against_f16("kv append " + std::string(to_string(format)), bench_append(shape, format), bench_append(shape, Format::f16));
    }
    return std::move(rows_);
  }

 private:
  // `scattered`: the rows stand in any order, as neurons in a cache do.
  struct Subject {
    Format format{};
    Layout layout{};
    VariantId variant{};
    bool scattered = false;
    Op op = ops::Matmul{};
  };

  bool asked(const std::string& name) const { return name.starts_with(options_.only) || options_.only.starts_with(name); }

  double seconds(const std::function<void()>& work) const {
    const Picoseconds begin = clock_.now();
    work();
    return std::max(1e-12, to_seconds(clock_.now() - begin));
  }
  // Every thread runs part(i); with one, on the calling thread.
  static void on_threads(int threads, const std::function<void(int)>& part) {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(part, i);
    part(0);
    for (std::thread& other : others) other.join();
  }
  static std::string suffix_of(int threads) { return threads == 1 ? ", 1 thread" : ", 2 threads"; }
  std::uint32_t matrix_rows() const { return options_.smoke ? 64 : 14336; }
  std::uint32_t matrix_columns() const { return options_.smoke ? 1024 : 4096; }
  int repetitions() const { return options_.smoke ? 1 : options_.repetitions; }
  BenchWeights weights(const Subject& subject) const {
    return make_bench_weights(subject.format, subject.layout, matrix_rows(), matrix_columns(),
                              options_.smoke ? Bytes{64 * KiB} : options_.weights);
  }

  // The call cut into shares of its rows, one per thread. An accumulate writes whole outputs, so each share has its own.
  std::vector<KernelCall> calls(const BenchWeights& weights, const Subject& subject, std::uint32_t batch, int threads) const {
    const bool sums = is<ops::Accumulate>(subject.op);
    KernelCall call;
    call.op = subject.op;
    call.variant = subject.variant;
    call.in = {weights.matrix, float_view(batch, sums ? matrix_rows() : matrix_columns())};
    call.out = {float_view(batch, sums ? matrix_columns() : matrix_rows())};
    Rng rng(2);
    for (std::size_t i = 0; i < elements(call.in[1]); ++i) call.in[1].as<float>()[i] = static_cast<float>(rng.uniform() - 0.5);
    const auto pitch = static_cast<std::uint32_t>(row_bytes(subject.format, matrix_columns()) / kRowOffsetUnit);
    std::vector<std::uint32_t> places(matrix_rows());
    for (std::uint32_t r = 0; r < matrix_rows(); ++r) places[r] = r * pitch;
    for (std::size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[rng.below(i)]);

    std::vector<KernelCall> parts;
    const std::uint32_t share = matrix_rows() / static_cast<std::uint32_t>(threads);
    for (std::uint32_t first = 0; first < matrix_rows(); first += share) {
      parts.push_back(call);
      parts.back().slice = {first, share};
      if (sums && first > 0) parts.back().out = {float_view(batch, matrix_columns())};
      if (!subject.scattered) continue;
      std::vector<std::uint32_t> rows(share);
      std::iota(rows.begin(), rows.end(), first);
      parts.back().rows = std::make_shared<const std::vector<std::uint32_t>>(std::move(rows));
      parts.back().row_offsets = std::make_shared<const std::vector<std::uint32_t>>(places.begin() + first, places.begin() + first + share);
    }
    return parts;
  }
  // One pass over some copies: every thread does its part of each.
  void pass(const BenchWeights& weights, const std::vector<KernelCall>& parts, std::size_t first, std::size_t copies) {
    on_threads(static_cast<int>(parts.size()), [&](int thread) {
      KernelCall part = parts[static_cast<std::size_t>(thread)];
      for (std::size_t i = first; i < first + copies; ++i) {
        part.in[0] = weights.copy(i);
        function_.execute(part);
      }
    });
  }
  static std::string hash_of(const View& y) {
    Hash hash;
    hash.add(std::span<const std::byte>(y.data(), view_bytes(y)));
    return hash.hex();
  }

  // Kernels whose time is the reading of weights, beside every set's read loops over the same bytes; of scattered rows also beside loops
  // that only read those rows in the same order.
  void memory_bound(const std::string& name, const Subject& subject) {
    if (!asked(name)) return;
    const BenchWeights w = weights(subject);
    for (const int threads : {1, 2}) {
      const std::vector<KernelCall> parts = calls(w, subject, 1, threads);
      std::vector<BenchRead> streams = stream_reads(w), rows = subject.scattered ? row_reads(w, parts) : std::vector<BenchRead>();
      std::vector<double> rates;
      pass(w, parts, 0, w.copies);  // touches every page and warms the scratch
      for (int i = 0; i < repetitions(); ++i) {
        for (std::vector<BenchRead>* reads : {&streams, &rows}) {
          for (BenchRead& read : *reads) {
            read.rates.push_back(rate(w, [&] { on_threads(threads, [&](int thread) { sink_ += read.part(thread, threads); }); }));
          }
        }
        rates.push_back(rate(w, [&] { pass(w, parts, 0, w.copies); }));
      }
      const std::string suffix = suffix_of(threads), hash = hash_of(parts[0].out[0]);
      const double limit = add_limit("memory read", streams, name + suffix);
      add_row(name + suffix, median(rates), "GB/s", limit, hash);
      if (subject.scattered) {
        const double row_limit = add_limit("memory read of its rows", rows, name + suffix);
        add_row(name + suffix + ", beside reading its rows", median(rates), "GB/s", row_limit, hash);
        continue;
      }
      const double per_byte = static_cast<double>(columns(w.matrix)) / static_cast<double>(row_bytes(subject.format, columns(w.matrix)));
      add_row(name + suffix + ", weights", median(rates) * per_byte, "Gweights/s", limit * per_byte, hash);
    }
  }

  double rate(const BenchWeights& w, const std::function<void()>& work) const {
    return static_cast<double>(w.copies * w.bytes) / seconds(work) / 1e9;
  }
  // A row with the fastest of the loops. Returns its rate.
  double add_limit(const std::string& what, const std::vector<BenchRead>& reads, const std::string& beside) {
    const BenchRead& best = *std::ranges::max_element(reads, {}, [](const BenchRead& read) { return median(read.rates); });
    rows_.push_back({what + " (" + best.name + ") beside " + beside, median(best.rates), "GB/s", {}, {}, {}});
    return median(best.rates);
  }

  // Weights per second beside those of q4_0: the two take turns of a few matrices, out of memory, so that whatever else the machine does
  // meets both; the median over all pairs. The limit is the ratio of their bytes per weight: what both would do if nothing but memory
  // counted.
  void against_q4_0(const std::string& name, const Subject& subject) {
    if (!asked(name)) return;
    const Subject q4_0{Format::q4_0, Layout::tiled, variant::kInt8};
    const BenchWeights ours = weights(subject), theirs = weights(q4_0);
    const std::size_t copies = std::min(ours.copies, theirs.copies);
    for (const int threads : {1, 2}) {
      const std::vector<KernelCall> our_parts = calls(ours, subject, 1, threads), their_parts = calls(theirs, q4_0, 1, threads);
      pass(ours, our_parts, 0, copies);
      pass(theirs, their_parts, 0, copies);
      std::vector<double> ratios;
      for (int i = 0; i < repetitions(); ++i) {
        for (std::size_t c = 0, turn = 0; c < copies; c += turn) {
          turn = std::min<std::size_t>(4, copies - c);  // milliseconds, beside which starting a thread is nothing
          const double us = seconds([&] { pass(ours, our_parts, c, turn); }), them = seconds([&] { pass(theirs, their_parts, c, turn); });
          ratios.push_back(them / us);
        }
      }
      add_row(name + ", weights per second over those of q4_0" + suffix_of(threads), median(ratios), "x",
              static_cast<double>(theirs.bytes) / static_cast<double>(ours.bytes), hash_of(our_parts[0].out[0]));
    }
  }

  // Weight reuse: the batch grows, the weights are read once. Above a batch that hides the reading, the limit is arithmetic.
  void compute_bound(const std::string& name, const Subject& subject, std::uint64_t (*peak)(std::size_t)) {
    if (!asked(name)) return;
    const BenchWeights w = weights(subject);
    const std::size_t copies = std::min<std::size_t>(w.copies, 4);
    for (const std::uint32_t batch : {1u, 4u, 8u, 16u, 64u}) {
      const std::vector<KernelCall> matmul = calls(w, subject, batch, 1);
      const double weights_read = static_cast<double>(copies) * matrix_rows() * matrix_columns();
      std::vector<double> peaks, rates;
      pass(w, matmul, 0, 1);
      for (int i = 0; i < repetitions(); ++i) {
        std::uint64_t macs = 0;
        const double time = seconds([&] { macs = peak(options_.smoke ? 10 : 3'000'000); });
        peaks.push_back(static_cast<double>(macs) / time / 1e9);
        rates.push_back(weights_read * batch / seconds([&] { pass(w, matmul, 0, copies); }) / 1e9);
      }
      const double rate = median(rates), gmacs_per_gb = weights_read / (static_cast<double>(copies * w.bytes));
      const std::string suffix = ", batch " + std::to_string(batch);
      add_row(name + suffix, rate, "GMAC/s", median(peaks), hash_of(matmul[0].out[0]));
      // What the multiplied weights would be as a stream: several times what memory can deliver, once they are reused.
      rows_.push_back({name + suffix + ", weights used", rate / gmacs_per_gb, "GB/s", {}, {}, hash_of(matmul[0].out[0])});
    }
  }

  // Of prefill, beside multiply-adds in registers.
  void attention(const std::string& name, const KernelCall& call) {
    if (!asked(name)) return;
    const auto macs = static_cast<double>(count(call).macs);
    std::vector<double> peaks, rates;
    function_.execute(call);
    for (int i = 0; i < repetitions(); ++i) {
      std::uint64_t peak_macs = 0;
      const double time = seconds([&] { peak_macs = function_.set().float_macs(options_.smoke ? 10 : 3'000'000); });
      peaks.push_back(static_cast<double>(peak_macs) / time / 1e9);
      rates.push_back(macs / seconds([&] { function_.execute(call); }) / 1e9);
    }
    add_row(name, median(rates), "GMAC/s", median(peaks), hash_of(call.out[0]));
  }

  // Of attention or an append, by turns: the time over f16's, whose bytes bound it where memory does.
  void against_f16(const std::string& name, const KernelCall& ours, const KernelCall& theirs) {
    if (!asked(name)) return;
    std::vector<double> ratios;
    for (int i = 0; i < repetitions(); ++i) {
      const double us = seconds([&] { function_.execute(ours); }), them = seconds([&] { function_.execute(theirs); });
      ratios.push_back(them / us);
    }
    const auto bytes = [&](const KernelCall& call) {
      const bool append = call.is<ops::KvAppend>();  // which reads float32
      const View& kv = append ? call.out[0] : call.in[1];
      return static_cast<double>(kv_pair_bytes(kv.format, kv.shape[2]) + (append ? kv_pair_bytes(Format::f32, kv.shape[2]) : 0));
    };
    add_row(name + ", over f16", median(ratios), "x", bytes(theirs) / bytes(ours), hash_of(ours.out[0]));
  }

  void add_row(const std::string& name, double value, const std::string& unit, double limit, const std::string& hash) {
    rows_.push_back({name + " (" + std::string(function_.set().name) + ")", value, unit, limit, value / limit, hash});
  }

  BenchOptions options_;
  const Clock& clock_;
  ComputeFunction function_;
  std::vector<BenchRow> rows_;
  static inline std::atomic<std::uint64_t> sink_{0};
};

}  // namespace

std::vector<BenchRow> bench_kernels(const BenchOptions& options, const Clock& clock) { return Bench(options, clock).run(); }

}  // namespace vitro
