#include "engine/kernels/bench.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
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
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (float& w : row) w = static_cast<float>(rng.uniform() - 0.5);
    quantise_row(format, row.data(), &group[r % kTileRows * row_bytes(format, columns)], columns);
    if (r % kTileRows != kTileRows - 1) continue;
    std::byte* to = weights.matrix.data() + (r + 1 - kTileRows) * row_bytes(format, columns);
    layout == Layout::tiled ? pack_tile(format, columns, group.data(), to) : void(std::memcpy(to, group.data(), group.size()));
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
    memory_bound("matvec q4_0", Format::q4_0, Layout::tiled, variant::kInt8);
    memory_bound("matvec q8_0", Format::q8_0, Layout::tiled, variant::kInt8);
    memory_bound("matvec f16", Format::f16, Layout::rows, variant::kFloat);
    compute_bound("matmul q4_0", Format::q4_0, Layout::tiled, variant::kInt8, function_.set().int8_macs);
    compute_bound("matmul f16", Format::f16, Layout::rows, variant::kFloat, function_.set().float_macs);
    return std::move(rows_);
  }

 private:
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
  std::uint32_t matrix_columns() const { return options_.smoke ? 128 : 4096; }
  int repetitions() const { return options_.smoke ? 1 : options_.repetitions; }
  Weights weights(Format format, Layout layout) const {
    return make_weights(format, layout, matrix_rows(), matrix_columns(), options_.smoke ? Bytes{64 * KiB} : options_.weights);
  }

  KernelCall call(const Weights& weights, VariantId variant, std::uint32_t batch) const {
    KernelCall call;
    call.op = Op::matmul;
    call.variant = variant;
    call.in = {weights.matrix, float_view(batch, matrix_columns())};
    call.out = {float_view(batch, matrix_rows())};
    Rng rng(2);
    for (std::size_t i = 0; i < std::size_t{batch} * matrix_columns(); ++i)
      call.in[1].as<float>()[i] = static_cast<float>(rng.uniform() - 0.5);
    return call;
  }
  // One pass over all copies; each thread takes its share of the rows of every copy.
  void pass(const Weights& weights, const KernelCall& call, int threads, std::size_t copies) {
    on_threads(threads, [&](int thread) {
      KernelCall part = call;
      const std::uint32_t share = matrix_rows() / static_cast<std::uint32_t>(threads);
      part.slice = {static_cast<std::uint32_t>(thread) * share, share};
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
  void memory_bound(const std::string& name, Format format, Layout layout, VariantId variant) {
    if (!name.starts_with(options_.only)) return;
    const Weights w = weights(format, layout);
    const Bytes total = w.copies * w.bytes;
    const KernelCall matvec = call(w, variant, 1);
    for (const int threads : {1, 2}) {
      std::vector<std::vector<double>> read_rates(kernel_sets().size() * 4);
      std::vector<double> rates;
      pass(w, matvec, threads, w.copies);  // touches every page and warms the scratch
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
        rates.push_back(static_cast<double>(total) / seconds([&] { pass(w, matvec, threads, w.copies); }) / 1e9);
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
      add_row(name + suffix, median(rates), "GB/s", limit, hash_of(matvec.out[0]));
    }
  }

  // Weight reuse: the batch grows, the weights are read once. Above a batch that hides the reading, the limit is arithmetic.
  void compute_bound(const std::string& name, Format format, Layout layout, VariantId variant, std::uint64_t (*peak)(std::size_t)) {
    if (!name.starts_with(options_.only)) return;
    const Weights w = weights(format, layout);
    const std::size_t copies = std::min<std::size_t>(w.copies, 4);
    for (const std::uint32_t batch : {1u, 4u, 8u, 16u, 64u}) {
      const KernelCall matmul = call(w, variant, batch);
      const double weights_read = static_cast<double>(copies) * matrix_rows() * matrix_columns();
      std::vector<double> peaks, rates;
      pass(w, matmul, 1, 1);
      for (int i = 0; i < repetitions(); ++i) {
        std::uint64_t macs = 0;
        const double time = seconds([&] { macs = peak(options_.smoke ? 10 : 3'000'000); });
        peaks.push_back(static_cast<double>(macs) / time / 1e9);
        rates.push_back(weights_read * batch / seconds([&] { pass(w, matmul, 1, copies); }) / 1e9);
      }
      const double rate = median(rates), gmacs_per_gb = weights_read / (static_cast<double>(copies * w.bytes));
      const std::string suffix = ", batch " + std::to_string(batch);
      add_row(name + suffix, rate, "GMAC/s", median(peaks), hash_of(matmul.out[0]));
      // What the multiplied weights would be as a stream: several times what memory can deliver, once they are reused.
      rows_.push_back({name + suffix + ", weights used", rate / gmacs_per_gb, "GB/s", {}, {}, hash_of(matmul.out[0])});
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
