#include "engine/transformer/embedding_rows.hpp"

#include <fmt/format.h>

namespace vitro {

EmbeddingRows::EmbeddingRows(Machine& machine, Weight embedding, std::uint32_t max_rows, UnitId issuer)
    : machine_(machine), embedding_(std::move(embedding)), issuer_(issuer) {
  const Bytes row = embedding_.matrix_bytes() / embedding_.rows;
  Result<Lease> lease = machine.memory.lease(max_rows * row, Placement::dram, Region::staging);
  if (!lease.ok()) throw ConfigError(fmt::format("memory.budget: no room for rows of the embedding: {}", lease.status().message));
  rows_ = std::move(lease).value();
}

Task<void> EmbeddingRows::read(const std::vector<std::int32_t>* tokens) {
  const Bytes row = embedding_.matrix_bytes() / embedding_.rows;
  TaskScope scope(machine_.executor);
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    VITRO_CHECK(static_cast<std::uint32_t>((*tokens)[i]) < embedding_.rows, "a token beyond the vocabulary");
    scope.spawn(read_row(static_cast<Bytes>((*tokens)[i]) * row, i * row));
  }
  co_await scope.join();
}

Task<void> EmbeddingRows::read_row(Bytes from, Bytes into) {
  ReadRequest request;
  request.from = {embedding_.extent.file, embedding_.extent.offset + from, embedding_.matrix_bytes() / embedding_.rows};
  request.into = rows_;
  request.into_offset = into;
  request.issuer = issuer_;
  const IoResult result = co_await machine_.storage.read(std::move(request));
  if (!result.status.ok()) throw RunError(fmt::format("reading a row of {}: {}", embedding_.name, result.status.message));
}

View EmbeddingRows::table(std::uint32_t rows) const {
  View view;
  view.memory = rows_;
  view.shape = {rows, embedding_.columns, 0};
  view.format = embedding_.format;
  return view;
}

}  // namespace vitro
