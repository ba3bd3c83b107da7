// A Function that answers from a recording instead of computing.
#pragma once
#include "engine/machine/function.hpp"
#include "traces/recording.hpp"

namespace vitro {

// A select of the predictor gets what fired, as from a perfect one, where the recording knows all neurons. Where only named ones were
// looked at (Recording::kLookedAt), it gets those: the recorded run goes again as it went.
// Thread-safe: it only reads. Calls without an outcome do nothing. A question that the recording can not answer is a
// RunError that names the key: the replayed run went where the recorded one never was.
class ReplayFunction final : public Function {
 public:
  explicit ReplayFunction(Recording recording);
  Outcome execute(const KernelCall& call) override;
  const Recording& recording() const { return recording_; }

 private:
  const Recording recording_;
  bool names_again_ = false;
};

}  // namespace vitro
