#include "traces/firing_process.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

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
    if (r % kWord == 0) blocks_.push_back({p, p, repeats(p), repeats(p)});
    blocks_.back().lowest = p;
    blocks_.back().least_repeats = repeats(p);
    parts_.push_back(part_of(r));
  }
}

double FiringProcess::skip_fresh(double highest) const { return 1 / std::log1p(-highest * (1 - persistence_)); }

// Fresh draws, which do not look at the stretch, fire with p (1 - persistence). Of the rest a rank whose stretch fires takes what
// makes it persistence + (1 - persistence) p, as if it had repeated or drawn anew. to_unit() scales 53 bits by a power of two, so
// whole numbers compare as its results would.
std::uint64_t FiringProcess::repeats(double p) const {
  if (persistence_ == 0) return 0;
  constexpr std::uint64_t kAll = std::uint64_t{1} << kUnitBits;
  const double scaled = persistence_ / (1 - p * (1 - persistence_)) * static_cast<double>(kAll);
  const auto whole = static_cast<std::uint64_t>(scaled);
  const std::uint64_t below = whole + (static_cast<double>(whole) < scaled ? 1 : 0);  // rounded up, without a call of the library
  return (std::min(below, kAll) << (64 - kUnitBits)) - 1;                             // of kAll: every draw
}

inline bool FiringProcess::fires_at(std::uint32_t rank, double drawn, double activity) const {
  const Block& block = blocks_[rank / kWord];
  const bool fires = drawn < activity * block.lowest;
  if (fires == (drawn < activity * block.highest)) [[likely]]
    return fires;
  return drawn < activity * probability_[rank];
}

// Every `step`-th rank of a band from `first` on; `skip`: 1 / log(1 - chance of a rank to be landed on). Tells of those that a skip
// lands on, and whether they fire at `activity`: what comes of it is to have no branches, since it is as good as random.
template <class Dice, class Lands>
void FiringProcess::cross(Dice& dice, const Band& band, std::uint32_t first, std::uint32_t step, double skip, double activity,
                          Lands lands) const {
  const double highest = std::min(1.0, activity * band.highest);
  for (std::uint64_t rank = first; rank < band.end; rank += step) {
    const double skipped = std::log(1 - dice.roll()) * skip;
    if (!(skipped < band.end)) return;
    rank += static_cast<std::uint64_t>(skipped) * step;
    if (rank >= band.end) return;
    const double drawn = dice.roll() * highest;
    lands(static_cast<std::uint32_t>(rank), fires_at(static_cast<std::uint32_t>(rank), drawn, activity), drawn);
  }
}

void FiringProcess::draw(std::uint64_t stream, std::uint64_t position, Stretches& kept, std::span<std::uint64_t> fires,
                         double activity) const {
  VITRO_CHECK(activity > 0 && activity <= most_ && fires.size() == words(), "an activity out of range, or bits of another process");
  if (persistence_ < 1) {
    Dice dice(draw_of(stream ^ kFresh, position));
    for (const Band& band : bands_) {
      const double skip = activity == 1 ? band.skip_fresh : skip_fresh(std::min(1.0, activity * band.highest));
      cross(dice, band, band.first, 1, skip, activity,
            [&](std::uint32_t rank, bool fired, double) { fires[rank / kWord] |= std::uint64_t{fired} << rank % kWord; });
    }
  }
  if (persistence_ == 0) return;
  renew(stream, position, kept);
  repeat(draw_of(stream ^ kRepeat, position), kept, fires, activity);
}

std::uint32_t FiringProcess::class_of(double level) const {
  constexpr std::uint32_t kClasses = 1 << kClassBits;
  return std::min(static_cast<std::uint32_t>(level * (kClasses / most_)), kClasses - 1);
}

void FiringProcess::keep_level(Stretches& kept, std::uint32_t rank, float level) const {
  kept.levels_[rank] = level;
  const std::uint64_t its_class = class_of(level);
  std::uint64_t* const bits = kept.classes_.data() + kClassBits * (rank / kWord);
  for (std::uint32_t b = 0; b < kClassBits; ++b) {
    bits[b] = (bits[b] & ~(std::uint64_t{1} << rank % kWord)) | (its_class >> b & 1) << rank % kWord;
  }
}

// Of one word's ranks whose stretch fires those whose level is below the activity: a lower class is, a higher one is not.
inline std::uint64_t FiringProcess::reached(const Stretches& kept, std::size_t word, double activity) const {
  const std::uint64_t* const bits = kept.classes_.data() + kClassBits * word;
  const std::uint32_t its_class = class_of(activity);
  std::uint64_t below = 0, same = kept.fires_[word];
  for (std::uint32_t b = kClassBits; b-- > 0;) {
    const bool high = (its_class >> b & 1) != 0;
    below |= high ? same & ~bits[b] : 0;
    same &= high ? bits[b] : ~bits[b];
  }
  for (; same != 0; same &= same - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(same));
    below |= std::uint64_t{kept.levels_[kWord * word + bit] < activity} << bit;
  }
  return below;
}

