#include "engine/kernels/bench_reads.hpp"

#include "engine/kernels/common/kernel_set.hpp"

namespace vitro {

std::vector<BenchRead> stream_reads(const BenchWeights& weights) {
  std::vector<BenchRead> reads;
  for (const KernelSet* set : kernel_sets()) {
    for (const ReadLoop& loop : set->reads) {
      const auto part = [&weights, &loop](int thread, int threads) {
        const Bytes share = weights.copies * weights.bytes / static_cast<Bytes>(threads);
        return loop.read(weights.matrix.data() + static_cast<Bytes>(thread) * share, share);
      };
      reads.push_back({std::string(set->name) + " " + std::string(loop.name), part, {}});
    }
  }
  return reads;
}

std::vector<BenchRead> row_reads(const BenchWeights& weights, std::span<const KernelCall> calls) {
  std::vector<BenchRead> reads;
  for (const KernelSet* set : kernel_sets()) {
    for (const RowReadLoop& loop : set->row_reads) {
      const auto part = [&weights, &loop, calls](int thread, int) {
        const std::vector<std::uint32_t>& places = *calls[static_cast<std::size_t>(thread)].row_offsets;
        std::vector<const std::byte*> rows(places.size());
        std::uint64_t sum = 0;
        for (std::size_t copy = 0; copy < weights.copies; ++copy) {
          for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = weights.copy(copy).data() + kRowOffsetUnit * places[r];
          sum += loop.read(rows.data(), rows.size(), row_bytes(weights.matrix.format, columns(weights.matrix)));
        }
        return sum;
      };
      reads.push_back({std::string(set->name) + " " + std::string(loop.name), part, {}});
    }
  }
  return reads;
}

}  // namespace vitro
