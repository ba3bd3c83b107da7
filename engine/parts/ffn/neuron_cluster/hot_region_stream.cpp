// Hot clusters that do not stay: those of the next FFN are read while the attention before it runs, into one buffer. The FFN before it has
// released the buffer by then, and its own reads are through, so they wait for nothing but attention (PowerInfer-2, sections 4.4 and 5).
// Those of a mixture's experts are read once the router has chosen, one expert's after the one before it has been computed.
#include <fmt/format.h>

#include <algorithm>

#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"

namespace vitro {

std::uint32_t HotRegion::streamed(const HotRegionOptions::Split& split, std::uint32_t ffn) const {
  const auto clusters = [&](double share) { return static_cast<std::uint32_t>(share * store_.neurons() / options_.cluster_neurons); };
  return std::min({clusters(split.streamed), clusters(split.of(ffn)), store_.stream_blocks() / blocks_per_cluster()});
}

std::uint32_t HotRegion::slot_of(std::uint32_t f, std::uint32_t neuron) const {
  const std::uint32_t block = store_.block_in_ffn(neuron), stay = ffns_[f].hot * blocks_per_cluster();
  return block < stay ? store_.cache().slot_of(f * store_.layout().blocks() + block) : store_.stream_slot(block - stay);
}

// Whatever of the region memory has no room for, a step streams as many clusters as its split says, from the first that does not stay on.
void HotRegion::want_stream(std::uint32_t f, std::uint32_t sequences) {
  Ffn& ffn = ffns_[f];
  const std::uint32_t wanted = streamed(split_of(sequences), f), all = static_cast<std::uint32_t>(rows_.size()) - 1;
  const std::uint32_t clusters = std::min(wanted, all - ffn.hot);
  if (ffn.streamed != clusters) ffn.row_offsets = nullptr;
  ffn.streamed = clusters;
  ffn.waits = clusters > 0;
  if (clusters == 0) return;
  streams_.push_back(f);
  if (store_.experts() > 1) log_stream(f);
}

// When it is decided: whose turn it is, of experts, is a matter of time.
void HotRegion::log_stream(std::uint32_t f) const {
  if (!machine_.trace.enabled()) return;
  const std::uint32_t per_cluster = blocks_per_cluster(), first = f * store_.layout().blocks() + ffns_[f].hot * per_cluster;
  machine_.trace.decision(
      "stream", fmt::format("{} and the next {}", store_.describe(first), ffns_[f].streamed * per_cluster - 1), "hot");
}

// Of experts alone: where a layer has one FFN, release() is when it has been computed.
void HotRegion::end_turn(std::uint32_t f) {
  if (store_.experts() == 1 || stream_.ffn != f || ffns_[f].streamed == 0) return;
  ffns_[f].held = false;
  fill_stream();
  begin_reads();
  read_done_.notify();
}

// For the FFN that comes next, once the one that computes with what lies there has been released.
void HotRegion::fill_stream() {
  if (streams_.empty()) return;
  const std::uint32_t f = streams_.front();
  // Who waits for another turn has had this one, and who streams nothing needs none.
  const auto computes = [](const Ffn& ffn) { return ffn.held && !ffn.waits && ffn.streamed > 0; };
  if (stream_.ffn < ffns_.size() && stream_.ffn != f && computes(ffns_[stream_.ffn])) return;
  streams_.pop_front();
  ffns_[f].waits = false;
  const Stream next{f, ffns_[f].hot, ffns_[f].streamed};
  if (stream_ == next) return;  // as for the chunks of a prompt that goes layer by layer
  stream_ = next;
  const std::uint32_t per_cluster = blocks_per_cluster(), first = f * store_.layout().blocks() + next.first * per_cluster;
  const std::uint32_t count = next.clusters * per_cluster;
  NeuronCache& cache = store_.cache();
  // What the cache has of them would never be used again. Of experts it stays: others of their blocks are on their way by now.
  if (store_.experts() == 1 && streamed_last_[f] != next) {
    std::uint32_t left = 0;
    for (std::uint32_t block = first; block < first + count; ++block) {
      if (!cache.resident(block) || cache.hot(block)) continue;
      cache.leave(block);
      ++left;
    }
    if (left > 0) machine_.clock.charge(PolicyWork::cache_update, left);
    streamed_last_[f] = next;
  }
  if (store_.experts() == 1) log_stream(f);
  for (std::uint32_t i = 0; i < count; ++i) queue_reads(f, first + i, store_.stream_slot(i), 0);
}

}  // namespace vitro