// A coin for each rank whose stretch fires at this activity. Nearly all of them say yes, and that with their upper bits: the rest of a coin
// is worked out for the others.
void FiringProcess::repeat(std::uint64_t coins, const Stretches& kept, std::span<std::uint64_t> fires, double activity) const {
  constexpr std::uint64_t kUpper = ~std::uint64_t{0} << 33;  // bits that settle() leaves as they are, without those below
  for (std::size_t w = 0; w < blocks_.size(); ++w) {
    const std::uint64_t open = most_ > 1 ? reached(kept, w, activity) : kept.fires_[w];
    if (open == 0) continue;
    const std::uint64_t* const parts = parts_.data() + kWord * w;
    const std::uint64_t surely = kUpper & (activity == 1 ? blocks_[w].least_repeats : repeats(std::min(1.0, activity * blocks_[w].lowest)));
    std::uint64_t silent = 0;
    for (std::uint64_t left = open; left != 0; left &= left - 1) {
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(left));
      const std::uint64_t stirred = stir(coins ^ parts[bit]);
      if (stirred < surely) [[likely]]
        continue;
      silent |= std::uint64_t{!repeats_with(settle(stirred), w, bit, activity)} << bit;
    }
    fires[w] |= open & ~silent;
  }
}

[[gnu::noinline]] bool FiringProcess::repeats_with(std::uint64_t coin, std::size_t word, std::uint32_t bit, double activity) const {
  if (activity == 1) {  // mostly without the table of probabilities
    if (coin <= blocks_[word].least_repeats) return true;
    if (coin > blocks_[word].most_repeats) return false;
  }
  return coin <= repeats(std::min(1.0, activity * probability_[kWord * word + bit]));
}

// Draws the stretches that began since the stream was last asked for, in the place of the ones before them.
void FiringProcess::renew(std::uint64_t stream, std::uint64_t position, Stretches& kept) const {
  if (kept.of_ != this || kept.stream_ != stream) {
    kept.of_ = this;
    kept.stream_ = stream;
    kept.numbers_.assign(stretch_, kNone);
    kept.fires_.assign(blocks_.size(), 0);
    if (most_ > 1) {
      kept.levels_.resize(probability_.size());
      kept.classes_.resize(kClassBits * blocks_.size());
    }
  }
  const std::uint64_t phase = draw_of(stream, kPhase) % stretch_;
  const std::uint64_t number = position / stretch_, within = position % stretch_;
  const bool in_rounds = kWord % stretch_ == 0;  // words hold whole ones: what begins is forgotten word by word
  std::uint64_t begun = 0;                       // residues
  const auto draw_anew = [&](std::uint32_t residue) {
    Dice dice(draw_of(stream ^ kStretch, kept.numbers_[residue] * stretch_ + residue));
    for (const Band& band : bands_) {
      const std::uint32_t first = band.first + (residue + stretch_ - band.first % stretch_) % stretch_;
      cross(dice, band, first, stretch_, band.skip_kept, most_, [&](std::uint32_t rank, bool fires, double drawn) {
        kept.fires_[rank / kWord] |= std::uint64_t{fires} << rank % kWord;
        if (most_ > 1 && fires) keep_level(kept, rank, static_cast<float>(drawn / probability_[rank]));
      });
    }
  };
  for (std::uint32_t residue = 0; residue < stretch_; ++residue) {
    const std::uint64_t shifted = residue + phase < stretch_ ? residue + phase : residue + phase - stretch_;
    const std::uint64_t its_number = number + (within + shifted < stretch_ ? 0 : 1);
    if (std::exchange(kept.numbers_[residue], its_number) == its_number) continue;
    if (in_rounds) {
      begun |= std::uint64_t{1} << residue;
      continue;
    }
    for (std::uint64_t rank = residue; rank < kWord * blocks_.size(); rank += stretch_) {
      kept.fires_[rank / kWord] &= ~(std::uint64_t{1} << rank % kWord);
    }
    draw_anew(residue);
  }
  if (begun == 0) return;
  std::uint64_t forgotten = begun;
  for (std::uint32_t width = stretch_; width < kWord; width *= 2) forgotten |= forgotten << width;
  for (std::uint64_t& fires : kept.fires_) fires &= ~forgotten;
  for (; begun != 0; begun &= begun - 1) draw_anew(static_cast<std::uint32_t>(std::countr_zero(begun)));
}

}  // namespace vitro
