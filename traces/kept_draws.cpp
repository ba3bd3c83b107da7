#include "traces/kept_draws.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "traces/draw_keys.hpp"

namespace vitro {

KeptDraws::KeptDraws() : places_(kMost + kPlaces - 1) {}

KeptDraws::Place* KeptDraws::places(const NeuronKey& key) {
  return places_.data() +
         mix(key.neurons, {key_word(key.layer), key_word(key.expert), key.at.sequence, key.at.position, key.guess ? 1u : 0u}) % kMost;
}

IndexBits KeptDraws::find(const NeuronKey& key, By who) {
  Place* const first = places(key);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return nullptr;
  for (Place& place : std::span(first, kPlaces)) {
    if (place.answer == nullptr || place.key != key) continue;
    if (who == By::asked && std::exchange(place.ahead, false)) ++ahead_.found;
    return place.answer;
  }
  return nullptr;
}

void KeptDraws::keep(const NeuronKey& key, IndexBits answer, By who) {
  const std::span places(this->places(key), kPlaces);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  *std::ranges::min_element(places, {}, &Place::number) = {key, std::move(answer), ++answers_, who == By::ahead};
  if (who == By::ahead) ++ahead_.kept;
}

KeptDraws::Ahead KeptDraws::ahead() {
  const std::lock_guard lock(mutex_);
  return ahead_;
}

}  // namespace vitro
