// The answers that were drawn last: a layer's neurons are drawn once, however many clusters ask for theirs.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/ops/outcome.hpp"
#include "traces/neuron_draws.hpp"

namespace vitro {

// For any number of threads, none of which waits for another: when one is at it, an answer counts as not kept.
class KeptDraws {
 public:
  KeptDraws();

  static constexpr std::size_t kMost = 1024;  // answers: a layer's truth and guesses for a chunk of a prompt

  enum class By { asked, ahead };  // who draws: one who was asked, or the thread that draws ahead
  IndexBits find(const NeuronKey& key, By who);  // null: not kept
  void keep(const NeuronKey& key, IndexBits answer, By who);  // in the place of an older one

  struct Ahead {
    std::uint64_t kept = 0, found = 0;  // answers drawn ahead, and those of them that somebody asked for
  };
  Ahead ahead();

 private:
  static constexpr std::size_t kPlaces = 8;  // of which an answer may take any: two in one place would be drawn anew for every cluster
  struct Place {
    NeuronKey key;
    IndexBits answer;
    std::uint64_t number = 0;  // of the answer, counted from 1
    bool ahead = false;        // drawn ahead, and nobody asked for it yet
  };
  Place* places(const NeuronKey& key);

  std::mutex mutex_;
  std::vector<Place> places_;  // by a hash of the key
  std::uint64_t answers_ = 0;
  Ahead ahead_;
};

}  // namespace vitro
