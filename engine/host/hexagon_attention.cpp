#include "engine/host/hexagon_attention.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numbers>
#include <tuple>
#include <utility>

#include "engine/kernels/common/float_copies.hpp"
#include "engine/kernels/hexagon/attention_layout.hpp"
#include "engine/kernels/fp16_attention/attention_call.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::hexagon {
namespace {

using fp16_attention::AttentionCall;
using fp16_attention::AttentionPiece;

std::uint16_t* halves(std::byte* at) { return reinterpret_cast<std::uint16_t*>(at); }
std::uint32_t columns_of(const AttentionCall& attention) { return attention_columns(static_cast<std::uint32_t>(attention.dim())); }

// Rows of a sequence that begin with the same token, and heads of keys and values: an operator.
struct Job {
  std::vector<AttentionPiece> rows;  // of the first head
  AttentionPiece widest;             // of all rows of the sequence, the one that sees the most
  std::uint32_t heads = 1;

  std::uint32_t keys() const { return std::ranges::max_element(rows, {}, seen)->tokens.count; }
  std::uint32_t fewest() const { return std::ranges::min_element(rows, {}, seen)->tokens.count; }

 private:
  static std::uint32_t seen(const AttentionPiece& row) { return row.tokens.count; }
};

// One half of a job that had no room goes to `rest`. False for a single row of a single head.
bool halve(Job& job, Job& rest) {
  rest = job;
  if (job.rows.size() > 1) {
    const auto half = static_cast<std::ptrdiff_t>(job.rows.size() / 2);
    rest.rows.assign(job.rows.begin() + half, job.rows.end());
    job.rows.resize(static_cast<std::size_t>(half));
    return true;
  }
  if (job.heads == 1) return false;
  job.heads /= 2;
  rest.heads -= job.heads;
  rest.rows[0].head += job.heads;
  return true;
}

std::vector<Job> jobs_of(const AttentionCall& attention, const Batch& batch) {
  const std::vector<AttentionPiece> pieces = attention.pieces();
  const std::size_t heads = pieces.size() / batch->size();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<AttentionPiece>> rows;  // by sequence and first token
  for (std::size_t i = 0; i < pieces.size(); i += heads) {
    rows[{(*batch)[pieces[i].row].sequence, pieces[i].tokens.first}].push_back(pieces[i]);
  }
  std::vector<Job> jobs;
  for (const auto& [key, all] : rows) {
    const AttentionPiece widest = *std::ranges::max_element(all, {}, [](const AttentionPiece& row) { return row.tokens.count; });
    for (std::size_t first = 0; first < all.size(); first += kAttentionRows) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(kAttentionRows, all.size() - first));
      jobs.push_back({{begin, begin + count}, widest, static_cast<std::uint32_t>(heads)});
    }
  }
  return jobs;
}

// Jobs that go to the worker together.
class Together {
 public:
  Together(HexagonSession& session, const StageOptions& stages, const AttentionCall& attention, std::uint32_t table)
      : session_(session), stages_(stages), attention_(attention), table_(table), columns_(columns_of(attention)) {
    session.clear_scratch();
  }

  // False when there is no room.
  bool add(const Job& job) {
    Operator op{};
    op.kind = Kind::attention;
    op.rows = job.keys();
    op.fewest = job.fewest();
    op.columns = columns_;
    op.batch = static_cast<std::uint32_t>(job.rows.size() * attention_.group());
    op.bits = job.heads;
    op.exponential = attention_.exponential();
    op.pitch = static_cast<std::uint32_t>(round_up(job.widest.tokens.count, kTile));
    op.stages = plan_attention(attention_pass(op), stages_.buffers, stages_.threads);
    op.out_bytes = static_cast<std::uint32_t>(attention_bytes(op));
    const Bytes results = results_ + round_up(op.out_bytes, kVectorBytes);
    if (operators_.size() == kMostOperators || results > session_.most_results() || !valid_attention(op)) return false;
    const std::optional<std::uint32_t> keys = place_keys(job, op.pitch), queries = keys ? place_queries(job, op) : std::nullopt;
    if (!queries) return false;
    op.in[0] = *queries;
    op.in[1] = *keys;
    op.in[2] = table_;
    results_ = results;
    operators_.push_back(op);
    return true;
  }

  const std::vector<Operator>& operators() const { return operators_; }

