#include <numeric>

#include "tests/engine/parts/ffn/neuron_cluster/arena.hpp"

namespace vitro {
namespace {

TEST(NeuronPlaces, places_are_those_of_each_resident_neuron_and_the_others_are_told) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    Arena arena(shape, 1);
    const NeuronStore& store = *arena.store;
    std::vector<std::uint32_t> all(store.neurons()), places(store.neurons()), missing(store.neurons()), expected;
    std::iota(all.begin(), all.end(), 0u);
    missing.resize(store.places(all, 0, places.data(), missing.data()));
    for (const std::uint32_t neuron : all) {
      const std::uint32_t slot = store.cache().slot_of(store.block_of(0, -1, neuron));
      if (slot == NeuronCache::kNone) {
        expected.push_back(neuron);
      } else {
        EXPECT_EQ(places[neuron], store.place(neuron, slot));
      }
    }
    EXPECT_EQ(missing, expected);
    if (store.layout().per_block == 1) {
      std::vector<std::uint32_t> alone(all.size());
      EXPECT_EQ(store.places(all, 0, alone.data()), missing.size());
      for (const std::uint32_t neuron : missing) alone[neuron] = places[neuron];  // mean nothing
      EXPECT_EQ(alone, places);
    }
    EXPECT_FALSE(missing.empty()) << "half of the blocks are not there";
    EXPECT_LT(missing.size(), all.size());
  }
}

}  // namespace
}  // namespace vitro
