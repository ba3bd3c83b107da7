// Which of many neurons fire at a position, each with a probability of its own: drawn in time proportional to those that do.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace vitro {

// The last step of splitmix64: a draw has to cost nanoseconds. What its two products give has the upper 31 bits of the draw already.
constexpr std::uint64_t stir(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}
constexpr std::uint64_t settle(std::uint64_t stirred) { return stirred ^ (stirred >> 31); }
constexpr std::uint64_t scramble(std::uint64_t z) { return settle(stir(z)); }
// A draw for one item of a stream. What an item adds to it is the same in all streams.
constexpr std::uint64_t part_of(std::uint64_t item) { return scramble(item * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u); }
constexpr std::uint64_t draw_of(std::uint64_t stream, std::uint64_t item) { return scramble(stream ^ part_of(item)); }

// Ranks 0 ... N - 1 by falling probability. With probability `persistence` a rank repeats what it drew for its current stretch of
// `stretch` positions, else it draws anew; 1/stretch of the ranks begin a stretch at each position.
//
// Ranks of like probability form bands. A band is crossed with geometric skips at its highest probability, and a rank that a skip
// lands on is kept by its share of it: what does not fire costs nothing.
//
// Sets of ranks are bits. Tables of probabilities and levels are rarely looked into, since they lie in no cache by then: mostly the bounds
// of 64 neighbours decide.
class FiringProcess {
 public:
  // Requires: probabilities in [0, 1], not rising; persistence in [0, 1]; stretch > 0; most >= 1.
  FiringProcess(std::vector<double> probability, double persistence, std::uint32_t stretch, double most = 1);

  const std::vector<double>& probability() const { return probability_; }  // of a rank, at any position of activity 1

  // What the stretches of a stream drew last, so that they are drawn once and not at every position. No answer depends on it.
  // Requires: a process that used it outlives it.
  class Stretches {
   public:
    bool empty() const { return of_ == nullptr; }
    bool of(std::uint64_t stream) const { return !empty() && stream_ == stream; }

   private:
    friend class FiringProcess;
    const FiringProcess* of_ = nullptr;
    std::uint64_t stream_ = 0;
    std::vector<std::uint64_t> numbers_;  // of the stretch, by residue; kNone: not drawn yet
    std::vector<std::uint64_t> fires_;    // by rank: what its stretch drew
    // Where positions differ in activity: from which level of it a rank fires, by rank, and the class of that level as bits, each word of
    // the lowest bits being followed by those of the higher ones. Only of ranks whose stretch fires.
    std::vector<float> levels_;
    std::vector<std::uint64_t> classes_;
  };

  // Words that the bits of all ranks take.
  std::size_t words() const { return (probability_.size() + kWord - 1) / kWord; }
  // Sets the bits of the ranks that fire at a position, beside those that are set. A pure function of stream, position and activity: at an
  // activity of a, a rank of probability p fires with min(1, a p), and what a stretch fires at one activity it fires at any higher one.
  // Requires: words() of them, 0 < activity <= most.
  void draw(std::uint64_t stream, std::uint64_t position, Stretches& kept, std::span<std::uint64_t> fires, double activity = 1) const;

 private:
  struct Band {
    std::uint32_t first = 0, end = 0;      // ranks
    double highest = 0;                    // probability
    double skip_fresh = 0, skip_kept = 0;  // 1 / log of not firing: at activity 1, and at the most
  };

  // The ranks of one word. Chances to repeat are whole numbers: one is met by a draw that is not above it.
  struct Block {
    double highest = 0, lowest = 0;                     // probability, of those above 0
    std::uint64_t most_repeats = 0, least_repeats = 0;  // at activity 1
  };

  static constexpr std::uint32_t kWord = 64;       // bits
  static constexpr std::uint32_t kClassBits = 7;  // of a level's class: an activity is compared with the levels of its own class alone
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  template <class Dice, class Lands>
  void cross(Dice& dice, const Band& band, std::uint32_t first, std::uint32_t step, double skip, double activity, Lands lands) const;
  void renew(std::uint64_t stream, std::uint64_t position, Stretches& kept) const;
  std::uint32_t class_of(double level) const;  // never falls as the level rises
  std::uint64_t reached(const Stretches& kept, std::size_t word, double activity) const;
  void keep_level(Stretches& kept, std::uint32_t rank, float level) const;
  void repeat(std::uint64_t coins, const Stretches& kept, std::span<std::uint64_t> fires, double activity) const;
  bool repeats_with(std::uint64_t coin, std::size_t word, std::uint32_t bit, double activity) const;
  bool fires_at(std::uint32_t rank, double drawn, double activity) const;
  double skip_fresh(double highest) const;
  std::uint64_t repeats(double p) const;  // the chance to fire because the stretch says so, if it does: as of a Block

  const std::vector<double> probability_;
  const double persistence_;
  const std::uint32_t stretch_;
  const double most_;
  std::vector<Block> blocks_;
  std::vector<std::uint64_t> parts_;  // by rank: part_of() it
  std::vector<Band> bands_;
};

// The stretches of many streams, by a hash. Two streams in one place would be drawn anew at each position, so each has several places
// to choose from; when all are taken, it takes that of another.
class StretchTable {
 public:
  explicit StretchTable(std::size_t places) : places_(places) {}

  FiringProcess::Stretches& of(std::uint64_t stream) {
    for (std::size_t probe = 0; probe < kProbes; ++probe) {
      FiringProcess::Stretches& place = places_[(stream + probe) % places_.size()];
      if (place.empty() || place.of(stream)) return place;
    }
    return places_[stream % places_.size()];
  }

 private:
  static constexpr std::size_t kProbes = 8;
  std::vector<FiringProcess::Stretches> places_;
};

}  // namespace vitro
