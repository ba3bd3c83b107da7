#include "hw_models/ufs/write_path.hpp"

#include <algorithm>
#include <limits>

#include "engine/base/check.hpp"

namespace vitro::hw {
namespace {

enum Kind : std::uint16_t { kQuiet = 64 };

// Behind every command of the host on the channels.
constexpr std::uint64_t kBackground = std::numeric_limits<std::uint64_t>::max();

}  // namespace

WritePath::WritePath(Context& context, std::uint16_t device, NandArray& nand, Ftl& ftl, const WriteSpec& spec)
    : context_(context), device_(device), nand_(nand), ftl_(ftl), spec_(spec) {}

void WritePath::reserve(std::uint32_t sectors, std::function<void()> granted) {
  VITRO_CHECK(sectors <= spec_.memory, "a command fits into the write memory");
  if (!waiting_.empty() || used_ + sectors > spec_.memory) return waiting_.emplace_back(sectors, std::move(granted)), void();
  used_ += sectors;
  granted();
}

void WritePath::store(std::uint64_t first, std::uint32_t sectors) {
  for (std::uint64_t sector = first; sector < first + sectors; ++sector) {
    unplaced_.push_back(sector);
    ++held_[sector];
  }
  pump();
}

void WritePath::pump() {
  const std::uint32_t stripe = ftl_.spec().stripe;
  while (unplaced_.size() >= stripe) {
    const Pool pool = ftl_.has_room(Pool::slc, 0) ? Pool::slc : Pool::tlc;
    // What is moved shares the open superblock: when space is short it comes first, or it could find none.
    const bool short_of_space = ftl_.free(Pool::tlc) <= spec_.reserve;
    if (pool == Pool::tlc && short_of_space && (move_.active || !ftl_.has_room(Pool::tlc, spec_.reserve))) break;
    std::vector<std::uint64_t> sectors(unplaced_.begin(), unplaced_.begin() + stripe);
    unplaced_.erase(unplaced_.begin(), unplaced_.begin() + stripe);
    (pool == Pool::slc ? totals_.to_slc : totals_.to_tlc) += stripe;
    program(pool, std::move(sectors), Use::host_program);
  }
  if (move_.active)
    move_on();
  else
    start_moves();
}

void WritePath::program(Pool pool, std::vector<std::uint64_t> sectors, Use use) {
  const Ftl::Place place = ftl_.append(pool, sectors);
  NandOperation operation;
  operation.kind = NandOperation::Kind::program;
  operation.die = ftl_.die(place);
  operation.sectors = static_cast<std::uint32_t>(sectors.size());
  operation.program = pool == Pool::slc ? spec_.slc_program : spec_.program;
  run(operation, {use, std::move(sectors)});
}

void WritePath::run(const NandOperation& operation, Batch batch) {
  NandOperation mine = operation;
  mine.order = kBackground;
  mine.client = this;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(batches_.size()));
    batches_.emplace_back();
  }
  mine.tag = free_.back();
  free_.pop_back();
  batches_[mine.tag] = std::move(batch);
  nand_.submit(mine);
}

void WritePath::operation_done(std::uint64_t tag) {
  const Batch batch = std::move(batches_[tag]);
  free_.push_back(static_cast<std::uint32_t>(tag));
  switch (batch.use) {
    case Use::host_program:
      for (const std::uint64_t sector : batch.sectors) {
        if (--held_.at(sector) == 0) held_.erase(sector);
      }
      used_ -= static_cast<std::uint32_t>(batch.sectors.size());
      while (!waiting_.empty() && used_ + waiting_.front().first <= spec_.memory) {
        const auto [sectors, granted] = std::move(waiting_.front());
        waiting_.pop_front();
        used_ += sectors;
        granted();
      }
      break;
    case Use::move_read:
      --move_.reads;
      move_.gathered.insert(move_.gathered.end(), batch.sectors.begin(), batch.sectors.end());
      break;
    case Use::move_program:
      --move_.programs;
      break;
    case Use::erase:
      --move_.erases;
      break;
  }
  pump();
}

