#include "engine/parts/ffn/neuron_cluster/neuron_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/machine/task_scope.hpp"
#include "engine/ops/variants.hpp"
#include "engine/parts/weights/residency.hpp"

namespace vitro {
namespace {

constexpr std::uint32_t kLoadDepth = 4;

struct Fill {
  std::vector<NeuronStore::Piece> reads;
  std::size_t next = 0;
};

Task<void> fill_lane(NeuronStore* store, Fill* fill, UnitId issuer, TaskScope* scope) {
  while (fill->next < fill->reads.size() && !scope->stop_requested()) {
    const IoResult result = co_await store->read(fill->reads[fill->next++], issuer, Pattern::sequential);
    if (!result.status.ok()) throw RunError("filling the neuron cache: " + result.status.message);
  }
}

}  // namespace

NeuronStore::NeuronStore(Machine& machine, const WeightStore& weights, NeuronStoreOptions options)
    : machine_(machine), options_(std::move(options)) {
  for (const Weight& weight : weights.all()) {
    if (weight.role == Role::ffn_scales) scales_.push_back(weight);
    if (weight.role != Role::ffn_bundle) continue;
    const BundleLayout layout = weight.bundles();
    VITRO_CHECK(ffns_.empty() || (layout.block == layout_.block && layout.neurons == layout_.neurons), "FFNs of unlike shape");
    layout_ = layout;
    if (ffns_.empty()) first_layer_ = weight.layer;
    experts_ = weight.experts;
    for (std::uint32_t e = 0; e < experts_; ++e) {
      ffns_.push_back({weight.extent.file, weight.extent.offset + e * weight.matrix_bytes(), layout.bytes()});
    }
  }
  VITRO_CHECK(!ffns_.empty(), "the file holds no neuron bundles");
  if (!options_.two_phases) layout_.first_part = 0;
  per_block_inverse_ = ((std::uint64_t{1} << 32) + layout_.per_block - 1) / layout_.per_block;
  VITRO_CHECK(std::uint64_t{layout_.neurons} * layout_.per_block < std::uint64_t{1} << 32, "an FFN of too many neurons");
  piece_ = layout_.piece();
  blocks_ = layout_.blocks();
  slot_ = layout_.kept_piece();
  run_ = std::gcd(std::gcd(layout_.kept_before(layout_.first_part), layout_.gap_begin), slot_);
  // Where blocks have padding, what staging leaves of it is room for the reads that bring them; whole waves land beside it.
  staging_blocks_ = static_cast<std::uint32_t>(std::max<Bytes>(options_.staging / layout_.block, 2));
  const Bytes beside = options_.whole_waves ? layout_.kept_block() : 0;
  const Bytes landing = round_down(staging_blocks_ * (layout_.block - layout_.kept_block() + beside), kPageSize);
  if (layout_.padded()) landing_bytes_ = std::max(landing, 2 * piece_);
}

Task<void> NeuronStore::load_scales(UnitId issuer) {
  for (const Weight& scales : scales_) {
    Result<Lease> lease = machine_.memory.lease(scales.extent.length, Placement::dram, Region::scales);
    if (!lease.ok()) {
      throw ConfigError(
          fmt::format("memory.budget: the scales of all neurons ({}) stay in DRAM: {} (raise the budget, or use "
                      "engine.weights.layout: scales_inline)",
                      format_bytes(scales_.size() * scales.extent.length), lease.status().message));
    }
    scale_leases_.push_back(std::move(lease).value());
    co_await read_weight(&machine_, &scales, scale_leases_.back(), 0, issuer, kLoadDepth);
  }
}

// What is left to the cache beside the room for streamed clusters, of which none are needed where every block has a place of its own.
Bytes NeuronStore::leave_stream(Bytes room, std::uint32_t blocks) {
  stream_blocks_ = room / layout_.kept_block() >= blocks ? 0 : static_cast<std::uint32_t>(options_.streamed * layout_.blocks());
  const Bytes stream = stream_blocks_ * layout_.kept_block();
  if (stream > room) {
    throw ConfigError(fmt::format(
        "engine.placement.splits.streamed: hot neurons that are read for every step need room for {} and {} are left for neurons "
        "(expected a smaller share, or a larger memory.budget or memory.ffn_in_dram)",
        format_bytes(stream), format_bytes(room)));
  }
  return room - stream;
}

Task<void> NeuronStore::load(UnitId issuer) {
  co_await load_scales(issuer);
  const auto blocks = static_cast<std::uint32_t>(ffns_.size() * layout_.blocks());
  const Budget& budget = machine_.memory.budget(Placement::dram);
  const Bytes staging = staging_blocks_ * layout_.kept_block() + landing_bytes_, taken = budget.used + options_.keep_free + staging;
  if (taken > budget.limit) {
    throw ConfigError(fmt::format(
        "memory.budget: {} are in use, {} are reserved for the KV cache and {} for the staging buffer, which is more than the budget of {}",
        format_bytes(budget.used), format_bytes(options_.keep_free), format_bytes(staging), format_bytes(budget.limit)));
  }
  Bytes room = budget.limit - taken;
  if (options_.ffn_in_dram) {
    room = std::min(room, static_cast<Bytes>(*options_.ffn_in_dram * static_cast<double>(blocks * layout_.kept_block())));
  }
  room = leave_stream(room, blocks);
  const auto capacity = static_cast<std::uint32_t>(std::min<Bytes>(room / layout_.kept_block(), blocks));
  if (options_.holds_all && capacity < blocks) {
    throw ConfigError(
        fmt::format("memory.budget: all neurons stay in DRAM, {} in all, and {} are left for them (raise the budget, or take "
                    "engine.weights.kind: bundles)",
                    format_bytes(blocks * layout_.kept_block()), format_bytes(room)));
  }
  cache_.emplace(blocks, capacity, staging_blocks_, options_.eviction, options_.window,
                 static_cast<std::uint32_t>(ffns_.size()) / experts_, options_.admission);
  arena_ = lease_weights(machine_, arena_slots() * layout_.kept_block(), layout_.format, Region::cold, true).value_or_throw();
  if (landing_bytes_ > 0) {
    landing_lease_ = machine_.memory.lease(landing_bytes_, Placement::dram, Region::staging).value_or_throw();
    landing_.emplace(machine_.executor, landing_bytes_);
  }

  // The same share of every FFN; the colder neurons of a share come first, so that LRU gives them up first.
  Fill fill;
  const auto ffns = static_cast<std::uint32_t>(ffns_.size());
  for (std::uint32_t f = 0; f < ffns; ++f) {
    const std::uint32_t count = capacity / ffns + (f < capacity % ffns ? 1 : 0);
    if (count == 0) continue;
    const std::uint32_t first_slot = cache_->take_slot(), first_block = f * layout_.blocks();
    for (std::uint32_t i = 1; i < count; ++i) cache_->take_slot();
    for (std::uint32_t i = count; i-- > 0;) cache_->admit(first_block + i, first_slot + i);
    for (std::uint32_t stripe = 0; stripe < layout_.stripes; ++stripe) {
      fill.reads.push_back(piece_of(first_block, first_slot, stripe));
      for (std::uint32_t i = 1; i < count; ++i) {
        const Piece next = piece_of(first_block + i, first_slot + i, stripe);
        if (!join(fill.reads.back(), next)) fill.reads.push_back(next);
      }
    }
    machine_.trace.decision("load", fmt::format("{} and the next {}", describe(first_block), count - 1), "cold");
  }
  cache_->unpin_all();
  TaskScope scope(machine_.executor);
  const std::uint32_t lanes = landing_ && options_.whole_waves ? 1 : kLoadDepth;  // one: nothing is read while it copies
  for (std::uint32_t lane = 0; lane < lanes; ++lane) scope.spawn(fill_lane(this, &fill, issuer, &scope));
  co_await scope.join();
}

std::uint32_t NeuronStore::ffn_of(std::int16_t layer, std::int16_t expert) const {
  return static_cast<std::uint32_t>(layer - first_layer_) * experts_ + (expert < 0 ? 0 : static_cast<std::uint32_t>(expert));
}

std::uint32_t NeuronStore::block_of(std::int16_t layer, std::int16_t expert, std::uint32_t neuron) const {
  return ffn_of(layer, expert) * blocks_ + block_in_ffn(neuron);
}

NeuronStore::Piece NeuronStore::piece_of(std::uint32_t block, std::uint32_t slot, std::uint32_t stripe, Bytes begin, Bytes end) const {
  const Extent& ffn = ffns_[block / blocks_];
  const Bytes at = (stripe * blocks_ + block % blocks_) * piece_ + begin, length = (end == 0 ? piece_ : end) - begin;
  return {{ffn.file, ffn.offset + at, length}, stripe_offset(stripe) + slot * slot_ + layout_.kept_before(begin), begin};
}

// Four of them may be under way where reads land beside the arena.
Bytes NeuronStore::longest_read() const {
  const Bytes most = machine_.storage.caps().max_transfer;
  return landing_ ? std::min(most, landing_->size() / kLoadDepth) : most;
}

bool NeuronStore::join(Piece& piece, const Piece& next) const {
  const Bytes pieces = piece.from.length / piece_;
  const bool joins = piece.from.length == pieces * piece_ && next.from.length == piece_ && next.from.file == piece.from.file &&
                     next.from.offset == piece.from.offset + piece.from.length && next.into == piece.into + pieces * slot_ &&
                     piece.from.length + piece_ <= longest_read();
  if (joins) piece.from.length += piece_;
  return joins;
}

std::optional<Landed> NeuronStore::reserve(const Piece& piece, bool in_wave) {
  if (!landing_) return Landed{};
  const Bytes bytes = piece.from.length;
  const std::optional<Bytes> at = !options_.whole_waves ? landing_->try_take(bytes)
                                  : in_wave             ? landing_->try_take_lowest(bytes)
                                                        : landing_->try_take_highest(bytes);
  if (!at) return std::nullopt;
  return Landed{*at, piece.from.length, piece.begin, piece.into};
}

ReadRequest NeuronStore::request(const Piece& piece, const Landed& room, UnitId issuer, Pattern pattern) const {
  ReadRequest request;
  request.from = piece.from;
  request.into = room.bytes > 0 ? landing_lease_ : arena_;
  request.into_offset = room.bytes > 0 ? room.at : piece.into;
  request.issuer = issuer;
  request.pattern = pattern;
  request.page_fault = options_.page_faults && pattern == Pattern::random ? PageFault::waits : PageFault::none;
  return request;
}

Task<IoResult> NeuronStore::read(Piece piece, UnitId issuer, Pattern pattern, Landed* landed) {
  std::optional<Landed> room = reserve(piece, landed != nullptr);
  for (; !room; room = reserve(piece, landed != nullptr)) co_await room_freed();
  const Landed there = *room;
  ReadRequest wanted = request(piece, there, issuer, pattern);
  IoResult result = co_await machine_.storage.read(std::move(wanted));
  if (there.bytes == 0) co_return result;
  if (!result.status.ok()) {
    landing_->give_back(there.at, there.bytes);
  } else if (landed != nullptr) {
    *landed = there;
  } else {
    const std::vector<Landed> alone{there};
    try {
      co_await move(&alone, issuer);
    } catch (const std::exception& error) {  // whoever reads looks at the status, and others wait for him
      result.status = {Code::unit_lost, error.what()};
    }
  }
  co_return result;
}

Task<void> NeuronStore::move(const std::vector<Landed>* landed, UnitId id) {
  const auto unit = std::ranges::find(machine_.units, id, [](const ComputeUnit* u) { return u->caps().id; });
  VITRO_CHECK(unit != machine_.units.end(), "a unit that is not there");
  Chain chain;
  chain.push_back(copy(*landed));
  charge_dispatch(machine_.clock, chain);
  std::exception_ptr error;
  try {
    (co_await (*unit)->run(std::move(chain))).status.or_throw();
  } catch (...) {
    error = std::current_exception();
  }
  copied(*landed);
  if (error) std::rethrow_exception(error);
}

// Where nobody has bytes the call says how many there would be, and which only to a trace: the price is that of their number.
KernelCall NeuronStore::copy(const std::vector<Landed>& landed) const {
  const bool real = arena_.data() != nullptr || machine_.trace.enabled();
  std::shared_ptr<std::vector<std::uint32_t>> from, to;
  if (real) {
    from = std::make_shared<std::vector<std::uint32_t>>();
    to = std::make_shared<std::vector<std::uint32_t>>();
  }
  Bytes kept = 0, of_part = 0;
  const Landed* like = nullptr;  // the part that of_part was worked out for: mostly all of them are as long
  for (const Landed& part : landed) {
    if (!real && like != nullptr && part.begin == like->begin && part.bytes == like->bytes) {
      kept += of_part;
      continue;
    }
    like = &part;
    of_part = 0;
    Bytes into = part.into;
    for (Bytes begin = part.begin, read = 0; read < part.bytes; begin = 0) {
      const Bytes end = std::min(piece_, begin + part.bytes - read);
      const auto keep = [&](Bytes first, Bytes last) {
        for (Bytes byte = first; byte < last; byte += run_, into += run_) {
          from->push_back(static_cast<std::uint32_t>((part.at + read + byte - begin) / kRowOffsetUnit));
          to->push_back(static_cast<std::uint32_t>(into / kRowOffsetUnit));
        }
      };
      if (real) {
        keep(begin, std::min(end, layout_.gap_begin));
        keep(std::max(begin, layout_.gap_end), std::min(end, layout_.end));
      }
      of_part += layout_.kept_before(end) - layout_.kept_before(begin);
      read += end - begin;
    }
    kept += of_part;
  }
  KernelCall call;
  call.op = ops::Copy{};
  call.variant = variant::kFloat;
  if (real) call.rows = std::move(from), call.row_offsets = std::move(to);
  for (const Lease* side : {&landing_lease_, &arena_}) {
    View view;
    view.memory = *side;
    view.shape = {static_cast<std::uint32_t>(kept / run_), static_cast<std::uint32_t>(run_ / sizeof(float)), 0};
    if (side == &landing_lease_)
      call.in.push_back(std::move(view));
    else
      call.out.push_back(std::move(view));
  }
  return call;
}

void NeuronStore::copied(const std::vector<Landed>& landed) {
  for (const Landed& part : landed) landing_->give_back(part.at, part.bytes);
}

View NeuronStore::view(Matrix matrix) const {
  View view;
  view.memory = arena_;
  view.offset = layout_.kept_before(matrix == Matrix::gate ? layout_.gate : matrix == Matrix::up ? layout_.up : layout_.down);
  if (layout_.stripes > 1) view.offset += stripe_offset(static_cast<std::uint32_t>(matrix));
  view.shape = {layout_.neurons, layout_.width, 0};
  view.format = layout_.format;
  return view;
}

void NeuronStore::add_scales(KernelCall& call, Matrix matrix, std::int16_t layer, std::int16_t expert) const {
  if (scales_.empty()) return;
  const auto l = static_cast<std::size_t>(layer - first_layer_);
  View view;
  view.memory = scale_leases_[l];
  view.shape = {call.in[0].shape[0], scales_[l].columns, 0};
  view.format = scales_[l].format;
  const Bytes of_matrix = scales_[l].matrix_bytes() / 3;
  view.offset = (expert < 0 ? 0 : static_cast<Bytes>(expert)) * scales_[l].matrix_bytes() + static_cast<Bytes>(matrix) * of_matrix;
  call.in.push_back(std::move(view));
}

std::string NeuronStore::describe(std::uint32_t block) const {
  const std::uint32_t ffn = block / layout_.blocks();
  const std::string expert = experts_ > 1 ? fmt::format(" expert {}", ffn % experts_) : "";
  return fmt::format("layer {}{} block {}", ffn / experts_ + static_cast<std::uint32_t>(first_layer_), expert, block % layout_.blocks());
}

}  // namespace vitro
