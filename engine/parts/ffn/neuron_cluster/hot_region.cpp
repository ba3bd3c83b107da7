#include "engine/parts/ffn/neuron_cluster/hot_region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/variants.hpp"
#include "engine/parts/ffn/neuron_cluster/cluster.hpp"

namespace vitro {

HotRegion::HotRegion(Machine& machine, GraphCache& graphs, NeuronStore& store, HotRegionOptions options)
    : machine_(machine),
      graphs_(graphs),
      store_(store),
      options_(std::move(options)),
      read_done_(machine.executor),
      scope_(machine.executor) {
  const BundleLayout& layout = store_.layout();
  // Whole blocks, so that none is hot and cold.
  const Bytes whole = round_down(layout.neurons, layout.per_block), cluster = round_up(options_.cluster_neurons, layout.per_block);
  options_.cluster_neurons = whole > 0 ? static_cast<std::uint32_t>(std::min(whole, cluster)) : layout.neurons;
  VITRO_CHECK(!options_.splits.empty(), "a hot region without splits");
  if (options_.shares_buffers) return;
  double most = 0;
  for (const HotRegionOptions::Split& split : options_.splits) most = std::max(most, split.most());
  const Bytes width = Bytes{4} * options_.max_rows * static_cast<Bytes>(std::lround(most * layout.neurons));
  for (Lease* buffer : {&gate_, &up_, &hidden_}) {
    Result<Lease> lease = machine_.memory.lease(std::max<Bytes>(width, 4), Placement::dram, Region::activation);
    if (!lease.ok()) throw ConfigError("memory.budget: no room for the activations of hot neurons: " + lease.status().message);
    *buffer = std::move(lease).value();
  }
}

void HotRegion::share(Lease gate, Lease up, Lease hidden, std::uint32_t neurons) {
  gate_ = std::move(gate);
  up_ = std::move(up);
  hidden_ = std::move(hidden);
  shared_ = neurons;
}

void HotRegion::start() {
  const NeuronCache& cache = store_.cache();
  const std::uint32_t per_cluster = blocks_per_cluster();
  const double share = options_.in_dram.value_or(1);
  most_ = std::min(cache.capacity(), static_cast<std::uint32_t>(share * cache.blocks())) / per_cluster;
  ffns_.resize(store_.ffns());
  streamed_last_.resize(store_.ffns());
  for (std::uint32_t f = 0; f < ffns_.size(); ++f) ffns_[f].recency = recency_.insert(recency_.end(), f);
  for (std::uint32_t n = 0; n <= store_.neurons(); n += options_.cluster_neurons) {
    auto rows = std::make_shared<std::vector<std::uint32_t>>(n);
    std::iota(rows->begin(), rows->end(), 0u);
    rows_.push_back(std::move(rows));
  }
}

void HotRegion::prepare(std::int16_t layer, std::span<const std::int16_t> experts, std::uint32_t sequences, std::uint32_t rows) {
  if (ffns_.empty()) start();
  std::uint32_t others = 0;  // clusters that stay whatever happens here
  for (const std::int16_t expert : experts) {
    const std::uint32_t f = store_.ffn_of(layer, expert);
    recency_.splice(recency_.end(), recency_, ffns_[f].recency);
    ffns_[f].held = true;
  }
  for (const Ffn& ffn : ffns_) others += in_use(ffn) ? ffn.hot : 0;
  for (const std::int16_t expert : experts) others -= ffns_[store_.ffn_of(layer, expert)].hot;
  const std::uint32_t most = this->most(sequences);
  const std::uint32_t equal_part = (most - std::min(most, others)) / static_cast<std::uint32_t>(experts.size());
  for (const std::int16_t expert : experts) {
    const std::uint32_t f = store_.ffn_of(layer, expert);
    set_hot(f, make_room(f, std::min(clusters(f, sequences), std::max(equal_part, ffns_[f].hot)), most));
    want_stream(f, sequences);
    const std::uint32_t hot = clusters_of(ffns_[f]);
    if (rows > 0 && hot > 0 && graphs_begun_.emplace(hot, rows).second) scope_.spawn(prepare_graph(hot, rows));
  }
  fill_stream();
  begin_reads();
}

void HotRegion::begin_reads() {
  for (std::size_t left = reads_.size() - next_read_; left > 0 && lanes_ < options_.io_depth; --left, ++lanes_) scope_.spawn(read_all());
}

void HotRegion::release(std::int16_t layer) {
  if (ffns_.empty()) return;
  const std::uint32_t first = store_.ffn_of(layer, 0);
  for (std::uint32_t f = first; f < first + store_.experts(); ++f) ffns_[f].held = false;
  fill_stream();
  begin_reads();
}

// How many clusters of the FFN the region has room for, of those that are wanted. Others go for them, the coldest cluster
// of whichever was used least recently first.
std::uint32_t HotRegion::make_room(std::uint32_t ffn, std::uint32_t wanted, std::uint32_t most) {
  const auto over = [&] { return hot_ - ffns_[ffn].hot + wanted > most; };
  for (auto victim = recency_.begin(); over() && victim != recency_.end();) {
    if (*victim == ffn || ffns_[*victim].hot == 0 || in_use(ffns_[*victim])) {
      ++victim;
    } else {
      set_hot(*victim, ffns_[*victim].hot - 1);
    }
  }
  return over() ? most - std::min(most, hot_ - ffns_[ffn].hot) : wanted;
}

void HotRegion::set_hot(std::uint32_t f, std::uint32_t clusters) {
  Ffn& ffn = ffns_[f];
  NeuronCache& cache = store_.cache();
  const std::uint32_t per_cluster = blocks_per_cluster(), first = f * store_.layout().blocks();
  // What the layer at work has pinned stays, so the region may grow less than its plan says.
  while (clusters > ffn.hot && !cache.could_hold(first + ffn.hot * per_cluster, first + clusters * per_cluster)) --clusters;
  if (ffn.hot == clusters) return;
  VITRO_CHECK(clusters > ffn.hot || ffn.reads == 0, "blocks would become cold before they have come");
  if (machine_.trace.enabled()) {
    machine_.trace.decision(clusters > ffn.hot ? "grow" : "shrink", fmt::format("{}: {} clusters", store_.describe(first), clusters),
                            "hot");
  }
  const std::uint32_t begin = clusters * per_cluster, end = ffn.hot * per_cluster;
  for (std::uint32_t b = begin; b < end; ++b) cache.make_cold(first + b);
  if (begin < end) machine_.clock.charge(PolicyWork::cache_update, end - begin);
  std::uint32_t after = 0;
  for (std::uint32_t b = ffn.hot * per_cluster; b < clusters * per_cluster; ++b) make_hot(f, first + b, after);
  hot_ += clusters - ffn.hot;
  ffn.hot = clusters;
  ffn.row_offsets = nullptr;
}

// `after`: behind the slot of the block before, so that blocks which are read together come to lie together.
void HotRegion::make_hot(std::uint32_t f, std::uint32_t block, std::uint32_t& after) {
  NeuronCache& cache = store_.cache();
  machine_.clock.charge(PolicyWork::cache_update, 1);
  if (cache.resident(block) && cache.half(block)) {
    queue_reads(f, block, cache.slot_of(block), store_.layout().first_part);
    cache.set_half(block, false);
  }
  if (!cache.resident(block)) {
    const std::uint32_t slot = cache.take_slot(after);
    after = slot + 1;
    const NeuronCache::Admission admission = cache.admit(block, slot, true);
    VITRO_CHECK(admission.stays, "the hot region is larger than the cache");
    if (admission.evicted != NeuronCache::kNone && machine_.trace.enabled()) {
      machine_.trace.decision("evict", store_.describe(admission.evicted), "cold");
    }
    queue_reads(f, block, slot, 0);
  }
  cache.make_hot(block);
}

// What a block has behind its first `begin` bytes. The pieces of blocks that lie side by side become one read, stripe by stripe.
void HotRegion::queue_reads(std::uint32_t f, std::uint32_t block, std::uint32_t slot, Bytes begin) {
  const BundleLayout& layout = store_.layout();
  const std::size_t queued = reads_.size();
  for (auto stripe = static_cast<std::uint32_t>(begin / layout.piece()); stripe < layout.stripes; ++stripe) {
    const Bytes first_byte = stripe * layout.piece();
    const NeuronStore::Piece piece = store_.piece_of(block, slot, stripe, std::max(begin, first_byte) - first_byte);
    const std::size_t before = queued + stripe - layout.stripes;  // of the same stripe, where the block before was read
    const bool follows = begin == 0 && queued >= next_read_ + layout.stripes && reads_[before].ffn == f;
    if (follows && store_.join(reads_[before].piece, piece)) continue;
    reads_.push_back({f, piece});
    ++ffns_[f].reads;
  }
}

// Ends when nothing is queued. It reads on after a failure, since others wait for what they need.
Task<void> HotRegion::read_all() {
  while (next_read_ < reads_.size()) {
    const Read next = reads_[next_read_++];
    if (next_read_ == reads_.size()) {
      reads_.clear();
      next_read_ = 0;
    }
    co_await read(next);
  }
  --lanes_;
}

Task<void> HotRegion::read(Read next) {
  IoResult result;
  for (int attempt = 0; attempt < 2 && (attempt == 0 || !result.status.ok()); ++attempt) {
    result = co_await store_.read(next.piece, options_.io_core, Pattern::sequential);
  }
  if (!result.status.ok()) error_ = fmt::format("reading hot neurons: {}", result.status.message);
  --ffns_[next.ffn].reads;
  read_done_.notify();
}

View HotRegion::wide(const Lease& lease, std::uint32_t first_row, std::uint32_t rows, std::uint32_t neurons) const {
  const std::uint32_t width = shared_ > 0 ? shared_ : neurons;
  View view;
  view.memory = lease;
  view.offset = Bytes{4} * first_row * width;
  view.shape = {rows, width, 0};
  return view;
}

Chain HotRegion::calls(std::int16_t layer, const FfnGroup& group, std::uint32_t first_row, const IndexList& rows,
                       const IndexList& row_offsets, View out) const {
  const auto neurons = static_cast<std::uint32_t>(rows->size()), count = static_cast<std::uint32_t>(group.rows->size());
  const auto weights = [&](NeuronStore::Matrix matrix) {
    View view = store_.view(matrix);
    view.shape[0] = shared_ > 0 ? shared_ : neurons;
    return view;
  };
  const IndexList named = shared_ > 0 ? rows : nullptr;  // of wider operands
  KernelCall base;
  base.layer = layer;
  base.expert = group.expert;
  base.batch = group.rows;
  base.variant = variant::kFloat;
  const View gate_out = wide(gate_, first_row, count, neurons), up_out = wide(up_, first_row, count, neurons);
  const View hidden = wide(hidden_, first_row, count, neurons);

  Chain chain;
  const auto product = [&](NeuronStore::Matrix matrix, const View& into) {
    KernelCall call = base;
    call.op = ops::Matmul{};
    call.variant = product_contract(options_.asked, {.prompt = group.prompt, .accelerator = true}, store_.layout().format, Layout::rows);
    call.rows = rows;
    call.row_offsets = row_offsets;
    call.in = {weights(matrix), group.x};
    store_.add_scales(call, matrix, layer, group.expert);
    call.out = {into};
    chain.push_back(std::move(call));
  };
  const NeuronAdapters::Rows adapted{layer, &group, first_row};
  product(NeuronStore::Matrix::gate, gate_out);
  if (options_.adapters) options_.adapters->append_added(Role::ffn_gate, adapted, named, gate_out, chain);
  product(NeuronStore::Matrix::up, up_out);
  if (options_.adapters) options_.adapters->append_added(Role::ffn_up, adapted, named, up_out, chain);
  KernelCall glu = base;
  glu.op = ops::Glu{options_.activation};
  glu.rows = named;
  glu.in = {gate_out, up_out};
  glu.out = {hidden};
  chain.push_back(std::move(glu));
  KernelCall down = base;
  down.op = ops::Accumulate{};
  down.rows = rows;
  down.row_offsets = row_offsets;
  down.in = {weights(NeuronStore::Matrix::down), hidden};
  store_.add_scales(down, NeuronStore::Matrix::down, layer, group.expert);
  down.out = {std::move(out)};
  chain.push_back(std::move(down));
  return chain;
}

Chain HotRegion::graph_calls(std::uint32_t clusters, std::uint32_t rows, bool prompt) const {
  FfnGroup group;
  group.expert = store_.experts() > 1 ? 0 : -1;
  group.rows = std::make_shared<const std::vector<SeqPos>>(rows);
  group.x.shape = {rows, store_.layout().width, 0};
  group.prompt = prompt;
  return calls(store_.first_layer(), group, 0, rows_[clusters], rows_[clusters], group.x);
}

std::vector<UnitChain> HotRegion::graphs(std::uint32_t rows, std::uint32_t sequences) {
  if (ffns_.empty()) start();
  std::vector<UnitChain> all;
  std::set<std::uint32_t> sizes;
  for (std::uint32_t f = 0; f < ffns_.size(); ++f) sizes.insert(clusters(f, sequences) + streamed(split_of(sequences), f));
  for (const std::uint32_t hot : sizes) {
    for (std::uint32_t own = store_.experts() > 1 ? 1 : rows; hot > 0 && own <= rows; ++own) {
      all.push_back({options_.unit, graph_calls(hot, own, rows > options_.decode_rows)});
    }
  }
  return all;
}

Task<void> HotRegion::prepare_graph(std::uint32_t clusters, std::uint32_t rows) {
  Chain chain = graph_calls(clusters, rows, rows > options_.decode_rows);
  std::string step;
  try {
    co_await graphs_.prepare(options_.unit, std::move(chain), std::move(step));
  } catch (const RunError&) {
  } catch (const ConfigError&) {  // run() loads the graph that it then lacks, or fails with the error of that
  }
}

// However the run of an FFN ends, the buffer is free for the one that waits behind it.
class HotRegion::Turn {
 public:
  Turn(HotRegion& region, std::uint32_t ffn) : region_(region), ffn_(ffn) {}
  Turn(const Turn&) = delete;
  ~Turn() { region_.end_turn(ffn_); }

