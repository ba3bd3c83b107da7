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
  if (!m_.executor.settled() || m_.meter.storage_outstanding() > 0) return false;
  std::size_t begins = 0;
  for (const auto& unit : m_.units) {
    if (unit->idle()) continue;
    if (!unit->about_to_begin(waiter)) return false;
    ++begins;
  }
  return begins > 0 && m_.executor.queue().size() == begins;
}

void PhaseRepeater::describe() {
  const Picoseconds now = m_.executor.device_now(), zero{0};
  std::vector<std::uint64_t>& numbers = start_.numbers;
  numbers.clear();
  start_.count = 0;
  numbers.push_back(word(std::max(m_.executor.policy_free() - now, zero)));
  for (const auto& core : m_.cores) numbers.push_back(word(std::max(core->system_free() - now, zero)));
  std::uint64_t sum = 0;
  const auto add = [&sum](std::uint64_t number) { sum = (std::rotl(sum, 9) ^ number) * 0x9e3779b97f4a7c15ull; };
  for (const auto& unit : m_.units) {
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
  steady_until_ = m_.power != nullptr ? m_.power->steady_until() : Picoseconds::max();
  Known* known = find();
  if (known != nullptr) {
    if (steady_until_ <= m_.executor.device_now() + known->now) return false;
    known->used = ++clock_;
    play(*known);
    ++repeated_;
    return true;
  }
  known = &oldest();
  std::swap(known->start, start_);
  known->valid = false;
  known->used = ++clock_;
  known->posts = m_.executor.posts();
  known->tape.steps.clear();
  known->tape.begin = m_.executor.device_now();
  known->tape.whole = true;
  recording_ = known;
  m_.books.record(&known->tape);
  m_.dram.listen(&m_.books);
  return false;
}

void PhaseRepeater::ended() {
  if (recording_ == nullptr) return;
  Known& known = *std::exchange(recording_, nullptr);
  m_.books.record(nullptr);
  m_.dram.listen(nullptr);
  const Picoseconds now = m_.executor.device_now(), begin = known.tape.begin;
  const bool steady = m_.power == nullptr || (m_.power->steady_until() == steady_until_ && now < steady_until_);
  known.valid = known.tape.whole && steady && m_.executor.settled() && m_.executor.queue().empty() &&
                std::ranges::all_of(m_.units, [](const auto& unit) { return unit->idle(); });
  known.now = now - begin;
  known.policy_free = m_.executor.policy_free() - begin;
  known.posts = m_.executor.posts() - known.posts;
}

void PhaseRepeater::play(const Known& known) {
  const Picoseconds begin = m_.executor.device_now();
  const auto tell = Overloaded{
      [&](const Tape::Event& s) { m_.executor.play(begin + s.at, s.label); },
      [&](const Tape::KernelBegins& s) { m_.books.kernel_begins(s.processor); },
      [&](const Tape::ChainEnds& s) { m_.units[s.unit]->end_again(); },
      [&](const Tape::CallEnds& s) {
        m_.books.call_ends(s.processor, {begin + s.began, s.computed, s.written, s.weights, s.others});
      },
      [&](const Tape::Draws& s) { m_.books.draws(s.processor, s.cause, s.seconds, s.computed); },
      [&](const Tape::Works& s) { m_.cores[s.processor]->system_work(s.kind, begin + s.from, s.duration); },
      [&](const Tape::Executes& s) { m_.units[s.unit]->execute_again(s.call); },
      [&](const Tape::MemoryRate& s) { m_.dram.set_rate(s.bytes_per_second); },
      [&](const Tape::MemoryMoved& s) { m_.dram.count(s.read, s.written); },
  };
  while (!m_.executor.queue().empty()) m_.executor.queue().pop();  // the units begin from the tape
  for (const Tape::Step& step : known.tape.steps) std::visit(tell, step);
  m_.executor.hold_policy_until(begin + known.policy_free);
  m_.executor.count_posts(known.posts);
}

}  // namespace vitro::sim
