#include <algorithm>

#include "engine/kernels/cpu/kv_floats.hpp"
#include "engine/kernels/cpu/kv_runs.hpp"
#include "engine/kernels/fp16_attention/attention_call.hpp"
#include "engine/ops/operands.hpp"
#include "engine/ops/query_tiles.hpp"
#include "engine/ops/variants.hpp"

namespace vitro::cpu {

void compute(const ops::Rope& op, const KernelSet&, const KernelCall& call) {
  const View& view = call.out[0];
  const std::uint32_t heads = view.shape[1], dim = view.shape[2], pairs = op.dims / 2;
  const bool interleaved = op.style == RopeStyle::interleaved;
  const std::uint32_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : pairs;
  const Range slice = sliced(call, heads);
  float* cosines = scratch<float>(Scratch::a, 2 * pairs);
  float* sines = cosines + pairs;
  for (std::size_t b = 0; b < view.shape[0]; ++b) {
    const std::uint32_t position = (*call.batch)[b].position;
    if (b == 0 || position != (*call.batch)[b - 1].position) rope_angles(op, call, position, cosines, sines);
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      const std::size_t at = (b * heads + h) * dim;
      const float* x = call.in[0].as<float>() + at;
      float* y = view.as<float>() + at;
      for (std::uint32_t i = 0; i < pairs; ++i) {
        const float first = x[i * step], second = x[i * step + apart];
        y[i * step] = first * cosines[i] - second * sines[i];
        y[i * step + apart] = first * sines[i] + second * cosines[i];
      }
      if (x != y) std::copy(x + 2 * pairs, x + dim, y + 2 * pairs);
    }
  }
}

void compute(const ops::KvAppend& op, const KernelSet& set, const KernelCall& call) {
  const KvPool pool(call.out[0], op.pool_layers, call.layer);
  const View& table = call.in[2];
  const Range slice = sliced(call, pool.heads);
  const std::uint32_t copies = copies_of(call.in[0], call.out[0]);
  for (std::size_t b = 0; b < call.batch->size(); ++b) {
    const std::uint32_t position = (*call.batch)[b].position;
    const std::uint32_t block = table.as<std::uint32_t>()[b * table.shape[1] + position / pool.block_tokens];
    for (std::uint32_t which = 0; which < 2; ++which) {
      for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
        const float* from = call.in[which].as<float>() + (b * pool.heads / copies + h / copies) * pool.dim;
        std::byte* to = pool.data + pool.offset(block, which, h) + position % pool.block_tokens * pool.row_bytes(which);
        if (pool.format == Format::f16) {
          set.to_f16(from, pool.dim, reinterpret_cast<Half*>(to));
        } else if (pool.format.is_for_kv()) {
          set.pack_kv(pool.format, which, from, pool.dim, to);
        } else {
          write_kv_row(pool.format, which, from, pool.dim, to);
        }
      }
    }
  }
}

namespace {

using ops::QueryTile;

// Bytes of scores that stay in memory between calls: threads take turns, and each has its own.
constexpr std::size_t kScoresKept = 512 * 1024;

class TiledAttention {
 public:
  TiledAttention(const ops::Attention& op, const KernelSet& set, const KernelCall& call)
      : op_(op),
        set_(set),
        batch_(*call.batch),
        q_(call.in[0]),
        y_(call.out[0]),
        halves_(q_.format == Format::f16),
        pool_(call.in[1], op.pool_layers, call.layer),
        table_(call.in[2].as<std::uint32_t>()),
        table_row_(call.in[2].shape[1]),
        floats_(pool_, set),
        piece_tokens_(piece_tokens(pool_, floats_)),
        dim_(pool_.dim),
        heads_(elements(call.in[0]) / batch_.size() / dim_),
        group_(heads_ / pool_.heads),
        slice_(sliced(call, pool_.heads)) {}

  void run() {
    for (std::uint32_t b = 0; b < batch_.size();) {
      const QueryTile tile = tile_from(b);
      for (std::uint32_t h = slice_.first; h < slice_.end(); ++h) attend(tile, h);
      b += tile.rows;
    }
    forget_scratch(Scratch::a, kScoresKept);
  }

