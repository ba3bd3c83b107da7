// Which of many neurons fire at a position, each with a probability of its own: drawn in time proportional to those that do.
#pragma once
#include <cstdint>
#include <vector>

namespace vitro {

// The last step of splitmix64: a draw has to cost nanoseconds.
constexpr std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
// A draw for one item of a stream. What an item adds to it is the same in all streams.
constexpr std::uint64_t part_of(std::uint64_t item) { return scramble(item * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u); }
constexpr std::uint64_t draw_of(std::uint64_t stream, std::uint64_t item) { return scramble(stream ^ part_of(item)); }

// Ranks 0 ... N - 1 by falling probability. With probability `persistence` a rank repeats what it drew for its current stretch of
// `stretch` positions, else it draws anew; 1/stretch of the ranks begin a stretch at each position.
//
// Ranks of like probability form bands. A band is crossed with geometric skips at its highest probability, and a rank that a skip
// lands on is kept by its share of it: what does not fire costs nothing.
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
    // Those that fire, residue by residue, in one piece: they are next read a token later, when no cache holds them any more.
    std::vector<std::uint32_t> ranks_;
    std::vector<float> levels_;        // of activity from which each fires; empty where all positions have the same
    std::vector<std::uint32_t> ends_;  // in ranks_, by residue
  };

  // Appends the ranks that fire at a position, in any order; one may come twice. A pure function of stream, position and activity: at an
  // activity of a, a rank of probability p fires with min(1, a p), and what a stretch fires at one activity it fires at any higher one.
  // Requires: 0 < activity <= most.
  void draw(std::uint64_t stream, std::uint64_t position, Stretches& kept, std::vector<std::uint32_t>& ranks, double activity = 1) const;

 private:
  struct Band {
    std::uint32_t first = 0, end = 0;      // ranks
    double highest = 0;                    // probability
    double skip_fresh = 0, skip_kept = 0;  // 1 / log of not firing: at activity 1, and at the most
  };

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  template <class Dice, class Fires>
  void cross(Dice& dice, const Band& band, std::uint32_t first, std::uint32_t step, double skip, double activity, Fires fires) const;
  void renew(std::uint64_t stream, std::uint64_t position, Stretches& kept) const;
  void replace(Stretches& kept, std::uint32_t residue, const std::vector<std::uint32_t>& ranks, const std::vector<float>& levels) const;
  double skip_fresh(double highest) const;
  double repeats(double p) const;  // the chance to fire because the stretch says so, if it does

  const std::vector<double> probability_;
  const double persistence_;
  const std::uint32_t stretch_;
  const double most_;
  struct Coin {  // of a rank
    std::uint64_t item;     // its part in a draw (draw_of)
    std::uint64_t repeats;  // it repeats its stretch, at activity 1, when the upper 53 bits of a draw are below this
  };
  std::vector<Coin> coins_;
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
