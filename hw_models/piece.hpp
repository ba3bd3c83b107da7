// PieceModel: what a compute model offers beside ComputeModel when it can take the calls of a chain as one piece.
#pragma once
#include <span>

#include "hw_models/callback.hpp"
#include "hw_models/compute.hpp"

namespace vitro::hw {

class PieceModel {
 public:
  virtual ~PieceModel() = default;

  // A piece is calls that follow one another, of which nobody waits for one before the last. Each takes what submit() has for it while
  // memory gives the unit all that it can take; their bytes are one request, so what others take of memory holds them up as one.
  // Adds a call to the next piece. Returns how long the piece would take so far, if memory did. Requires: no call is in progress.
  virtual Picoseconds add_to_piece(const Work& call) = 0;
  // `done` runs as an event at the end. Requires: a call was added.
  virtual void submit_piece(Callback done) = 0;

  struct Part {
    Picoseconds end{0};       // since the first began, had memory given the unit all that it can take
    Picoseconds computed{0};  // as ComputeModel::computed()
  };
  virtual std::span<const Part> parts() const = 0;  // of the piece, by call; valid until one is added to the next
};

}  // namespace vitro::hw