 private:
  Range seen(std::uint32_t row) const { return visible(batch_[row].position, op_.window); }
  const std::uint32_t* blocks(std::uint32_t row) const { return table_ + std::size_t{row} * table_row_; }

  // Of `tokens`, those that `row` sees, too, and has in the same blocks as row `first`.
  Range shared(Range tokens, std::uint32_t first, std::uint32_t row) const {
    const Range both = common(tokens, seen(row));
    for (std::uint32_t t = both.first; t < both.end(); t = (t / pool_.block_tokens + 1) * pool_.block_tokens) {
      if (blocks(first)[t / pool_.block_tokens] != blocks(row)[t / pool_.block_tokens]) return {both.first, t - both.first};
    }
    return both;
  }

  QueryTile tile_from(std::uint32_t first) const {
    return ops::query_tile(
        first, batch_.size(), group_, [this](std::uint32_t row) { return seen(row); },
        [this](Range tokens, std::uint32_t of, std::uint32_t row) { return shared(tokens, of, row); });
  }
  Range seen_by_any(const QueryTile& tile) const {
    return ops::seen_by_any(tile, [this](std::uint32_t row) { return seen(row); });
  }

  // Calls f(first query of the tile, queries, tokens) for what one row alone sees before the shared tokens, for these, and for what
  // it alone sees behind them: for each query, tokens ascend.
  template <class F>
  void for_each_part(const QueryTile& tile, F f) const {
    const Range all = seen_by_any(tile);
    const auto alone = [&](std::uint32_t begin, std::uint32_t end) {  // run by run, so that rows with the same blocks meet each together
      for (std::uint32_t t = begin; t < end;) {
        const std::uint32_t next = t + run_at(pool_, piece_tokens_, t, end).count;
        for (std::uint32_t i = 0; i < tile.rows; ++i) {
          const Range own = seen(tile.first + i);
          const std::uint32_t first = std::max(t, own.first), last = std::min(next, own.end());
          if (first < last) f(i * group_, group_, Range{first, last - first}, tile.first + i);
        }
        t = next;
      }
    };
    alone(all.first, tile.tokens.first);
    if (tile.tokens.count > 0) f(std::size_t{0}, tile.rows * group_, tile.tokens, tile.first);
    alone(tile.tokens.end(), all.end());
  }

