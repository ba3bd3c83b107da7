#include "engine/kernels/bench.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "engine/base/hash.hpp"
#include "engine/base/rng.hpp"
#include "engine/kernels/compute_function.hpp"
#include "engine/kernels/operands.hpp"
#include "engine/kernels/variants.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {
namespace {

// Anonymous memory on huge pages where the system gives them: for the read loops and the kernels alike.
Lease huge_lease(Bytes size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw RunError("bench: no memory for " + format_bytes(size));
  madvise(memory, size, MADV_HUGEPAGE);
  auto* block = new Block{Placement::dram, Region::fixed, size, static_cast<std::byte*>(memory), 0};
  return Lease(std::shared_ptr<Block>(block, [](Block* b) {
    munmap(b->data, b->size);
    delete b;
  }));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Copies of one matrix, one after the other, more than fit in a cache.
struct Weights {
  View matrix;  // the first copy
  std::size_t copies = 0;
  Bytes bytes = 0;  // of one copy
  View copy(std::size_t i) const {
    View view = matrix;
    view.offset = i * bytes;
    return view;
  }
};

Weights make_weights(Format format, Layout layout, std::uint32_t rows, std::uint32_t columns, Bytes total) {
  Weights weights;
  weights.bytes = rows * row_bytes(format, columns);
  weights.copies = std::max<std::size_t>(1, (total + weights.bytes - 1) / weights.bytes);
  weights.matrix.memory = huge_lease(weights.copies * weights.bytes);
  weights.matrix.shape = {rows, columns, 0};
  weights.matrix.format = format;
  weights.matrix.layout = layout;
  Rng rng(1);
  std::vector<float> row(columns);
  std::vector<std::byte> group(kTileRows * row_bytes(format, columns));
  constexpr std::uint32_t kDistinct = 16;  // groups of rows; the others are copies of them
  for (std::uint32_t g = 0; g < rows / kTileRows; ++g) {
    std::byte* to = weights.matrix.data() + g * group.size();
    if (g >= kDistinct) {
      std::memcpy(to, to - kDistinct * group.size(), group.size());
      continue;
    }
    for (std::uint32_t r = 0; r < kTileRows; ++r) {
      for (float& w : row) w = static_cast<float>(rng.uniform() - 0.5);
      quantise_row(format, row.data(), &group[r * row_bytes(format, columns)], columns);
    }
    if (layout == Layout::rows) {
      std::memcpy(to, group.data(), group.size());
    } else {
      pack_tile(format, columns, group.data(), to, layout);
    }
  }
  for (std::size_t i = 1; i < weights.copies; ++i) std::memcpy(weights.copy(i).data(), weights.matrix.data(), weights.bytes);
  return weights;
}

View float_view(std::uint32_t rows, std::uint32_t columns) {
  View view;
  view.shape = {rows, columns, 0};
  view.memory = huge_lease(view_bytes(view));
  return view;
}

class Bench {
 public:
  Bench(const BenchOptions& options, const Clock& clock) : options_(options), clock_(clock), function_({options.set}) {}

  std::vector<BenchRow> run() {
    memory_bound("matvec q4_0", {Format::q4_0, Layout::tiled, variant::kInt8});
    memory_bound("matvec q8_0", {Format::q8_0, Layout::tiled, variant::kInt8});
    for (const Format format : {Format::w1g64z, Format::w2g64z, Format::w3g64z, Format::w4g64z}) {
      const Subject look_ups{format, Layout::lut, variant::kInt8}, dots{format, Layout::tiled, variant::kInt8};
      const std::string name = "matvec " + std::string(to_string(format));
      memory_bound(name + " look-up", look_ups);
      memory_bound(name + " dot", dots);
      against_q4_0(name + " look-up", look_ups);
      against_q4_0(name + " dot", dots);
    }
    memory_bound("matvec f16", {Format::f16, Layout::rows, variant::kFloat});
    memory_bound("neurons: matvec f16", {Format::f16, Layout::rows, variant::kFloat, true});
    memory_bound("neurons: matvec q4_0", {Format::q4_0, Layout::rows, variant::kInt8, true});
    memory_bound("neurons: accumulate f16", {Format::f16, Layout::rows, variant::kFloat, true, Op::accumulate});
    memory_bound("neurons: accumulate q4_0", {Format::q4_0, Layout::rows, variant::kFloat, true, Op::accumulate});
    memory_bound("neurons: accumulate q4_0, int8", {Format::q4_0, Layout::rows, variant::kInt8, true, Op::accumulate});
    compute_bound("matmul q4_0", {Format::q4_0, Layout::tiled, variant::kInt8}, function_.set().int8_macs);
    for (const Layout layout : {Layout::lut, Layout::tiled}) {
      const std::string kind = layout == Layout::lut ? " look-up layout" : " dot layout";
      compute_bound("matmul w2g64z" + kind, {Format::w2g64z, layout, variant::kInt8}, function_.set().int8_macs);
      compute_bound("matmul w4g64z" + kind, {Format::w4g64z, layout, variant::kInt8}, function_.set().int8_macs);
    }
    compute_bound("matmul f16", {Format::f16, Layout::rows, variant::kFloat}, function_.set().float_macs);
    return std::move(rows_);
  }

 private:
  // `scattered`: the rows stand in any order, as neurons in a cache do.
  struct Subject {
    Format format{};
    Layout layout{};
    VariantId variant{};
    bool scattered = false;
    Op op = Op::matmul;
  };

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
  std::uint32_t matrix_rows() const { return options_.smoke ? 64 : 14336; }
  std::uint32_t matrix_columns() const { return options_.smoke ? 1024 : 4096; }
  int repetitions() const { return options_.smoke ? 1 : options_.repetitions; }
  Weights weights(const Subject& subject) const {
    return make_weights(subject.format, subject.layout, matrix_rows(), matrix_columns(),
                        options_.smoke ? Bytes{64 * KiB} : options_.weights);
  }

  // The call cut into shares of its rows, one per thread. An accumulate writes whole outputs, so each share has its own.
  std::vector<KernelCall> calls(const Weights& weights, const Subject& subject, std::uint32_t batch, int threads) const {
    const bool sums = subject.op == Op::accumulate;
    KernelCall call;
    call.op = subject.op;
    call.variant = subject.variant;
    call.in = {weights.matrix, float_view(batch, sums ? matrix_rows() : matrix_columns())};
    call.out = {float_view(batch, sums ? matrix_columns() : matrix_rows())};
    Rng rng(2);
    for (std::size_t i = 0; i < elements(call.in[1]); ++i) call.in[1].as<float>()[i] = static_cast<float>(rng.uniform() - 0.5);
    const auto pitch = static_cast<std::uint32_t>(row_bytes(subject.format, matrix_columns()) / kPlaceUnit);
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
      parts.back().places = std::make_shared<const std::vector<std::uint32_t>>(places.begin() + first, places.begin() + first + share);
    }
    return parts;
  }
  // One pass over all copies: every thread does its part of each.
  void pass(const Weights& weights, const std::vector<KernelCall>& parts, std::size_t copies) {
    on_threads(static_cast<int>(parts.size()), [&](int thread) {
      KernelCall part = parts[static_cast<std::size_t>(thread)];
      for (std::size_t i = 0; i < copies; ++i) {
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

  // Kernels whose time is the reading of weights, beside every set's read loops over the same bytes.
  void memory_bound(const std::string& name, const Subject& subject) {
    if (!name.starts_with(options_.only)) return;
    const Weights w = weights(subject);
    const Bytes total = w.copies * w.bytes;
    for (const int threads : {1, 2}) {
      const std::vector<KernelCall> parts = calls(w, subject, 1, threads);
      std::vector<std::vector<double>> read_rates(kernel_sets().size() * 4);
      std::vector<double> rates;
      pass(w, parts, w.copies);  // touches every page and warms the scratch
      for (int i = 0; i < repetitions(); ++i) {
        std::size_t loop = 0;
        for (const KernelSet* set : kernel_sets()) {
          for (const ReadLoop& read : set->reads) {
            const double time = seconds([&] {
              on_threads(threads, [&](int thread) {
                const Bytes share = total / static_cast<Bytes>(threads);
                sink_ += read.read(w.matrix.data() + static_cast<Bytes>(thread) * share, share);
              });
            });
            read_rates[loop++].push_back(static_cast<double>(total) / time / 1e9);
          }
        }
        rates.push_back(static_cast<double>(total) / seconds([&] { pass(w, parts, w.copies); }) / 1e9);
      }
      const std::string suffix = threads == 1 ? ", 1 thread" : ", 2 threads";
      double limit = 0;
      std::string best;
      for (std::size_t i = 0; i < read_rates.size(); ++i) {
        const double rate = median(read_rates[i]);
        if (rate <= limit) continue;
        limit = rate;
        best = std::string(kernel_sets()[i / 4]->name) + " " + std::string(kernel_sets()[i / 4]->reads[i % 4].name);
      }
      rows_.push_back({"memory read (" + best + ") beside " + name + suffix, limit, "GB/s", {}, {}, {}});
      add_row(name + suffix, median(rates), "GB/s", limit, hash_of(parts[0].out[0]));
      if (subject.scattered) continue;
      const double per_byte = static_cast<double>(block_elements(subject.format)) / static_cast<double>(block_bytes(subject.format));
      add_row(name + suffix + ", weights", median(rates) * per_byte, "Gweights/s", limit * per_byte, hash_of(parts[0].out[0]));
    }
  }

  // Weights per second beside those of q4_0, the two taking turns on one thread. The limit is the ratio of their bytes per weight:
  // what both would do if nothing but memory counted.
  void against_q4_0(const std::string& name, const Subject& subject) {
    if (!name.starts_with(options_.only)) return;
    const Subject q4_0{Format::q4_0, Layout::tiled, variant::kInt8};
    const Subject* subjects[] = {&subject, &q4_0};
    std::vector<Weights> matrices;
    std::vector<std::vector<KernelCall>> parts;
    for (const Subject* s : subjects) {
      matrices.push_back(weights(*s));
      parts.push_back(calls(matrices.back(), *s, 1, 1));
      pass(matrices.back(), parts.back(), matrices.back().copies);
    }
    std::vector<double> ratios;
    for (int i = 0; i < repetitions(); ++i) {
      double per_matrix[2];
      for (int s = 0; s < 2; ++s) {
        per_matrix[s] = seconds([&] { pass(matrices[s], parts[s], matrices[s].copies); }) / static_cast<double>(matrices[s].copies);
      }
      ratios.push_back(per_matrix[1] / per_matrix[0]);
    }
    add_row(name + ", weights per second over those of q4_0", median(ratios), "x",
            static_cast<double>(matrices[1].bytes) / static_cast<double>(matrices[0].bytes), hash_of(parts[0][0].out[0]));
  }

  // Weight reuse: the batch grows, the weights are read once. Above a batch that hides the reading, the limit is arithmetic.
  void compute_bound(const std::string& name, const Subject& subject, std::uint64_t (*peak)(std::size_t)) {
    if (!name.starts_with(options_.only)) return;
    const Weights w = weights(subject);
    const std::size_t copies = std::min<std::size_t>(w.copies, 4);
    for (const std::uint32_t batch : {1u, 4u, 8u, 16u, 64u}) {
      const std::vector<KernelCall> matmul = calls(w, subject, batch, 1);
      const double weights_read = static_cast<double>(copies) * matrix_rows() * matrix_columns();
      std::vector<double> peaks, rates;
      pass(w, matmul, 1);
      for (int i = 0; i < repetitions(); ++i) {
        std::uint64_t macs = 0;
        const double time = seconds([&] { macs = peak(options_.smoke ? 10 : 3'000'000); });
        peaks.push_back(static_cast<double>(macs) / time / 1e9);
        rates.push_back(weights_read * batch / seconds([&] { pass(w, matmul, copies); }) / 1e9);
      }
      const double rate = median(rates), gmacs_per_gb = weights_read / (static_cast<double>(copies * w.bytes));
      const std::string suffix = ", batch " + std::to_string(batch);
      add_row(name + suffix, rate, "GMAC/s", median(peaks), hash_of(matmul[0].out[0]));
      // What the multiplied weights would be as a stream: several times what memory can deliver, once they are reused.
      rows_.push_back({name + suffix + ", weights used", rate / gmacs_per_gb, "GB/s", {}, {}, hash_of(matmul[0].out[0])});
    }
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
