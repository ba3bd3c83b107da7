// A Function that answers from a recording instead of computing.
#pragma once
#include <atomic>
#include <optional>

#include "engine/machine/function.hpp"
#include "traces/recording.hpp"

namespace vitro {

// How well routers foresee that were not asked ahead when the recording was made.
struct RouterForesight {
  std::optional<double> share;  // of the experts that a row chooses (DrawProfile::expert_foresight); none: nobody knows
  std::uint64_t seed = 0;
};

// A select of the predictor gets what fired, as from a perfect one, where the recording knows all neurons. Where only named ones were
// looked at (Recording::kLookedAt), it gets those: the recorded run goes again as it went.
// A router that is asked a layer ahead (kForeseen) names what it named in the recorded run. Where that run did not ask it, it names the
// recorded experts as RouterForesight says, and the notes say how often; without a share to go by it names none.
// Thread-safe: it only reads and counts. Calls without an outcome do nothing. A question that the recording can not answer is a
// RunError that names the key: the replayed run went where the recorded one never was.
class ReplayFunction final : public Function {
 public:
  explicit ReplayFunction(Recording recording, RouterForesight foresight = {});
  Outcome execute(const KernelCall& call) override;
  std::vector<std::string> notes() const override;
  const Recording& recording() const { return recording_; }

 private:
  std::vector<ExpertChoice> foreseen(const KernelCall& call);

  const Recording recording_;
  const RouterForesight foresight_;
  bool names_again_ = false;
  std::atomic<std::uint64_t> asked_ahead_{0}, not_recorded_{0};  // rows
};

}  // namespace vitro
