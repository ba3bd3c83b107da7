#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

#include "engine/machine/task_scope.hpp"
#include "tests/engine/parts/ffn/neuron_cluster/arena.hpp"

namespace vitro {
namespace {

// Some of it waits to be copied by another unit.
Task<void> bring(Arena* arena, NeuronStore::Piece piece, bool may_wait) {
  Landed landed;
  const IoResult result = co_await arena->store->read(piece, UnitId{0}, Pattern::random, may_wait ? &landed : nullptr);
  result.status.or_throw();
  if (landed.bytes == 0) co_return;
  arena->waited += 1;
  const std::vector<Landed> there{landed};
  co_await arena->store->move(&there, UnitId{1});
}

Task<void> bring_all(Arena* arena, std::vector<NeuronStore::Piece> pieces) {
  TaskScope scope(arena->machine().executor);
  for (std::size_t i = 0; i < pieces.size(); ++i) scope.spawn(bring(arena, pieces[i], i % 3 > 0));
  co_await scope.join();
}

// Whatever is read beside it, whole or in two parts, every row comes to lie at the place that kernels are told, and stays there.
TEST(NeuronStore, every_row_is_where_its_place_says_in_every_layout_and_order) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Arena arena(shape, seed);
      NeuronStore& store = *arena.store;
      NeuronCache& cache = store.cache();
      const BundleLayout& layout = store.layout();
      Rng rng(seed);
      std::vector<std::pair<std::uint32_t, std::uint32_t>> there;  // block, slot
      for (const std::uint32_t block : cache.resident_blocks()) there.emplace_back(block, cache.slot_of(block));
      EXPECT_EQ(there.size(), cache.capacity());
      for (int round = 0; round < 3; ++round) {
        std::vector<std::pair<std::uint32_t, std::uint32_t>> fresh;
        std::uint32_t from = 0;
        for (std::uint32_t block = 0; block < cache.blocks() && cache.free_slots() > 0; ++block) {
          if (cache.resident(block) || rng.below(3) == 0) continue;
          from = cache.take_slot(rng.below(2) == 0 ? from : 0);
          fresh.emplace_back(block, from);
        }
        // First parts, then what is missing of some; or whole blocks, neighbours together.
        const bool halves = layout.first_part > 0 && layout.stripes == 1 && round % 2 == 0;
        std::vector<NeuronStore::Piece> first, rest;
        for (const auto& [block, slot] : fresh) {
          if (halves) {
            first.push_back(store.piece_of(block, slot, 0, 0, layout.first_part));
            rest.push_back(store.piece_of(block, slot, 0, layout.first_part));
            continue;
          }
          for (std::uint32_t stripe = 0; stripe < layout.stripes; ++stripe) {
            const NeuronStore::Piece piece = store.piece_of(block, slot, stripe);
            if (first.empty() || !store.join(first.back(), piece)) first.push_back(piece);
          }
        }
        arena.run(bring_all(&arena, first));
        for (const auto& [block, slot] : fresh) EXPECT_TRUE(arena.holds(block, slot, NeuronStore::Matrix::gate));
        arena.run(bring_all(&arena, rest));
        for (const auto* blocks : {&there, &fresh}) {
          for (const auto& [block, slot] : *blocks) {
            for (const auto matrix : {NeuronStore::Matrix::gate, NeuronStore::Matrix::up, NeuronStore::Matrix::down}) {
              EXPECT_TRUE(arena.holds(block, slot, matrix)) << "block " << block << " in slot " << slot;
            }
          }
        }
        for (const auto& [block, slot] : fresh) cache.give_back(slot);
      }
      EXPECT_EQ(arena.waited > 0, layout.padded());
    }
  }
}

TEST(NeuronStore, dram_holds_rows_and_staging_and_no_padding) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(describe(shape));
    Arena arena(shape, 1);
    const BundleLayout& layout = arena.layout;
    const Bytes row = round_up(row_bytes(layout.format, layout.width), kRowOffsetUnit);
    const Bytes neurons = arena.store->cache().capacity() * layout.per_block;
    const Budget& budget = arena.machine().memory.budget(Placement::dram);
    EXPECT_EQ(arena.store->cache().capacity(), arena.store->cache().blocks() / 2);
    EXPECT_LE(budget.used, neurons * 3 * row + 40 * layout.block + kPageSize) << "blocks on their way take what they did with padding";
  }
}

TEST(NeuronStore, what_has_no_padding_goes_to_its_place_directly) {
  Arena arena({Format::f16, 24, 4096, BundleForm::one_read}, 1);
  EXPECT_EQ(arena.machine().memory.budget(Placement::dram).region_used[static_cast<std::size_t>(Region::staging)], 0u);
}

}  // namespace
}  // namespace vitro