 private:
  HotRegion& region_;
  std::uint32_t ffn_;
};

Task<void> HotRegion::run(std::int16_t layer, const FfnGroup* group, std::uint32_t first_row, View out) {
  const std::uint32_t f = store_.ffn_of(layer, group->expert);
  const Turn turn(*this, f);
  while (ffns_[f].reads > 0 || (ffns_[f].waits && error_.empty())) co_await read_done_.changed();
  if (!error_.empty()) throw RunError(error_);
  Ffn& ffn = ffns_[f];
  VITRO_CHECK(first_row + group->rows->size() <= options_.max_rows, "a step beyond the limits of the hot region");
  const IndexList& rows = rows_[clusters_of(ffn)];
  if (ffn.row_offsets == nullptr) {
    auto row_offsets = std::make_shared<std::vector<std::uint32_t>>();
    for (const std::uint32_t neuron : *rows) {
      row_offsets->push_back(store_.place(neuron, slot_of(f, neuron)));
    }
    ffn.row_offsets = std::move(row_offsets);
  }
  Chain chain = calls(layer, *group, first_row, rows, ffn.row_offsets, std::move(out));
  charge_dispatch(machine_.clock, chain);
  const RunResult result = co_await graphs_.run(options_.unit, std::move(chain));
  result.status.or_throw();
}

Task<void> HotRegion::settle() {
  co_await scope_.join();
  for (Ffn& ffn : ffns_) ffn.held = ffn.waits = false;
  streams_.clear();
}

void HotRegion::start_anew() {
  for (Ffn& ffn : ffns_) {
    ffn.hot = ffn.streamed = ffn.reads = 0;
    ffn.waits = false;
    ffn.row_offsets = nullptr;
  }
  stream_ = {};
  hot_ = 0;
  error_.clear();
}

}  // namespace vitro
