#include "traces/firing_process.hpp"

#include <cmath>

#include "engine/base/check.hpp"
#include "engine/base/rng.hpp"

namespace vitro {
namespace {

enum Purpose : std::uint64_t { kFresh = 1, kStretch, kRepeat, kPhase };

// A band's ranks lie within this factor of its first: most of what the skips land on is kept.
constexpr double kBandWidth = 2;

// A short sequential stream, seeded for one place.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  double roll() { return to_unit(scramble(state_ += 0x9e3779b97f4a7c15u)); }

 private:
  std::uint64_t state_;
};

}  // namespace

FiringProcess::FiringProcess(std::vector<double> probability, double persistence, std::uint32_t stretch)
    : probability_(std::move(probability)), persistence_(persistence), stretch_(stretch) {
  VITRO_CHECK(stretch_ > 0 && persistence_ >= 0 && persistence_ <= 1, "a firing process out of range");
  for (std::uint32_t r = 0; r < probability_.size() && probability_[r] > 0; ++r) {
    const double p = probability_[r];
    VITRO_CHECK(p <= 1 && (r == 0 || p <= probability_[r - 1]), "probabilities do not fall with the rank");
    if (bands_.empty() || p * kBandWidth < bands_.back().highest) {
      bands_.push_back({r, r, p, 1 / std::log1p(-p * (1 - persistence_)), 1 / std::log1p(-p)});
    }
    bands_.back().end = r + 1;
    // Fresh draws, which do not look at the stretch, fire with p (1 - persistence). Of the rest a rank whose stretch fires takes
    // what makes it persistence + (1 - persistence) p, as if it had repeated or drawn anew.
    repeats_.push_back(persistence_ == 0 ? 0 : persistence_ / (1 - p * (1 - persistence_)));
  }
}

// Every `step`-th rank of a band from `first` on; `skip`: 1 / log(1 - chance of a rank to be landed on).
template <class Dice, class Fires>
void FiringProcess::cross(Dice& dice, const Band& band, std::uint32_t first, std::uint32_t step, double skip, Fires fires) const {
  for (std::uint64_t rank = first; rank < band.end; rank += step) {
    const double skipped = std::floor(std::log(1 - dice.roll()) * skip);
    if (!(skipped * step < static_cast<double>(band.end - rank))) return;
    rank += static_cast<std::uint64_t>(skipped) * step;
    if (dice.roll() * band.highest < probability_[rank]) fires(static_cast<std::uint32_t>(rank));
  }
}

void FiringProcess::draw(std::uint64_t stream, std::uint64_t position, Stretches& kept, std::vector<std::uint32_t>& ranks) const {
  if (persistence_ < 1) {
    Dice dice(draw_of(stream ^ kFresh, position));
    for (const Band& band : bands_) cross(dice, band, band.first, 1, band.skip_fresh, [&](std::uint32_t rank) { ranks.push_back(rank); });
  }
  if (persistence_ == 0) return;
  if (kept.of_ != this || kept.stream_ != stream) {
    kept.of_ = this;
    kept.stream_ = stream;
    kept.numbers_.assign(stretch_, kNone);
    kept.ranks_.resize(stretch_);
  }
  const std::uint64_t phase = draw_of(stream, kPhase) % stretch_, coins = draw_of(stream ^ kRepeat, position);
  for (std::uint32_t residue = 0; residue < stretch_; ++residue) {
    const std::uint64_t number = (position + (residue + phase) % stretch_) / stretch_;
    std::vector<std::uint32_t>& firing = kept.ranks_[residue];
    if (kept.numbers_[residue] != number) {
      kept.numbers_[residue] = number;
      firing.clear();
      Dice dice(draw_of(stream ^ kStretch, number * stretch_ + residue));
      for (const Band& band : bands_) {
        const std::uint32_t first = band.first + (residue + stretch_ - band.first % stretch_) % stretch_;
        cross(dice, band, first, stretch_, band.skip_kept, [&](std::uint32_t rank) { firing.push_back(rank); });
      }
    }
    // Without branches: a coin can not be predicted.
    const std::size_t before = ranks.size();
    ranks.resize(before + firing.size());
    std::uint32_t* end = ranks.data() + before;
    for (const std::uint32_t rank : firing) {
      *end = rank;
      end += to_unit(draw_of(coins, rank)) < repeats_[rank] ? 1 : 0;
    }
    ranks.resize(static_cast<std::size_t>(end - ranks.data()));
  }
}

}  // namespace vitro
