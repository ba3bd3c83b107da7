#include "traces/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "engine/ops/contract.hpp"
#include "traces/draw_keys.hpp"
#include "traces/foresight.hpp"
#include "traces/recording.hpp"

namespace vitro {
namespace {

constexpr std::size_t kStretches = 2048;  // streams: 32 layers of 8 experts, truth and guesses, for four sequences

constexpr std::uint64_t kMostInVain = 64;  // answers drawn ahead beyond two for each that was asked for: the workload is not as expected

std::uint32_t last_dimension(const KernelCall& call, std::string_view what) {
  if (call.in.empty() || call.in[0].shape[1] == 0) {
    throw RunError(fmt::format("{}: the operand has no {} to draw from", to_string(call.op), what));
  }
  return call.in[0].shape[1];
}

// Of a row's active neurons, those that the call asks for.
IndexList asked_of(const Bits& bits, const KernelCall& call, std::uint32_t neurons) {
  if (call.rows == nullptr) {
    const auto [first, end] = slice_range(call);
    return std::make_shared<std::vector<std::uint32_t>>(indices(bits, first, std::min(end, neurons)));
  }
  // Without branches: which of the rows fire is as good as random.
  auto ids = std::make_shared<std::vector<std::uint32_t>>(call.rows->size());
  VITRO_CHECK(call.rows->empty() || call.rows->back() < neurons, "rows that the operand does not have");
  std::uint32_t* next = ids->data();
  const std::uint64_t* const words = bits.data();
  for (const std::uint32_t neuron : *call.rows) {
    *next = neuron;
    next += words[neuron / 64] >> neuron % 64 & 1;
  }
  ids->resize(static_cast<std::size_t>(next - ids->data()));
  return ids;
}

}  // namespace

DrawFunction::DrawFunction(DrawProfile profile, std::uint64_t seed)
    : profile_(std::move(profile)),
      seed_(seed),
      experts_(profile_, seed),
      neurons_(profile_, seed),
      asked_for_{KeptDraws::By::asked, StretchTable(kStretches)},
      foreseen_{KeptDraws::By::ahead, StretchTable(kStretches)},
      ahead_([this](const LayerAhead::Step& step) { return draw_ahead(step); }) {
  check(profile_);
}

IndexBits DrawFunction::drawn(const NeuronKey& key, Drawer& drawer) {
  if (IndexBits known = kept_.find(key, drawer.who)) return known;
  NeuronKey truth = key;
  truth.guess = false;
  auto made = std::make_shared<const Bits>(key.guess ? neurons_.guesses(key, *drawn(truth, drawer), drawer.stretches)
                                                     : neurons_.fires(key, drawer.stretches));
  kept_.keep(key, made, drawer.who);
  return made;
}

// -> whether it was worth it so far.
bool DrawFunction::draw_ahead(const LayerAhead::Step& step) {
  const std::uint32_t neurons = asked_.neurons;
  const bool guesses = asked_.guesses;
  const std::size_t answers = step.rows.size() * (step.router ? step.router->k : 1) * (guesses ? 2 : 1);
  if (neurons == 0 || answers > KeptDraws::kMost / 4) return true;  // this layer's and the next one's are kept with places to spare
  const auto draw = [&](std::int16_t expert, SeqPos at) { drawn({step.layer, expert, neurons, at, guesses}, foreseen_); };
  std::vector<ExpertChoice> chosen;
  if (step.router) chosen = experts_.choices({step.layer, step.experts, *step.router}, step.rows);
  for (std::size_t row = step.rows.size(); row-- > 0;) {  // back to front: whoever asks before it is done begins at the front
    if (!step.router) {
      draw(-1, step.rows[row]);
      continue;
    }
    for (const std::uint16_t expert : chosen[row].ids) draw(static_cast<std::int16_t>(expert), step.rows[row]);
  }
  const KeptDraws::Ahead counts = kept_.ahead();
  return counts.kept <= 2 * counts.found + answers + kMostInVain;
}

bool DrawFunction::guessed(const KernelCall& call) const {
  const PredictorProfile& predictor = profile_.predictor;
  return call.is<ops::Select>() && call.get<ops::Select>().of == SelectOf::predictor && (predictor.recall < 1 || predictor.precision < 1);
}

ActiveSet DrawFunction::active(const KernelCall& call) {
  const std::uint32_t neurons = last_dimension(call, "neurons");
  const bool guess = guessed(call);
  asked_.neurons.store(neurons, std::memory_order_relaxed);
  if (guess) asked_.guesses.store(true, std::memory_order_relaxed);
  if (call.expert < 0) ahead_.enter(call, 0);
  ActiveSet active;
  active.rows.reserve(call.batch->size());
  active.bits.reserve(call.batch->size());
  for (const SeqPos at : *call.batch) {
    IndexBits all = [&] {
      const std::lock_guard lock(drawing_);  // who asks at the same time mostly wants the same answer
      return drawn({call.layer, call.expert, neurons, at, guess}, asked_for_);
    }();
    active.rows.push_back(asked_of(*all, call, neurons));
    active.bits.push_back(std::move(all));
  }
  return active;
}

std::vector<ExpertChoice> DrawFunction::route(const KernelCall& call) {
  const std::uint32_t experts = last_dimension(call, "experts");
  std::vector<ExpertChoice> choices = experts_.choices({call.layer, experts, call.get<ops::Route>()}, *call.batch);
  if (call.expert != kForeseen) {
    ahead_.enter(call, experts);
    return choices;
  }
  for (std::size_t row = 0; row < choices.size(); ++row) {
    choices[row] = foresee(choices[row], profile_.expert_foresight, {seed_, call.layer, (*call.batch)[row], experts});
  }
  return choices;
}

TokenChoice DrawFunction::sample(const KernelCall& call) const {
  const std::uint32_t vocab = last_dimension(call, "tokens");
  TokenChoice choice;
  for (const SeqPos at : *call.batch) {
    choice.tokens.push_back(static_cast<std::int32_t>(mix(seed_, {kToken, at.sequence, at.position}) % vocab));
  }
  return choice;
}

Outcome DrawFunction::execute(const KernelCall& call) {
  const bool fires = reports_active(call);
  if (!fires && !call.is<ops::Route>() && !call.is<ops::Sample>()) return {};
  VITRO_CHECK(call.batch != nullptr, "a call with an outcome needs a batch");
  if (call.is<ops::Route>()) return route(call);
  if (call.is<ops::Sample>()) return sample(call);
  return active(call);
}

}  // namespace vitro