 private:
  // Tiles of queries, multiplied by log2 e / sqrt(dim), and the keys that each sees.
  std::optional<std::uint32_t> place_queries(const Job& job, const Operator& op) {
    const AttentionPass pass = attention_pass(op);
    const Bytes size = query_bytes(op) + seen_bytes(op);
    const Result<std::uint32_t> at = session_.scratch(size);
    if (!at.ok()) return {};
    std::uint16_t* tiles = halves(session_.at(at.value()));
    std::memset(tiles, 0, size);
    const float base2 = attention_.scale() * std::numbers::log2e_v<float>;
    std::vector<std::uint16_t> q(attention_.group() * columns_);
    for (std::uint32_t h = 0; h < job.heads; ++h, tiles += pass.tiles() * pass.depth() * kTileElements) {
      std::uint32_t query = 0;
      for (AttentionPiece row : job.rows) {
        row.head += h;
        attention_.queries(row, columns_, q.data());
        for (std::size_t g = 0; g < attention_.group(); ++g, ++query) {
          std::uint16_t* tile = tiles + std::size_t{query / kTile} * pass.depth() * kTileElements;
          for (std::uint32_t c = 0; c < columns_; ++c) {
            const float value = half_to_float(q[g * columns_ + c]) * base2;
            tile[c / kTile * kTileElements + tile_place(query % kTile, c % kTile)] = float_to_half(value);
          }
        }
      }
    }
    std::byte* seen = session_.at(at.value()) + query_bytes(op);
    for (const AttentionPiece& row : job.rows) {
      for (std::size_t g = 0; g < attention_.group(); ++g, seen += sizeof(std::uint32_t)) {
        std::memcpy(seen, &row.tokens.count, sizeof(std::uint32_t));
      }
    }
    session_.written(at.value(), size);
    return at.value();
  }

  // All that a sequence's rows see of the job's heads, once for all of its jobs.
  std::optional<std::uint32_t> place_keys(const Job& job, std::uint32_t pitch) {
    const std::tuple key{job.widest.row, job.rows[0].head, job.heads};
    if (const auto known = placed_.find(key); known != placed_.end()) return known->second;
    const std::size_t plane = std::size_t{pitch} * columns_, seen = std::size_t{job.widest.tokens.count} * columns_;
    const Result<std::uint32_t> at = session_.scratch(2 * job.heads * plane * sizeof(std::uint16_t));
    if (!at.ok()) return {};
    std::uint16_t* out = halves(session_.at(at.value()));
    for (std::uint32_t i = 0; i < 2 * job.heads; ++i, out += plane) {
      attention_.keys({job.widest.row, job.rows[0].head + i / 2, job.widest.tokens}, i % 2, columns_, out);
      std::fill(out + seen, out + plane, std::uint16_t{0});
    }
    session_.written(at.value(), 2 * job.heads * plane * sizeof(std::uint16_t));
    return placed_[key] = at.value();
  }

  HexagonSession& session_;
  const StageOptions& stages_;
  const AttentionCall& attention_;
  std::uint32_t table_, columns_;  // table_: used if 2^x is looked up
  Bytes results_ = 0;
  std::vector<Operator> operators_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> placed_;  // by row, first head and heads
};

}  // namespace

bool Attention::takes(const KernelCall& call) {
  if (!call.is<ops::Attention>() || !variant::attends_in_fp16(call.variant)) return false;
  const AttentionCall attention(kernel_set("auto"), call);
  if (columns_of(attention) > kMostHeadColumns || attention.group() > kTile) return false;
  return std::ranges::all_of(*call.batch, [](const SeqPos& row) { return row.position < kMostKeys; });
}

bool Attention::run(const KernelCall& call) {
  if (call.in[0].format != Format::f16 && call.out[0].format != Format::f16) return run_f32(call);
  KernelCall wide = call;
  wide.in[0] = in_f32(call.in[0]);
  wide.out[0] = out_in_f32(call.out[0]);
  if (!run_f32(wide)) return false;
  if (call.out[0].format == Format::f16) store_f32(call.out[0], 0, wide.out[0].as<float>(), elements(call.out[0]));
  return true;
}

bool Attention::run_f32(const KernelCall& call) {
  const AttentionCall attention(kernel_set("auto"), call);
  const bool looks_up = attention.exponential() == Exponential::table;
  if (looks_up && !place_table()) return false;
  std::vector<Job> jobs = jobs_of(attention, call.batch);
  for (std::size_t next = 0; next < jobs.size();) {
    Together request(session_, stages_, attention, looks_up ? *table_ : 0);
    std::size_t end = next;
    while (end < jobs.size() && request.add(jobs[end])) ++end;
    if (end == next) {
      Job rest;
      if (!halve(jobs[next], rest)) return false;
      jobs.insert(jobs.begin() + static_cast<std::ptrdiff_t>(next) + 1, std::move(rest));
      continue;
    }
    ++requests_;
    const auto answers = session_.run(request.operators());
    if (!answers.ok()) return false;
    for (const std::vector<std::uint32_t>& words : answers.value()) {
      const Job& job = jobs[next++];
      const std::uint32_t columns = columns_of(attention);
      const auto* out = reinterpret_cast<const std::uint16_t*>(words.data());
      for (std::uint32_t h = 0; h < job.heads; ++h) {
        for (AttentionPiece row : job.rows) {
          row.head += h;
          attention.write(row, out, columns);
          out += attention.group() * columns;
        }
      }
      ++operators_;
    }
  }
  return true;
}

bool Attention::place_table() {
  if (table_) return true;
  const std::span<const std::uint16_t> table = lut::powers_of_two(Exponential::table);
  const Bytes size = table.size_bytes();
  const Result<std::uint32_t> at = session_.place(size);
  if (!at.ok()) return false;
  std::copy(table.begin(), table.end(), halves(session_.at(at.value())));
  session_.written(at.value(), size);
  table_ = at.value();
  return true;
}

}  // namespace vitro::hexagon
