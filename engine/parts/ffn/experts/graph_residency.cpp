#include "engine/parts/ffn/experts/graph_residency.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

struct Candidate {
  std::size_t layer = 0, group = 0;
  double rows = 0;
  Bytes bytes = 0;
  bool stays = false;
};

// Of all units together.
struct Room {
  std::uint64_t graphs = 0;
  Bytes bytes = 0;
};

Bytes sum_of(Bytes a, Bytes b) { return a > ~Bytes{0} - b ? ~Bytes{0} : a + b; }

class Units {
 public:
  Units(std::vector<UnitRoom> rooms, std::size_t layers) : rooms_(std::move(rooms)), used_(rooms_.size()), layers_(layers) {}

  Room all() const {
    Room room;
    for (const UnitRoom& own : rooms_) {
      room.graphs += own.graphs - std::min(own.graphs, own.spare);
      room.bytes = sum_of(room.bytes, own.bytes);
    }
    return room;
  }

  void begin_layer(std::size_t layer) {
    layer_ = layer;
    load_.assign(rooms_.size(), {});
  }

  // None: no unit has room.
  std::optional<std::uint32_t> place(const StaticGroup& group, Bytes bytes) {
    std::optional<std::uint32_t> best;
    const auto rank = [&](std::uint32_t unit) { return std::pair(!within_share(unit), load_[unit]); };
    for (std::uint32_t unit = 0; unit < rooms_.size(); ++unit) {
      const UnitRoom& room = rooms_[unit];
      if (used_[unit].graphs + room.spare >= room.graphs || used_[unit].bytes + bytes > room.bytes) continue;
      if (!best || rank(unit) < rank(*best)) best = unit;
    }
    if (!best) return best;
    ++used_[*best].graphs;
    used_[*best].bytes += bytes;
    take(*best, group);
    return best;
  }

  // The one of those that keep graphs spare which has the fewest experts of the layer; none keeps any: none.
  std::optional<std::uint32_t> place_coming(const StaticGroup& group) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t unit = 0; unit < rooms_.size(); ++unit) {
      if (rooms_[unit].spare > 0 && rooms_[unit].graphs > 0 && (!best || load_[unit] < load_[*best])) best = unit;
    }
    if (best) take(*best, group);
    return best;
  }

 private:
  void take(std::uint32_t unit, const StaticGroup& group) {
    load_[unit].first += group.experts.size();
    load_[unit].second += group.rows();
  }
  // So that the last layers do not meet full units.
  bool within_share(std::uint32_t unit) const {
    const double room = rooms_[unit].graphs - std::min(rooms_[unit].graphs, rooms_[unit].spare);
    return static_cast<double>(used_[unit].graphs) < room * static_cast<double>(layer_ + 1) / static_cast<double>(layers_);
  }

  std::vector<UnitRoom> rooms_;
  std::vector<Room> used_;
  std::vector<std::pair<std::size_t, std::uint32_t>> load_;  // experts and rows of the layer at hand, by unit
  std::size_t layers_, layer_ = 0;
};

std::vector<Candidate> candidates(const std::vector<LayerPlacement>& layers, const std::vector<LayerLoad>& loads, Bytes expert_bytes) {
  std::vector<Candidate> all;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (std::size_t g = 0; g < layers[layer].groups.size(); ++g) {
      const StaticGroup& group = layers[layer].groups[g];
      Candidate& own = all.emplace_back(Candidate{layer, g, 0, group.experts.size() * expert_bytes, false});
      for (const std::uint16_t expert : group.experts) own.rows += loads[layer].expected[expert];
    }
  }
  return all;
}

void choose(std::vector<Candidate>& all, Room room) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all[a].rows > all[b].rows; });
  for (const std::size_t i : order) {
    if (room.graphs == 0 || all[i].bytes > room.bytes) continue;
    all[i].stays = true;
    --room.graphs;
    room.bytes -= all[i].bytes;
  }
}

}  // namespace

ResidentSet choose_resident(const std::vector<LayerPlacement>& layers, const std::vector<LayerLoad>& loads, Bytes expert_bytes,
                            std::vector<UnitRoom> rooms) {
  VITRO_CHECK(layers.size() == loads.size() && !rooms.empty(), "graphs without loads or units");
  std::vector<Candidate> all = candidates(layers, loads, expert_bytes);
  Units units(std::move(rooms), layers.size());
  choose(all, units.all());
  ResidentSet out;
  double left = 0, expected = 0;
  auto own = all.begin();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    units.begin_layer(layer);
    std::vector<StaticGroup> groups;
    const auto end = std::find_if(own, all.end(), [&](const Candidate& c) { return c.layer != layer; });
    // Those that stay have the first choice of units, the largest first, as in share_out().
    std::stable_sort(own, end, [&](const Candidate& a, const Candidate& b) {
      const StaticGroup &one = layers[layer].groups[a.group], &other = layers[layer].groups[b.group];
      return std::tuple(a.stays, one.experts.size(), one.rows()) > std::tuple(b.stays, other.experts.size(), other.rows());
    });
    for (; own != end; ++own) {
      StaticGroup group = layers[layer].groups[own->group];
      std::optional<std::uint32_t> unit = own->stays ? units.place(group, own->bytes) : std::nullopt;
      group.comes = !unit;
      if (!unit) unit = units.place_coming(group);
      if (!unit) {
        ++out.left;
        left += own->rows;
        continue;
      }
      group.unit = *unit;
      ++(group.comes ? out.coming : out.held);
      groups.push_back(std::move(group));
    }
    for (const double rows : loads[layer].expected) expected += rows;
    out.layers.push_back(lay_out(std::move(groups), loads[layer].expected.size()));
  }
  out.left_share = expected > 0 ? left / expected : 0;
  return out;
}

}  // namespace vitro
