#include "traces/firing_process.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

enum Purpose : std::uint64_t { kFresh = 1, kStretch, kRepeat, kPhase };

// A band's ranks lie within this factor of its first: most of what the skips land on is kept.
constexpr double kBandWidth = 2;

constexpr int kUnitBits = 53;  // of a draw, that to_unit() takes

// A short sequential stream, seeded for one place.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  double roll() { return to_unit(scramble(state_ += 0x9e3779b97f4a7c15u)); }

 private:
  std::uint64_t state_;
};

}  // namespace

FiringProcess::FiringProcess(std::vector<double> probability, double persistence, std::uint32_t stretch, double most)
    : probability_(std::move(probability)), persistence_(persistence), stretch_(stretch), most_(most) {
  VITRO_CHECK(stretch_ > 0 && persistence_ >= 0 && persistence_ <= 1 && most_ >= 1, "a firing process out of range");
  for (std::uint32_t r = 0; r < probability_.size() && probability_[r] > 0; ++r) {
    const double p = probability_[r];
    VITRO_CHECK(p <= 1 && (r == 0 || p <= probability_[r - 1]), "probabilities do not fall with the rank");
    if (bands_.empty() || p * kBandWidth < bands_.back().highest) {
      bands_.push_back({r, r, p, skip_fresh(p), 1 / std::log1p(-std::min(1.0, most_ * p))});
    }
    bands_.back().end = r + 1;
    // to_unit() scales 53 bits by a power of two, so that whole numbers compare as its results would.
    coins_.push_back({part_of(r), static_cast<std::uint64_t>(std::ceil(std::ldexp(repeats(p), kUnitBits)))});
  }
}

double FiringProcess::skip_fresh(double highest) const { return 1 / std::log1p(-highest * (1 - persistence_)); }

// Fresh draws, which do not look at the stretch, fire with p (1 - persistence). Of the rest a rank whose stretch fires takes what
// makes it persistence + (1 - persistence) p, as if it had repeated or drawn anew.
double FiringProcess::repeats(double p) const { return persistence_ == 0 ? 0 : persistence_ / (1 - p * (1 - persistence_)); }

// Every `step`-th rank of a band from `first` on; `skip`: 1 / log(1 - chance of a rank to be landed on). Tells of those that fire at
// `activity` also from which one on.
template <class Dice, class Fires>
void FiringProcess::cross(Dice& dice, const Band& band, std::uint32_t first, std::uint32_t step, double skip, double activity,
                          Fires fires) const {
  const double highest = std::min(1.0, activity * band.highest);
  for (std::uint64_t rank = first; rank < band.end; rank += step) {
    const double skipped = std::floor(std::log(1 - dice.roll()) * skip);
    if (!(skipped * step < static_cast<double>(band.end - rank))) return;
    rank += static_cast<std::uint64_t>(skipped) * step;
    const double drawn = dice.roll() * highest;
    if (drawn < activity * probability_[rank]) fires(static_cast<std::uint32_t>(rank), static_cast<float>(drawn / probability_[rank]));
  }
}

void FiringProcess::draw(std::uint64_t stream, std::uint64_t position, Stretches& kept, std::vector<std::uint32_t>& ranks,
                         double activity) const {
  VITRO_CHECK(activity > 0 && activity <= most_, "an activity out of range");
  if (persistence_ < 1) {
    Dice dice(draw_of(stream ^ kFresh, position));
    for (const Band& band : bands_) {
      const double skip = activity == 1 ? band.skip_fresh : skip_fresh(std::min(1.0, activity * band.highest));
      cross(dice, band, band.first, 1, skip, activity, [&](std::uint32_t rank, float) { ranks.push_back(rank); });
    }
  }
  if (persistence_ == 0) return;
  renew(stream, position, kept);
  const std::uint64_t stream_coins = draw_of(stream ^ kRepeat, position);
  const std::size_t before = ranks.size();
  ranks.resize(before + kept.ranks_.size());
  std::uint32_t* end = ranks.data() + before;
  if (activity == 1 && most_ <= 1) {  // all tokens are alike. Without branches: a coin can not be predicted
    for (const std::uint32_t rank : kept.ranks_) {
      const Coin coin = coins_[rank];
      *end = rank;
      end += scramble(stream_coins ^ coin.item) >> (64 - kUnitBits) < coin.repeats ? 1 : 0;
    }
  } else {
    for (std::size_t i = 0; i < kept.ranks_.size(); ++i) {
      const std::uint32_t rank = kept.ranks_[i];
      const double chance = repeats(std::min(1.0, activity * probability_[rank]));
      const bool reached = most_ <= 1 || kept.levels_[i] < activity;
      *end = rank;
      end += (to_unit(draw_of(stream_coins, rank)) < chance) & reached ? 1 : 0;
    }
  }
  ranks.resize(static_cast<std::size_t>(end - ranks.data()));
}

// Draws the stretches that began since the stream was last asked for, and takes the others over.
void FiringProcess::renew(std::uint64_t stream, std::uint64_t position, Stretches& kept) const {
  if (kept.of_ != this || kept.stream_ != stream) {
    kept.of_ = this;
    kept.stream_ = stream;
    kept.numbers_.assign(stretch_, kNone);
    kept.ends_.assign(stretch_, 0);
    kept.ranks_.clear();
    kept.levels_.clear();
  }
  std::vector<std::uint32_t> ranks;
  std::vector<float> levels;
  const std::uint64_t phase = draw_of(stream, kPhase) % stretch_;
  for (std::uint32_t residue = 0; residue < stretch_; ++residue) {
    const std::uint64_t number = (position + (residue + phase) % stretch_) / stretch_;
    if (kept.numbers_[residue] == number) continue;
    kept.numbers_[residue] = number;
    ranks.clear();
    levels.clear();
    Dice dice(draw_of(stream ^ kStretch, number * stretch_ + residue));
    for (const Band& band : bands_) {
      const std::uint32_t first = band.first + (residue + stretch_ - band.first % stretch_) % stretch_;
      cross(dice, band, first, stretch_, band.skip_kept, most_, [&](std::uint32_t rank, float level) {
        ranks.push_back(rank);
        if (most_ > 1) levels.push_back(level);
      });
    }
    replace(kept, residue, ranks, levels);
  }
}

// Puts what a stretch fires in the place of what the one before it fired; what lies behind moves up or down. A position begins one
// stretch of each stream, so most of them stay where they are.
void FiringProcess::replace(Stretches& kept, std::uint32_t residue, const std::vector<std::uint32_t>& ranks,
                            const std::vector<float>& levels) const {
  const std::uint32_t begin = residue == 0 ? 0 : kept.ends_[residue - 1], end = kept.ends_[residue];
  const auto put = [begin, end](auto& all, const auto& part) {
    const auto both = std::min<std::ptrdiff_t>(end - begin, std::ssize(part));
    const auto rest = std::copy_n(part.begin(), both, all.begin() + begin);
    all.insert(all.erase(rest, all.begin() + end), part.begin() + both, part.end());
  };
  put(kept.ranks_, ranks);
  if (most_ > 1) put(kept.levels_, levels);
  const auto longer = static_cast<std::uint32_t>(ranks.size()) - (end - begin);  // modulo 2^32
  for (std::uint32_t r = residue; r < kept.ends_.size(); ++r) kept.ends_[r] += longer;
}

}  // namespace vitro
