#include "engine/host/hexagon_attention.hpp"

#include <algorithm>
#include <map>
#include <numbers>
#include <utility>

#include "engine/kernels/common/float_copies.hpp"
#include "engine/kernels/hexagon/attention_stages.hpp"
#include "engine/kernels/lut/attention_call.hpp"
#include "engine/kernels/lut/lut_reference.hpp"
#include "engine/ops/variants.hpp"
#include "engine/quant/float16.hpp"

namespace vitro::hexagon {
namespace {

using lut::AttentionCall;
using lut::AttentionPiece;

constexpr std::uint32_t kMostKeys = 1u << 20;  // of an operator

// A head's columns in whole tiles; those behind its own are zero, which changes no bit.
std::uint32_t pitch_of(const AttentionCall& attention) { return static_cast<std::uint32_t>(round_up(attention.dim(), kTile)); }
std::uint16_t* halves(std::byte* at) { return reinterpret_cast<std::uint16_t*>(at); }

// Pieces of a call that go to the worker together.
class Pieces {
 public:
  Pieces(HexagonSession& session, const AttentionCall& attention, std::uint32_t table)
      : session_(session), attention_(attention), table_(table), pitch_(pitch_of(attention)) {
    session.clear_scratch();
  }

  // `widest`: of the rows of this sequence that see the same first token, the one that sees the most. False when there is no room.
  bool add(const AttentionPiece& piece, const AttentionPiece& widest) {
    const Bytes queries = attention_.group() * pitch_ * sizeof(std::uint16_t);
    const Bytes results = (operators_.size() + 1) * round_up(queries, kVectorBytes);
    if (operators_.size() == kMostOperators || results > session_.most_results()) return false;
    const std::optional<std::uint32_t> keys = place_keys({widest.row, piece.head, widest.tokens});
    const Result<std::uint32_t> at = session_.scratch(queries);
    if (!keys || !at.ok()) return false;
    std::uint16_t* q = halves(session_.at(at.value()));
    attention_.queries(piece, pitch_, q);
    const float base2 = attention_.scale() * std::numbers::log2e_v<float>;
    std::transform(q, q + attention_.group() * pitch_, q, [&](std::uint16_t x) { return float_to_half(half_to_float(x) * base2); });
    session_.written(at.value(), queries);
    Operator op{};
    op.kind = Kind::attention;
    op.rows = piece.tokens.count;
    op.columns = pitch_;
    op.batch = static_cast<std::uint32_t>(attention_.group());
    op.bits = lut::kKeyTile / kTile;
    op.pitch = widest.tokens.count;
    op.in[0] = at.value();
    op.in[1] = *keys;
    op.in[2] = table_;
    op.out_bytes = static_cast<std::uint32_t>(queries);
    operators_.push_back(op);
    return true;
  }

  const std::vector<Operator>& operators() const { return operators_; }

 private:
  // All that a row sees of a head, once.
  std::optional<std::uint32_t> place_keys(const AttentionPiece& piece) {
    const std::pair key{piece.row, piece.head};
    if (const auto known = placed_.find(key); known != placed_.end()) return known->second;
    const std::size_t plane = std::size_t{piece.tokens.count} * pitch_;
    const Result<std::uint32_t> at = session_.scratch(2 * plane * sizeof(std::uint16_t));
    if (!at.ok()) return {};
    for (std::uint32_t which = 0; which < 2; ++which) {
      attention_.keys(piece, which, pitch_, halves(session_.at(at.value())) + which * plane);
    }
    session_.written(at.value(), 2 * plane * sizeof(std::uint16_t));
    return placed_[key] = at.value();
  }

  HexagonSession& session_;
  const AttentionCall& attention_;
  std::uint32_t table_, pitch_;
  std::vector<Operator> operators_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> placed_;  // by row and head
};

}  // namespace

bool Attention::takes(const KernelCall& call) {
  if (!call.is<ops::Attention>() || call.variant != variant::kLutExp) return false;
  const AttentionCall attention(kernel_set("auto"), call);
  if (pitch_of(attention) > kMostDepth * kTile || attention.group() > kTile) return false;
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
  if (!place_table()) return false;
  const AttentionCall attention(kernel_set("auto"), call);
  const std::vector<AttentionPiece> pieces = attention.pieces();
  const auto key_of = [&](const AttentionPiece& piece) { return std::pair{(*call.batch)[piece.row].sequence, piece.tokens.first}; };
  std::map<std::pair<std::uint32_t, std::uint32_t>, AttentionPiece> widest;
  for (const AttentionPiece& piece : pieces) {
    AttentionPiece& known = widest.try_emplace(key_of(piece), piece).first->second;
    if (piece.tokens.count > known.tokens.count) known = piece;
  }
  for (std::size_t next = 0; next < pieces.size();) {
    Pieces request(session_, attention, *table_);
    for (std::size_t i = next; i < pieces.size() && request.add(pieces[i], widest.at(key_of(pieces[i]))); ++i) {}
    if (request.operators().empty()) return false;
    ++requests_;
    const auto answers = session_.run(request.operators());
    if (!answers.ok()) return false;
    for (const std::vector<std::uint32_t>& words : answers.value()) {
      attention.write(pieces[next++], reinterpret_cast<const std::uint16_t*>(words.data()), pitch_of(attention));
      ++operators_;
    }
  }
  return true;
}

bool Attention::place_table() {
  if (table_) return true;
  const std::vector<std::uint16_t> table = lut::exp2_table();
  const Bytes size = table.size() * sizeof(std::uint16_t);
  const Result<std::uint32_t> at = session_.place(size);
  if (!at.ok()) return false;
  std::copy(table.begin(), table.end(), halves(session_.at(at.value())));
  session_.written(at.value(), size);
  table_ = at.value();
  return true;
}

}  // namespace vitro::hexagon
