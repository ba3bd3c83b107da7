#include "engine/kernels/bench_weights.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/quant/k_tiles.hpp"
#include "engine/quant/tiles.hpp"

namespace vitro {

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

// Weights of K-quants and codebooks, also of those that are read and not made: bytes of all kinds, and scales of one size.
static void fill_blocks(Format format, Rng& rng, std::byte* row, std::size_t bytes) {
  for (std::size_t b = 0; b < bytes; ++b) row[b] = static_cast<std::byte>(rng.next());
  const std::size_t block = block_bytes(format);
  for (std::size_t at = 0; at < bytes; at += block) {
    row[at + (format == Format::q6_k || format == Format::iq1_m ? block - 1 : 1)] = std::byte{0x10};
    if (has_minima(format)) row[at + 3] = std::byte{0x10};
  }
}

View BenchWeights::copy(std::size_t i) const {
  View view = matrix;
  view.offset = i * bytes;
  return view;
}

BenchWeights make_bench_weights(Format format, Layout layout, std::uint32_t rows, std::uint32_t columns, Bytes total) {
  BenchWeights weights;
  weights.bytes = rows * row_bytes(format, columns, layout);
  weights.copies = std::max<std::size_t>(1, (total + weights.bytes - 1) / weights.bytes);
  weights.matrix.memory = huge_lease(weights.copies * weights.bytes);
  weights.matrix.shape = {rows, columns, 0};
  weights.matrix.format = format;
  weights.matrix.layout = layout;
  Rng rng(1);
  std::vector<float> row(columns);
  std::vector<std::byte> group(kTileRows * row_bytes(format, columns));
  const Bytes packed = kTileRows * row_bytes(format, columns, layout);
  constexpr std::uint32_t kDistinct = 16;  // groups of rows; the others are copies of them
  for (std::uint32_t g = 0; g < rows / kTileRows; ++g) {
    std::byte* to = weights.matrix.data() + g * packed;
    if (g >= kDistinct) {
      std::memcpy(to, to - kDistinct * packed, packed);
      continue;
    }
    for (std::uint32_t r = 0; r < kTileRows; ++r) {
      if (has_k_tiles(format) || format.is_codebook()) {
        fill_blocks(format, rng, &group[r * row_bytes(format, columns)], row_bytes(format, columns));
        continue;
      }
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

}  // namespace vitro