  void attend(const QueryTile& tile, std::uint32_t head) {
    const std::size_t queries = tile.rows * group_;
    const Range all = seen_by_any(tile);
    float* scores = scratch<float>(Scratch::a, queries * all.count);  // of token t in column t - all.first
    float* q = scratch<float>(Scratch::b, 2 * queries * dim_ + queries);
    float *y = q + queries * dim_, *sums = y + queries * dim_;
    Half* q_halves = halves_ ? scratch<Half>(Scratch::d, std::max<std::size_t>(queries * dim_, all.count)) : nullptr;
    take_queries(tile, head, q, q_halves);

    for_each_part(tile, [&](std::size_t first, std::size_t count, Range tokens, std::uint32_t row) {
      const Rows<float> part{q + first * dim_, count, dim_, dim_};
      for_each_kv_run(pool_, piece_tokens_, blocks(row), 0, head, tokens, [&](const std::byte* keys, KvRun run) {
        float* out = scores + first * all.count + run.first - all.first;
        if (pool_.format == Format::f16 && halves_) {
          const Rows<Half> own{q_halves + first * dim_, count, dim_, dim_};
          set_.dots_halves({reinterpret_cast<const Half*>(keys) + run.skip * dim_, run.count, dim_, dim_}, own, out, all.count);
        } else if (pool_.format == Format::f16) {
          set_.dots_f16({reinterpret_cast<const Half*>(keys) + run.skip * dim_, run.count, dim_, dim_}, part, out, all.count);
        } else {
          set_.dots_f32({floats_.rows(0, keys, run.skip, run.count), run.count, dim_, dim_}, part, out, all.count);
        }
      });
    });
    for (std::size_t i = 0; i < queries; ++i) {
      const Range own = seen(tile.first + static_cast<std::uint32_t>(i / group_));
      float* of_query = scores + i * all.count + own.first - all.first;
      if (halves_) round_to_halves(of_query, own.count, q_halves);  // the queries have been met
      sums[i] = set_.softmax(of_query, own.count, op_.scales_query ? 1.0f : op_.scale);
    }
    std::fill_n(y, queries * dim_, 0.0f);
    for_each_part(tile, [&](std::size_t first, std::size_t count, Range tokens, std::uint32_t row) {
      for_each_kv_run(pool_, piece_tokens_, blocks(row), 1, head, tokens, [&](const std::byte* values, KvRun run) {
        const float* p = scores + first * all.count + run.first - all.first;
        float* sum = y + first * dim_;
        if (pool_.format == Format::f16) {
          set_.weighted_f16({reinterpret_cast<const Half*>(values) + run.skip * dim_, run.count, dim_, dim_}, p, all.count, count, sum);
        } else {
          set_.weighted_f32({floats_.rows(1, values, run.skip, run.count), run.count, dim_, dim_}, p, all.count, count, sum);
        }
      });
    });
    for (std::size_t i = 0; i < queries; ++i) {
      const std::size_t at = place(tile.first + static_cast<std::uint32_t>(i / group_), head) + i % group_ * dim_;
      float* out = y_.format == Format::f16 ? y + i * dim_ : y_.as<float>() + at;
      for (std::size_t d = 0; d < dim_; ++d) out[d] = y[i * dim_ + d] / sums[i];
      if (y_.format == Format::f16) set_.to_f16(out, dim_, y_.as<Half>() + at);
    }
  }
  // The queries of a tile, scaled where they are; in float16 as they are stored, and what they stand for.
  void take_queries(const QueryTile& tile, std::uint32_t head, float* q, Half* as_halves) const {
    const std::size_t n = group_ * dim_;
    for (std::uint32_t i = 0; i < tile.rows; ++i) {
      const std::size_t at = place(tile.first + i, head);
      if (halves_) {
        set_.to_f32(q_.as<Half>() + at, n, q + i * n);
      } else {
        std::copy_n(q_.as<float>() + at, n, q + i * n);
      }
    }
    if (op_.scales_query) {
      for (std::size_t i = 0; i < tile.rows * n; ++i) q[i] *= op_.scale;
    }
    if (halves_) round_to_halves(q, tile.rows * n, as_halves);
  }
  void round_to_halves(float* x, std::size_t n, Half* as_halves) const {
    set_.to_f16(x, n, as_halves);
    set_.to_f32(as_halves, n, x);
  }
  // Of a KV head's queries, in q and in the result.
  std::size_t place(std::uint32_t row, std::uint32_t head) const { return (row * heads_ + head * group_) * dim_; }

  const ops::Attention& op_;
  const KernelSet& set_;
  const std::vector<SeqPos>& batch_;
  const View &q_, &y_;
  bool halves_;  // q, and so its scaled form and the scores: float16
  KvPool pool_;
  const std::uint32_t* table_;
  std::uint32_t table_row_;
  KvFloats floats_;
  std::uint32_t piece_tokens_;
  std::size_t dim_, heads_, group_;
  Range slice_;
};

}  // namespace

void compute(const ops::KvStage& op, const KernelSet& set, const KernelCall& call) {
  const KvPool pool(call.in[0], op.pool_layers, call.layer), staged(call.out[0], 1, 0);
  const std::uint32_t* blocks = call.in[1].as<std::uint32_t>();
  const Range slice = sliced(call, pool.heads);
  KvFloats floats(pool, set);
  for (std::uint32_t s = 0; s < call.batch->size(); ++s) {
    const Range positions{0, (*call.batch)[s].position + 1};
    for (std::uint32_t h = slice.first; h < slice.end(); ++h) {
      for (std::uint32_t which = 0; which < 2; ++which) {
        Half* out = reinterpret_cast<Half*>(staged.data + staged.offset(s, which, h));
        for_each_kv_run(pool, floats.piece_tokens(), blocks + s, which, h, positions, [&](const std::byte* rows, KvRun run) {
          set.to_f16(floats.rows(which, rows, 0, run.count), run.count * std::size_t{pool.dim}, out + run.first * std::size_t{pool.dim});
        });
      }
    }
  }
}

void compute(const ops::Attention& op, const KernelSet& set, const KernelCall& call) {
  if (variant::attends_in_fp16(call.variant)) return fp16_attention::attend(set, call);
  TiledAttention(op, set, call).run();
}

}  // namespace vitro::cpu
