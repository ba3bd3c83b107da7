// Which bytes a call computes with, and what it leaves.
#include <fmt/format.h>

#include "engine/ops/operands.hpp"
#include "engine/torture/shadow/shadow.hpp"

namespace vitro {
namespace {

std::string named(const KernelCall& call) { return fmt::format("{} of {}", to_string(call.op), describe(call)); }

// Whether the operand is always weights.
bool from_a_model(const KernelCall& call, std::size_t operand) {
  return operand == 0 ? call.is<ops::Matmul, ops::Accumulate, ops::Embed>() : operand == 1 && call.is<ops::RmsNorm>();
}

// A copy of an adapter's matrix that the host made, or B A of two of them, which earlier calls made (LoraOrder::ab_x).
bool of_adapter(const View& view) {
  const Region region = view.memory.block()->region;
  return region == Region::adapter || region == Region::activation;
}

// How a call reads a KV pool: keys are 0, values 1.
struct KvReading {
  std::uint32_t window, layers, first, end;
};
KvReading reading_of(const KernelCall& call) {
  if (call.is<ops::Attention>()) return {call.get<ops::Attention>().window, call.get<ops::Attention>().pool_layers, 0, 2};
  if (call.is<ops::AttentionScores>()) return {call.get<ops::AttentionScores>().window, call.get<ops::AttentionScores>().pool_layers, 0, 1};
  return {call.get<ops::AttentionValues>().window, call.get<ops::AttentionValues>().pool_layers, 1, 2};
}

std::uint32_t number_in(const View& table, std::size_t at) { return table.as<std::uint32_t>()[at]; }

}  // namespace

ShadowBytes* Shadow::filled(const View& view) {
  if (!view.memory) return nullptr;
  const auto found = leases_.find(view.memory.id());
  return found == leases_.end() ? nullptr : &found->second;
}

void Shadow::look(const KernelCall& call, Ticket ticket) {
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const View& view = call.in[i];
    const bool weights = from_a_model(call, i);
    if (filled(view) == nullptr) {
      if (!weights || !view.memory || of_adapter(view)) continue;
      doubt(fmt::format("{} computes with lease {}, into which nothing was read", named(call), view.memory.id()));
      continue;
    }
    if (i == 0 && call.is<ops::Matmul, ops::Accumulate>()) {
      look_at_weights(call, ticket);
    } else if (i == 0 && call.is<ops::Embed>()) {
      look_at_embedding(call, ticket);
    } else if (reads_kv(call)) {
      look_at_attention(call, ticket);
    } else if (call.is<ops::KvStage>()) {
      continue;  // what it copies is what attention sees of it
    } else if (!call.is<ops::Copy>() || call.row_offsets == nullptr) {
      look_at_bytes(call, ticket, view, view.offset, view.offset + view_bytes(view), weights);
    }
  }
}

void Shadow::look_at_weights(const KernelCall& call, Ticket ticket) {
  const View& view = call.in[0];
  const Bytes row = row_bytes(view.format, columns(view), view.layout);
  if (call.row_offsets != nullptr || view.layout == Layout::rows) {
    for_each_row(call, [&](std::uint32_t r, Bytes at) { look_at_rows(call, ticket, r, view.offset + at, view.offset + at + row); });
    return;
  }
  for_each_run(call, view.shape[0], [&](Range run) {  // tiles are read whole
    const std::uint32_t group = group_rows(view.layout), first = run.first / group * group;
    const Bytes end = std::min(round_up(run.end(), group), Bytes{view.shape[0]});
    look_at_rows(call, ticket, first, view.offset + first * row, view.offset + end * row);
  });
}

// The rows of its tokens.
void Shadow::look_at_embedding(const KernelCall& call, Ticket ticket) {
  const View &view = call.in[0], &tokens = call.in[1];
  if (tokens.data() == nullptr) return;
  const Bytes row = row_bytes(view.format, columns(view), view.layout);
  for (std::uint32_t i = 0; i < tokens.shape[0]; ++i) {
    const Bytes begin = view.offset + number_in(tokens, i) * row;
    look_at_bytes(call, ticket, view, begin, begin + row, true);
  }
}

void Shadow::look_at_rows(const KernelCall& call, Ticket ticket, std::uint32_t row, Bytes begin, Bytes end) {
  const View& view = call.in[0];
  look_at_bytes(call, ticket, view, begin, end, true);
  for (const ShadowBytes::Run& run : filled(view)->runs(begin, end)) {
    if (run.holds.kind != Holds::Kind::from_file) continue;
    const auto place = weights_.at(run.holds.file, run.holds.from);
    if (!place) continue;
    if (std::string why = ShadowWeights::mismatch(call, *place, row, run.begin - view.offset); !why.empty()) return doubt(std::move(why));
  }
}

