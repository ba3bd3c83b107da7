#include "engine/host/hexagon_weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/host/hexagon_rows.hpp"

namespace vitro {

Result<HexagonWeights::Placed> HexagonWeights::place(const KernelCall& call) {
  const View& weights = call.in[0];
  const Range rows = sliced(call, weights.shape[0]);
  const Key key{weights.memory ? weights.memory.id() : 0, weights.offset, rows.first, rows.count, call.variant, call.method};
  const bool plain = call.is<ops::Matmul>() && weights.memory && call.rows == nullptr && call.in.size() == 2;
  const std::scoped_lock lock(mutex_);
  if (const auto found = placed_.find(key); found != placed_.end() && plain) return found->second;
  const Result<hexagon::MatmulForm> form = hexagon::matmul_form(call, products_);
  if (!form.ok()) return form.status();
  const auto serves = [&key, &form](const auto& entry) {
    const auto bytes = [](const Key& k) { return std::tuple(std::get<0>(k), std::get<1>(k), std::get<2>(k), std::get<3>(k)); };
    return form.value().packs_as(entry.second.form) && bytes(entry.first) == bytes(key);
  };
  if (const auto twin = std::ranges::find_if(placed_, serves); twin != placed_.end()) {
    Placed placed = twin->second;
    placed.form = form.value();
    return placed_[key] = std::move(placed);
  }
  if (const std::optional<Placed> shared = share(form.value(), weights, rows)) return placed_[key] = *shared;
  Result<Placed> copied = copy(form.value(), weights, rows);
  if (copied.ok()) placed_[key] = copied.value();
  return copied;
}

std::optional<HexagonWeights::Placed> HexagonWeights::share(const hexagon::MatmulForm& form, const View& weights, Range rows) {
  const std::optional<hexagon::StoredRows> stored = hexagon::stored_rows(form, weights, rows);
  if (!stored) return {};
  const std::optional<HexagonSessions::Place> place = sessions_.find(weights.data() + stored->first, stored->size);
  if (!place || place->at % stored->aligned != 0) return {};
  sessions_[place->session].written(place->at, stored->size);
  shared_ += stored->size;
  return Placed{place->session, place->at, form, stored->in_rows, {}};
}

Result<HexagonWeights::Placed> HexagonWeights::copy(const hexagon::MatmulForm& form, const View& weights, Range rows) {
  const Bytes size = hexagon::weights_bytes(form, rows.count, columns(weights));
  Result<Lease> room = memory_.reserve(size, Placement::npu_mapped, Region::fixed);
  if (!room.ok()) return room.status();
  if (const Status paid = memory_.commit(room.value(), 0, room.value().size()); !paid.ok()) {
    if (paid.code != Code::over_budget) throw RunError(paid.message);
    throw ConfigError(
        fmt::format("memory.budget: hexagon computes {} from a copy in an order of its own, and {} (expected a budget that holds the "
                    "copies, or weights in q4_0_tile or f16 with activations in fp16, which it reads where they lie)",
                    to_string(weights.format), paid.message));
  }
  Placed placed{0, 0, form, false, std::move(room).value()};
  const std::optional<HexagonSessions::Place> place = sessions_.find(placed.copy.data(), size);
  VITRO_CHECK(place, "npu_mapped memory outside of the sessions");
  placed.session = place->session;
  placed.at = place->at;
  hexagon::pack_weights(form, weights, rows, placed.copy.data());
  sessions_[placed.session].written(placed.at, size);
  copied_ += size;
  return placed;
}

Result<HexagonWeights::Placed> HexagonWeights::find_rows(const KernelCall& call) const {
  const Result<hexagon::MatmulForm> form = hexagon::rows_form(call);
  if (!form.ok()) return form.status();
  const View& weights = call.in[0];
  const std::optional<HexagonSessions::Place> place = sessions_.find(weights.memory.data(), weights.memory.size());
  if (!place) return Status{Code::unsupported_shape, "rows in places lie in memory that it does not map"};
  return Placed{place->session, place->at + static_cast<std::uint32_t>(weights.offset), form.value(), true, {}};
}

Bytes HexagonWeights::copied() const {
  const std::scoped_lock lock(mutex_);
  return copied_;
}

Bytes HexagonWeights::shared() const {
  const std::scoped_lock lock(mutex_);
  return shared_;
}

}  // namespace vitro
