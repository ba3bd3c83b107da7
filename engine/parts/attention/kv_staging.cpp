#include "engine/parts/attention/kv_staging.hpp"

#include <algorithm>
#include <utility>

#include "engine/quant/kv_rows.hpp"

namespace vitro {
namespace {

Bytes block_bytes_of(const KvShape& shape) { return Bytes{shape.heads} * shape.block_tokens * kv_pair_bytes(Format::f16, shape.head_dim); }

}  // namespace

Bytes KvStaging::bytes(const KvShape& shape, std::uint32_t blocks) { return round_up(blocks * block_bytes_of(shape), kPageSize); }

KvStaging::KvStaging(Memory& memory, const KvCache& kv, std::uint32_t window)
    : memory_(memory),
      kv_(kv),
      window_(window),
      block_bytes_(block_bytes_of(kv.shape())),
      range_(memory.reserve(bytes(kv.shape(), kv.blocks()), Placement::dram, Region::kv).value_or_throw()),
      places_(std::make_shared<const std::vector<SeqPos>>()) {}

Status KvStaging::begin_step(const std::vector<SeqPos>& rows) {
  const std::uint32_t tokens = kv_.shape().block_tokens;
  std::vector<SeqPos> places;
  std::vector<std::uint32_t> sources;
  std::map<std::uint32_t, std::uint32_t> place_of;
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && rows[end].sequence == rows[first].sequence) ++end;
    const std::uint32_t begin = window_ == 0 || rows[first].position < window_ ? 0 : rows[first].position + 1 - window_;
    const std::uint32_t last = rows[end - 1].position;
    const std::vector<std::uint32_t>& blocks = kv_.blocks_of(rows[first].sequence);
    for (std::uint32_t i = begin / tokens; i <= last / tokens; ++i) {
      const std::uint32_t seen = i == last / tokens ? last % tokens : tokens - 1;
      const auto [known, is_new] = place_of.try_emplace(blocks[i], static_cast<std::uint32_t>(places.size()));
      if (is_new) {
        places.push_back({rows[first].sequence, seen});
        sources.push_back(blocks[i]);
      }
      places[known->second].position = std::max(places[known->second].position, seen);
    }
  }
  const Bytes wanted = round_up(places.size() * block_bytes_, kPageSize);
  if (wanted > committed_) {
    if (Status status = memory_.commit(range_, committed_, wanted - committed_); !status.ok()) return status;
  } else if (wanted < committed_) {
    memory_.decommit(range_, wanted, committed_ - wanted);
  }
  committed_ = wanted;
  places_ = std::make_shared<const std::vector<SeqPos>>(std::move(places));
  sources_ = std::move(sources);
  place_of_ = std::move(place_of);
  return {};
}

View KvStaging::pool() const {
  View view = kv_.pool();
  view.memory = range_;
  view.format = Format::f16;
  return view;
}

void KvStaging::fill_sources(std::uint32_t layer, std::uint32_t* out) const {
  for (const std::uint32_t block : sources_) *out++ = kv_.number_of(block, layer);
}

void KvStaging::fill_table(const std::vector<SeqPos>& rows, std::uint32_t width, std::uint32_t* out) const {
  for (const SeqPos& row : rows) {
    const std::vector<std::uint32_t>& blocks = kv_.blocks_of(row.sequence);
    for (std::uint32_t i = 0; i < width; ++i) {
      const auto place = i < blocks.size() ? place_of_.find(blocks[i]) : place_of_.end();
      *out++ = place == place_of_.end() ? 0 : place->second;
    }
  }
}

}  // namespace vitro