void Shadow::look_at_bytes(const KernelCall& call, Ticket ticket, const View& view, Bytes begin, Bytes end, bool has_to_be_read) {
  ++counts_.operands;
  computing_.push_back({ticket, view.memory.id(), begin, end, std::string(to_string(call.op))});
  for (const ShadowBytes::Run& run : filled(view)->runs(begin, end)) {
    const char* what = nullptr;
    if (run.holds.kind == Holds::Kind::coming) what = "a read of them has not landed";
    if (run.holds.kind == Holds::Kind::failed) what = "the read of them failed";
    if (run.holds.kind == Holds::Kind::nothing && has_to_be_read) what = "they were not read since they were given up";
    if (what == nullptr) continue;
    return doubt(fmt::format("{} computes with {} bytes at {} of lease {}, and {}", named(call), run.end - run.begin, run.begin,
                             view.memory.id(), what));
  }
}

// Of the pool the positions that the rows see: what lies behind them in their last block is not theirs yet.
void Shadow::look_at_attention(const KernelCall& call, Ticket ticket) {
  const View &view = call.in[1], &table = call.in[2];
  if (table.data() == nullptr || call.batch == nullptr) return;
  const KvReading reading = reading_of(call);
  const KvPool pool(view, reading.layers, call.layer);
  std::map<std::uint32_t, Range> seen;  // by block: of its tokens
  for (std::size_t b = 0; b < call.batch->size(); ++b) {
    const Range positions = visible((*call.batch)[b].position, reading.window);
    for (std::uint32_t at = positions.first; at < positions.end();) {
      const std::uint32_t token = at % pool.block_tokens, count = std::min(pool.block_tokens - token, positions.end() - at);
      Range& tokens = seen.try_emplace(number_in(table, b * table.shape[1] + at / pool.block_tokens), Range{token, count}).first->second;
      const std::uint32_t first = std::min(tokens.first, token);
      tokens = {first, std::max(tokens.end(), token + count) - first};
      at += count;
    }
  }
  const Range heads = sliced(call, pool.heads);
  for (const auto& [block, tokens] : seen) {
    for (std::uint32_t which = reading.first; which < reading.end; ++which) {
      for (std::uint32_t head = heads.first; head < heads.end(); ++head) {
        const Bytes begin = view.offset + pool.offset(block, which, head) + tokens.first * pool.row_bytes(which);
        look_at_bytes(call, ticket, view, begin, begin + tokens.count * pool.row_bytes(which), false);
      }
    }
  }
}

void Shadow::carry_out(const KernelCall& call) {
  if (call.is<ops::Copy>() && call.row_offsets != nullptr) return copy(call);
  if (call.is<ops::KvAppend>()) return append(call);
  for (const View& out : call.out) {
    if (ShadowBytes* const bytes = filled(out)) bytes->put(out.offset, out.offset + view_bytes(out), {});
  }
}

// Neurons from where they landed to their places: what they hold goes with them.
void Shadow::copy(const KernelCall& call) {
  const View &from = call.in[0], &to = call.out[0];
  ShadowBytes* const source = filled(from);
  if (source == nullptr) return;
  const Bytes row = Bytes{4} * columns(from);
  for (std::size_t i = 0; i < call.rows->size(); ++i) {
    const Bytes begin = from.offset + (*call.rows)[i] * kRowOffsetUnit, into = to.offset + (*call.row_offsets)[i] * kRowOffsetUnit;
    ++counts_.operands;
    for (const ShadowBytes::Run& run : source->runs(begin, begin + row)) {
      leases_[to.memory.id()].put(into + run.begin - begin, into + run.end - begin, run.holds);
    }
  }
}

void Shadow::append(const KernelCall& call) {
  const View &view = call.out[0], &table = call.in[2];
  ShadowBytes* const bytes = filled(view);
  if (bytes == nullptr || table.data() == nullptr || call.batch == nullptr) return;
  const KvPool pool(view, call.get<ops::KvAppend>().pool_layers, call.layer);
  for (std::size_t b = 0; b < call.batch->size(); ++b) {
    const std::uint32_t position = (*call.batch)[b].position, token = position % pool.block_tokens;
    const std::uint32_t block = number_in(table, b * table.shape[1] + position / pool.block_tokens);
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t head = sliced(call, pool.heads).first; head < sliced(call, pool.heads).end(); ++head) {
        const Bytes begin = view.offset + pool.offset(block, which, head) + token * pool.row_bytes(which);
        bytes->put(begin, begin + pool.row_bytes(which), {});
      }
    }
  }
}

}  // namespace vitro
