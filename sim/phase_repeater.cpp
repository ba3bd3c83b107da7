#include "sim/phase_repeater.hpp"

#include <algorithm>
#include <bit>
#include <variant>

#include "sim/core.hpp"
#include "sim/unit.hpp"

namespace vitro::sim {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::uint64_t word(Picoseconds time) { return static_cast<std::uint64_t>(time.count()); }

}  // namespace

bool PhaseRepeater::Start::operator==(const Start& other) const {
  return hash == other.hash && count == other.count && numbers == other.numbers &&
         std::equal(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(count), other.calls.begin());
}

// Chains of this waiter are about to begin, and nothing else is under way: whatever it is, a transfer or a task that sleeps, it has an
// event in the queue, and so has each of the units.
bool PhaseRepeater::only_this_waits(std::coroutine_handle<> waiter) {
  if (!parts_.executor.settled() || parts_.meter.storage_outstanding() > 0) return false;
  std::size_t begins = 0;
  for (const auto& unit : parts_.units) {
    if (unit->idle()) continue;
    if (!unit->about_to_begin(waiter)) return false;
    ++begins;
  }
  return begins > 0 && parts_.executor.queue().size() == begins;
}

void PhaseRepeater::describe() {
  const Picoseconds now = parts_.executor.device_now(), zero{0};
  std::vector<std::uint64_t>& numbers = start_.numbers;
  numbers.clear();
  start_.count = 0;
  numbers.push_back(word(std::max(parts_.executor.policy_free() - now, zero)));
  for (const auto& core : parts_.cores) numbers.push_back(word(std::max(core->system_free() - now, zero)));
  std::uint64_t sum = 0;
  const auto add = [&sum](std::uint64_t number) { sum = (std::rotl(sum, 9) ^ number) * 0x9e3779b97f4a7c15ull; };
  for (const auto& unit : parts_.units) {
    if (unit->idle()) continue;
    const Chain& chain = unit->next_chain();
    numbers.push_back(std::uint64_t{chain.size()} << 16 | static_cast<std::uint64_t>(unit->caps().id));
    numbers.push_back(word(unit->begins() - now));
    numbers.push_back(std::bit_cast<std::uint64_t>(unit->core().model().clock().value));
    for (const KernelCall& call : chain) {
      if (start_.count == start_.calls.size()) start_.calls.emplace_back();
      Call& its = start_.calls[start_.count++];
      its = {kind_of(call.op), unit->price(call)};
      add(its.work.read_bytes ^ std::uint64_t{its.work.columns} << 40);
      add(its.work.elementwise ^ std::uint64_t{its.work.row_runs} << 40);
    }
  }
  for (const std::uint64_t number : numbers) add(number);
  start_.hash = sum;
}

PhaseRepeater::Known* PhaseRepeater::find() {
  for (Known& known : known_) {
    if (known.valid && known.start == start_) return &known;
  }
  return nullptr;
}

PhaseRepeater::Known& PhaseRepeater::oldest() { return *std::ranges::min_element(known_, {}, &Known::used); }

bool PhaseRepeater::submitted(std::coroutine_handle<> waiter) {
  if (!only_this_waits(waiter)) return false;
  describe();
  steady_until_ = parts_.power != nullptr ? parts_.power->steady_until() : Picoseconds::max();
  Known* known = find();
  if (known != nullptr) {
    if (steady_until_ <= parts_.executor.device_now() + known->now) return false;
    known->used = ++clock_;
    replay(*known);
    ++repeated_;
    return true;
  }
  known = &oldest();
  std::swap(known->start, start_);
  known->valid = false;
  known->used = ++clock_;
  known->posts = parts_.executor.posts();
  known->record.steps.clear();
  known->record.begin = parts_.executor.device_now();
  known->record.failed = false;
  recording_ = known;
  parts_.accounting.record_to(&known->record);
  parts_.dram.listen(&parts_.accounting);
  return false;
}

void PhaseRepeater::ended() {
  if (recording_ == nullptr) return;
  Known& known = *std::exchange(recording_, nullptr);
  parts_.accounting.record_to(nullptr);
  parts_.dram.listen(nullptr);
  const Picoseconds now = parts_.executor.device_now(), begin = known.record.begin;
  const bool steady = parts_.power == nullptr || (parts_.power->steady_until() == steady_until_ && now < steady_until_);
  known.valid = !known.record.failed && steady && parts_.executor.settled() && parts_.executor.queue().empty() &&
                std::ranges::all_of(parts_.units, [](const auto& unit) { return unit->idle(); });
  known.now = now - begin;
  known.policy_free = parts_.executor.policy_free() - begin;
  known.posts = parts_.executor.posts() - known.posts;
}

void PhaseRepeater::replay(const Known& known) {
  const Picoseconds begin = parts_.executor.device_now();
  const auto repeat = Overloaded{
      [&](const PhaseRecord::Event& s) { parts_.executor.replay(begin + s.at, s.label); },
      [&](const PhaseRecord::KernelBegins& s) { parts_.accounting.kernel_begins(s.processor); },
      [&](const PhaseRecord::ChainEnds& s) { parts_.units[s.unit]->replay_end(); },
      [&](const PhaseRecord::CallEnds& s) {
        PhaseRecord::CallEnds call = s;
        call.began += begin;
        parts_.accounting.call_ends(call);
      },
      [&](const PhaseRecord::Draws& s) { parts_.accounting.draws(s.processor, s.cause, s.seconds, s.computed); },
      [&](const PhaseRecord::CoreTaken& s) { parts_.cores[s.processor]->system_work(s.kind, begin + s.from, s.duration); },
      [&](const PhaseRecord::Executes& s) { parts_.units[s.unit]->replay_call(s.call); },
      [&](const PhaseRecord::MemoryRate& s) { parts_.dram.set_rate(s.bytes_per_second); },
      [&](const PhaseRecord::MemoryMoved& s) { parts_.dram.count(s.read, s.written); },
  };
  while (!parts_.executor.queue().empty()) parts_.executor.queue().pop();  // units begin as recorded
  for (const PhaseRecord::Step& step : known.record.steps) std::visit(repeat, step);
  parts_.executor.hold_policy_until(begin + known.policy_free);
  parts_.executor.count_posts(known.posts);
}

}  // namespace vitro::sim
