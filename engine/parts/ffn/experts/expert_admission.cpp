#include "engine/parts/ffn/experts/expert_admission.hpp"

#include <algorithm>
#include <span>

namespace vitro {
namespace {

constexpr std::uint32_t kUnset = ~0u;

struct Pair {
  std::uint32_t row = 0;
  float weight = 0;
};

// Those that stay come first, in the order of their rows; then those that do not. `rank`: of rows; empty: the router's weight counts.
void sort_by_right_to_stay(std::vector<Pair>& pairs, std::size_t room, const std::vector<float>& rank) {
  const auto right = [&](const Pair& pair) { return rank.empty() ? pair.weight : rank[pair.row]; };
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) { return right(a) > right(b); });
  const auto by_row = [](const Pair& a, const Pair& b) { return a.row < b.row; };
  const auto border = pairs.begin() + static_cast<std::ptrdiff_t>(room);
  std::sort(pairs.begin(), border, by_row);
  std::sort(border, pairs.end(), by_row);
}

std::vector<std::vector<Pair>> by_expert(const std::vector<ExpertChoice>& choices, std::size_t experts) {
  std::vector<std::vector<Pair>> pairs(experts);
  for (std::uint32_t row = 0; row < choices.size(); ++row) {
    const ExpertChoice& choice = choices[row];
    VITRO_CHECK(choice.ids.size() == choices.front().ids.size() && choice.weights.size() == choice.ids.size(), "rows that chose unlike");
    for (std::size_t i = 0; i < choice.ids.size(); ++i) {
      VITRO_CHECK(choice.ids[i] < experts, "a row chose an expert out of range");
      pairs[choice.ids[i]].push_back({row, choice.weights[i]});
    }
  }
  return pairs;
}

class Admission {
 public:
  Admission(std::size_t rows, std::size_t k, std::size_t slices) {
    plan().k = static_cast<std::uint32_t>(k);
    plan().rows.assign(slices, 0);
    plan().sources.assign(rows * k, kUnset);
    plan().weights.assign(rows * k, 0);
  }

  void into_slice(std::span<const Pair> pairs, std::uint32_t first) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::uint32_t place = first + static_cast<std::uint32_t>(i);
      plan().rows[place] = pairs[i].row;
      set_source(pairs[i].row, place, pairs[i].weight);
    }
  }

  void to_cores(std::uint16_t expert, std::span<const Pair> pairs) {
    if (pairs.empty()) return;
    const auto first = static_cast<std::uint32_t>(plan().rows.size()), count = static_cast<std::uint32_t>(pairs.size());
    plan().groups.push_back({expert, first, count});
    plan().rows.resize(first + count);
    into_slice(pairs, first);
    out_.on_cores += count;
  }

  void drop(std::span<const Pair> pairs) {
    for (const Pair& pair : pairs) set_source(pair.row, 0, 0);
    out_.dropped += pairs.size();
  }

  ExpertAdmission& out() { return out_; }

 private:
  ExpertPlan& plan() { return out_.plan; }

  // Experts come in ascending order, and so do the sources of a row.
  void set_source(std::uint32_t row, std::uint32_t place, float weight) {
    const auto begin = plan().sources.begin() + static_cast<std::ptrdiff_t>(std::size_t{row} * plan().k);
    const auto next = std::find(begin, begin + plan().k, kUnset);
    *next = place;
    plan().weights[static_cast<std::size_t>(next - plan().sources.begin())] = weight;
  }

  ExpertAdmission out_;
};

}  // namespace

ExpertAdmission admit(const std::vector<ExpertChoice>& choices, const LayerPlacement& placement, Overflow overflow, bool on_cores,
                      const RowRank& rank) {
  const std::size_t experts = placement.capacity.size(), k = choices.empty() ? 0 : choices.front().ids.size();
  std::vector<std::vector<Pair>> all = by_expert(choices, experts);
  Admission admission(choices.size(), k, on_cores ? 0 : placement.rows);
  ExpertAdmission& out = admission.out();
  out.pairs = choices.size() * k;
  out.taken.resize(experts);
  out.dropped_of.resize(experts);
  std::vector<float> ranks;
  for (std::uint16_t e = 0; e < experts; ++e) {
    std::vector<Pair>& pairs = all[e];
    const std::size_t room = on_cores ? 0 : placement.capacity[e];
    if (room == 0) {
      admission.to_cores(e, pairs);
      continue;
    }
    if (pairs.size() > room) {
      if (out.overflowed == 0 && rank) ranks = rank();
      VITRO_CHECK(ranks.empty() || ranks.size() == choices.size(), "a rank for each row, or none");
      out.ranked = !ranks.empty();
      out.overflowed += pairs.size() - room;
      sort_by_right_to_stay(pairs, room, ranks);
    }
    const std::span<const Pair> staying(pairs.data(), std::min(room, pairs.size())),
        rest(pairs.data() + staying.size(), pairs.size() - staying.size());
    admission.into_slice(staying, placement.first[e]);
    out.taken[e] = static_cast<std::uint32_t>(staying.size());
    out.padded += placement.capacity[e] - out.taken[e];
    if (overflow == Overflow::cpu) {
      admission.to_cores(e, rest);
    } else {
      admission.drop(rest);
      out.dropped_of[e] = static_cast<std::uint32_t>(rest.size());
    }
  }
  return std::move(out);
}

}  // namespace vitro
