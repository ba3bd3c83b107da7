// EmbeddingRows: the token embedding left in flash, of which a step needs one row per token (MNN-LLM, section 4.1).
#pragma once
#include <vector>

#include "engine/machine/machine.hpp"
#include "engine/model/weights.hpp"

namespace vitro {

class EmbeddingRows {
 public:
  // Room for the rows of one step. Throws ConfigError when the budget has none. Requires: Layout::rows.
  EmbeddingRows(Machine& machine, Weight embedding, std::uint32_t max_rows, UnitId issuer);

  // Reads the rows of `tokens`, one request each, all at once. Throws RunError on a read error.
  Task<void> read(const std::vector<std::int32_t>* tokens);
  // The rows read last, as a table in the order of the tokens.
  View table(std::uint32_t rows) const;

 private:
  Task<void> read_row(Bytes from, Bytes into);

  Machine& machine_;
  Weight embedding_;
  UnitId issuer_;
  Lease rows_;
};

}  // namespace vitro
