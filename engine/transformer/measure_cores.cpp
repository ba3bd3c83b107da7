// Calibration of the cores' balance through the machine interface: the same code measures real cores and simulated ones.
#include <algorithm>

#include "engine/graph/operator_graph.hpp"
#include "engine/transformer/transformer.hpp"

namespace vitro {
namespace {

constexpr int kRounds = 5;                               // each with the shares that the one before learned; the first one's are even
constexpr Picoseconds kRound{30'000'000'000};            // long beside a scheduler's interruptions
constexpr int kMostRepetitions = 600, kRepetitions = 2;  // of a phase, in a round

// A phase whose matrices are cut by rows and which leaves keys, values and experts alone.
bool tells_rates(const Phase& phase, const OperatorGraph& graph, BlockKind kind) {
  if (phase.block != kind || phase.attends || phase.routed || phase.whole_ffn) return false;
  bool products = false;
  for (const OperatorGroup& group : phase.groups) {
    for (const OperatorId id : group.operators) {
      if (graph[id].is<ops::KvAppend, ops::Embed, ops::Route>()) return false;
      products = products || (group.split == Split::rows && graph[id].is<ops::Matmul>());
    }
  }
  return products;
}

}  // namespace

Task<void> Transformer::measure_cores() {
  CoreBalance* const balance = placement_.balance();
  if (balance == nullptr) co_return;
  for (const std::uint32_t rows : {1u, options_.max_rows}) {
    StepContext step;
    std::vector<SeqPos> all(rows);
    for (std::uint32_t i = 0; i < rows; ++i) all[i].position = i;
    step.rows = std::make_shared<const std::vector<SeqPos>>(all);
    step.sampled = std::make_shared<const std::vector<SeqPos>>(1, all.front());
    step.choose = false;
    for (const BlockKind kind : {BlockKind::attention, BlockKind::ffn, BlockKind::head}) {
      const auto phase = std::ranges::find_if(phases_, [&](const Phase& p) { return tells_rates(p, graph_, kind); });
      if (phase != phases_.end()) co_await learn_balance(&*phase, &step);
    }
    if (options_.max_rows <= options_.products.decode_rows) break;
  }
  balance->settle();
}

Task<void> Transformer::learn_balance(const Phase* phase, const StepContext* step) {
  const auto rows = static_cast<std::uint32_t>(step->rows->size());
  CoreBalance& balance = *placement_.balance();
  for (int round = 0; round < kRounds || (round == kRounds && balance.leave_out_slowest(phase->block, rows)); ++round) {
    const Shares shares = placement_.shares(phase->block, rows, false);
    std::vector<double> seconds(placement_.cores().size());
    std::vector<Picoseconds> taken;
    const Picoseconds begin = machine_.clock.now();
    int phases = 0;
    for (; phases < kRepetitions || (phases < kMostRepetitions && machine_.clock.now() - begin < kRound); ++phases) {
      co_await runner_.run(builder_.build(*phase, *step, shares), units_, &taken);
      for (std::size_t core = 0; core < seconds.size(); ++core) seconds[core] += to_seconds(taken[core]);
    }
    balance.learn(phase->block, rows, seconds, to_seconds(machine_.clock.now() - begin) / phases);
  }
}

}  // namespace vitro