// Garbage collection when free superblocks run out, whatever the host does; folding only while it is quiet.
void WritePath::start_moves() {
  if (move_.active) return;
  std::optional<std::uint32_t> victim;
  if (ftl_.free(Pool::tlc) <= spec_.reserve)
    victim = ftl_.take_victim(Pool::tlc);
  else if (quiet_)
    victim = ftl_.take_victim(Pool::slc);
  if (!victim) return;
  move_ = {};
  move_.active = true;
  move_.victim = *victim;
  move_on();
}

// Reads the valid sectors of the next stripe that has any; false when there is none left.
bool WritePath::gather() {
  const std::uint32_t stripe = ftl_.spec().stripe;
  while (move_.next < ftl_.sectors_of(move_.victim)) {
    std::vector<std::uint64_t> sectors = ftl_.valid_sectors(move_.victim, move_.next, stripe);
    NandOperation operation;
    operation.die = ftl_.die({move_.victim, move_.next});
    move_.next += stripe;
    if (sectors.empty()) continue;
    operation.sectors = static_cast<std::uint32_t>(sectors.size());
    ++move_.reads;
    run(operation, {Use::move_read, std::move(sectors)});
    return true;
  }
  return false;
}

void WritePath::write_gathered(bool all) {
  const std::uint32_t victim = move_.victim;
  std::erase_if(move_.gathered, [&](std::uint64_t sector) { return ftl_.find(sector).superblock != victim; });  // overwritten since
  const std::uint32_t stripe = ftl_.spec().stripe;
  while (move_.gathered.size() >= stripe || (all && !move_.gathered.empty())) {
    const auto end = move_.gathered.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(stripe, move_.gathered.size()));
    std::vector<std::uint64_t> sectors(move_.gathered.begin(), end);
    move_.gathered.erase(move_.gathered.begin(), end);
    (ftl_.pool(victim) == Pool::slc ? totals_.folded : totals_.collected) += sectors.size();
    ++move_.programs;
    program(Pool::tlc, std::move(sectors), Use::move_program);
  }
}

void WritePath::move_on() {
  if (move_.erasing) {
    if (move_.erases > 0) return;
    ftl_.erased(move_.victim);
    ++totals_.erased;
    move_ = {};
    return pump();
  }
  write_gathered(false);
  // Folding gives way to the host, unless the host itself waits for the collection that comes after.
  const bool paused = ftl_.pool(move_.victim) == Pool::slc && !quiet_ && ftl_.free(Pool::tlc) > spec_.reserve;
  bool more = true;
  while (!paused && more && move_.reads + move_.programs < 2 * ftl_.spec().dies) more = gather();
  if (move_.reads > 0 || move_.next < ftl_.sectors_of(move_.victim)) return;
  write_gathered(true);
  if (move_.programs > 0) return;
  move_.erasing = true;
  move_.erases = ftl_.spec().dies;
  for (std::uint32_t die = 0; die < ftl_.spec().dies; ++die) {
    NandOperation operation;
    operation.kind = NandOperation::Kind::erase;
    operation.die = die;
    run(operation, {Use::erase, {}});
  }
}

void WritePath::host_active() {
  quiet_ = false;
  ++quiet_since_;
}

void WritePath::host_quiet() {
  const std::uint64_t since = ++quiet_since_;
  // Without anything to fold the timer would only keep the simulation going.
  if (ftl_.free(Pool::slc) + 1 >= ftl_.spec().slc_superblocks) return;
  context_.at(context_.now() + spec_.quiet, {device_, kQuiet}, [this, since] {
    if (since != quiet_since_) return;
    quiet_ = true;
    if (move_.active)
      move_on();
    else
      start_moves();
  });
}

}  // namespace vitro::hw
