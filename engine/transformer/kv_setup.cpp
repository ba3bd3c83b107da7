#include "engine/transformer/kv_setup.hpp"

#include <algorithm>

#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

// Full blocks of each sequence for which memory has room, beside tails, blocks on their way out, sums and one layer of what leaves.
std::uint32_t blocks_in(Bytes room, const KvShape& shape, const TransformerOptions& options) {
  const std::uint32_t tokens = shape.block_tokens, blocks = pool_blocks(shape, options.max_tokens, options.sequences);
  const Bytes slice = Bytes{tokens} * shape.heads * kv_pair_bytes(shape.format, shape.head_dim), block = slice * shape.layers;
  if (room >= blocks * block) return blocks;
  const Bytes sums = options.kv_checksums ? KvSums::bytes(std::uint64_t{blocks} * shape.layers) : 0;
  const Bytes moving = (2 * options.sequences + 2 * (options.max_rows / tokens + 1)) * block + blocks * slice + sums;
  const Bytes each = options.sequences * block - std::min(slice, options.sequences * block - 1);
  return room < moving ? 0 : static_cast<std::uint32_t>(std::min<Bytes>((room - moving) / each, blocks));
}

std::unique_ptr<KvKeep> make_keep(const KvShape& shape, const TransformerOptions& options, std::optional<Bytes> room) {
  const auto blocks_of = [&](std::uint32_t tokens) { return (tokens + shape.block_tokens - 1) / shape.block_tokens; };
  KvKeepOptions keep{blocks_of(options.kv_dram_tokens), blocks_of(options.kv_sinks)};
  if (room) keep.kept_blocks = std::max(keep.kept_blocks, blocks_in(*room, shape, options));
  return options.kv_keep->make(keep);
}

}  // namespace

KvShape kv_shape(const ModelConfig& config, const TransformerOptions& options) {
  const std::uint32_t heads = options.kv_per_query_head ? config.heads : config.kv_heads;
  return in_whole_pages({config.layers, heads, config.head_dim, options.kv_block_tokens, options.kv_format, options.kv_keep != nullptr});
}

bool may_spill(const ModelConfig& config, const TransformerOptions& options) {
  if (options.kv_keep == nullptr) return false;
  if (options.kv_keep->follows_budget) return true;  // not known yet
  const KvShape shape = kv_shape(config, options);
  return pool_blocks(shape, options.max_tokens, options.sequences) > make_keep(shape, options, {})->capacity();
}

KvPlacement kv_placement(const Memory& memory, const ModelConfig& config, const TransformerOptions& options) {
  if (options.kv_keep == nullptr) return {.first_sequence = options.first_sequence};
  std::optional<Bytes> room;
  if (options.kv_keep->follows_budget) {
    const Budget& dram = memory.budget(Placement::dram);
    const Bytes free = dram.limit - std::min(dram.limit, dram.used + options.claimed);
    room = std::min(free, options.kv_room.value_or(free));
  }
  return {make_keep(kv_shape(config, options), options, room), config.window, options.first_sequence};
}

}  // namespace vitro
