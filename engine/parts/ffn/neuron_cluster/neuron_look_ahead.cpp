#include "engine/parts/ffn/neuron_cluster/neuron_look_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vitro {

NeuronLookAhead::NeuronLookAhead(Machine& machine, NeuronStore& store, NeuronLookAheadOptions options)
    : machine_(machine),
      store_(store),
      options_(std::move(options)),
      rule_(look_ahead_rules().find(options_.ahead)->make({store.experts(), options_.experts_used})),
      last_(store.ffns()),
      done_(machine.executor),
      scope_(machine.executor) {}

void NeuronLookAhead::chose(std::int16_t layer, const std::vector<ExpertChoice>& choices) {
  rule_->chose(layer, choices);
  if (layer != layer_) return;
  for (std::size_t row = 0; row < std::min(choices.size(), guess_.size()); ++row) {
    for (const std::uint16_t expert : choices[row].ids) {
      ++stats_.wanted;
      if (std::ranges::find(guess_[row], expert) != guess_[row].end()) ++stats_.named_right;
    }
  }
}

void NeuronLookAhead::foresee(std::int16_t layer, const std::vector<ExpertChoice>& choices) {
  layer_ = layer;
  guess_.clear();
  experts_.clear();
  for (const ExpertChoice& choice : choices) guess_.push_back(choice.ids);
  std::vector<bool> wanted(store_.experts());
  rule_->want(layer, choices, wanted);
  for (std::size_t expert = 0; expert < wanted.size(); ++expert) {
    if (wanted[expert]) experts_.push_back(static_cast<std::int16_t>(expert));
  }
}

// Blocks that are not there, as many of each expert but for one more of the first; those that are there stay.
std::vector<std::uint32_t> NeuronLookAhead::candidates() {
  NeuronCache& cache = store_.cache();
  const auto most = static_cast<std::uint32_t>(options_.most / store_.layout().block);
  const auto experts = static_cast<std::uint32_t>(experts_.size());
  std::vector<std::uint32_t> blocks;
  std::uint32_t looked_up = 0;
  for (std::uint32_t i = 0; i < experts; ++i) {
    const std::int16_t expert = experts_[i];
    const std::uint32_t each = most / experts + (i < most % experts ? 1 : 0);
    const std::uint32_t base = store_.block_of(layer_, expert, 0), hottest = std::min(each, store_.layout().blocks());
    const std::vector<std::uint32_t>* const named = last_[store_.ffn_of(layer_, expert)].get();
    std::uint32_t found = 0;
    const auto add = [&](std::uint32_t block) {
      ++looked_up;
      if (!cache.pin_resident(block)) blocks.push_back(block), ++found;
    };
    if (named == nullptr) {
      for (std::uint32_t block = base; block < base + hottest; ++block) add(block);
      continue;
    }
    std::uint32_t last = NeuronCache::kNone;
    for (const std::uint32_t neuron : *named) {
      const std::uint32_t block = base + store_.block_in_ffn(neuron);
      if (block == std::exchange(last, block)) continue;
      if (found == each) break;
      add(block);
    }
  }
  machine_.clock.charge(PolicyWork::cache_lookup, looked_up);
  return blocks;
}

void NeuronLookAhead::begin() {
  if (experts_.empty() || store_.cache().holds_all()) return;
  admit(candidates());
  experts_.clear();
  for (std::size_t left = reads_.size(); left > 0 && lanes_ < options_.io_depth; --left, ++lanes_) scope_.spawn(read_all());
}

void NeuronLookAhead::admit(const std::vector<std::uint32_t>& blocks) {
  NeuronCache& cache = store_.cache();
  std::uint32_t after = 0;
  for (const std::uint32_t block : blocks) {
    if (cache.free_slots() == 0) break;
    const std::uint32_t slot = cache.take_slot(after);
    const NeuronCache::Admission admission = cache.admit(block, slot);
    machine_.clock.charge(PolicyWork::cache_update, 1);
    if (!admission.stays) {  // the rule has nothing to give up
      cache.give_back(slot);
      break;
    }
    after = slot + 1;
    ahead_.push_back(block);
    if (machine_.trace.enabled()) {
      if (admission.evicted != NeuronCache::kNone) machine_.trace.decision("evict", store_.describe(admission.evicted), "cold");
      machine_.trace.decision("load", store_.describe(block), "ahead");
    }
    for (std::uint32_t stripe = 0; stripe < store_.layout().stripes; ++stripe) {
      reads_.push_back({block, store_.piece_of(block, slot, stripe)});
    }
  }
  stats_.blocks += ahead_.size();
}

// Ends when nothing is queued. It reads on after a failure, since others wait for what they need.
Task<void> NeuronLookAhead::read_all() {
  while (!reads_.empty()) {
    const Read next = reads_.front();
    reads_.pop_front();
    IoResult result;
    for (int attempt = 0; attempt < 2 && (attempt == 0 || !result.status.ok()); ++attempt) {
      result = co_await store_.read(next.piece, options_.io_core, Pattern::random);
    }
    stats_.bytes += next.piece.from.length;
    if (!result.status.ok()) failed_[next.block] = result.status.message;
  }
  --lanes_;
  done_.notify();
}

Task<void> NeuronLookAhead::arrive_all() {
  while (lanes_ > 0) co_await done_.changed();
}

Task<void> NeuronLookAhead::arrive(const std::vector<Cluster>* clusters) {
  if (ahead_.empty()) co_return;
  std::vector<std::uint32_t> needed;
  for (const Cluster& cluster : *clusters) needed.insert(needed.end(), cluster.blocks.begin(), cluster.blocks.end());
  std::ranges::sort(needed);
  const auto wanted = [&](std::uint32_t block) { return store_.cache().hot(block) || std::ranges::binary_search(needed, block); };
  std::erase_if(reads_, [&](const Read& read) { return !wanted(read.block); });
  co_await arrive_all();
  for (const auto& [block, why] : std::exchange(failed_, {})) {
    if (wanted(block)) throw RunError(fmt::format("reading neurons ahead ({}): {}", store_.describe(block), why));
  }
  for (const std::uint32_t block : std::exchange(ahead_, {})) {
    if (wanted(block)) {
      ++stats_.used;
      stats_.used_bytes += store_.layout().block;
    } else {
      leave(block);
    }
  }
}

void NeuronLookAhead::leave(std::uint32_t block) {
  machine_.clock.charge(PolicyWork::cache_update, 1);
  if (machine_.trace.enabled()) machine_.trace.decision("evict", store_.describe(block), "ahead");
  store_.cache().leave(block);
}

Task<void> NeuronLookAhead::settle() {
  reads_.clear();
  co_await scope_.join();
  layer_ = -1;
  experts_.clear();
  failed_.clear();
  for (const std::uint32_t block : std::exchange(ahead_, {})) {
    if (!store_.cache().hot(block)) leave(block);
  }
}

}  // namespace vitro
