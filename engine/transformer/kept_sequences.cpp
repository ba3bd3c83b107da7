#include "engine/transformer/kept_sequences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace vitro {

KeptSequences::KeptSequences(Machine* machine, Transformer* model, KeptIn where, const std::map<std::string, std::uint32_t>& longest)
    : machine_(*machine), model_(*model), where_(where) {
  const KvCache& kv = model_.kv();
  BlocksInFile place;
  place.parts = kv.tables();
  place.unit = kv.block_bytes() / place.parts;
  for (const auto& [name, positions] : longest) {
    place.capacity = (positions + kv.shape().block_tokens - 1) / kv.shape().block_tokens;
    kept_[name].place = place;
    place.offset += place.capacity * kv.block_bytes();
  }
  if (where_ == KeptIn::dram || place.offset == 0) return;
  Result<FileId> file = machine_.storage.create_scratch(place.offset);
  if (!file.ok()) {
    throw RunError(fmt::format("workload.kept_in: the file of {} for kept keys and values can not be made: {}", format_bytes(place.offset),
                               file.status().message));
  }
  if (model_.kv_checksums()) sums_.emplace(machine_, place.offset / place.unit, place.unit);
  for (auto& [name, kept] : kept_) {
    kept.place.file = file.value();
    kept.place.sums = sums_ ? &*sums_ : nullptr;
  }
}

Task<KeptSequence> KeptSequences::resume(std::string name, bool replaces) {
  Kept& kept = kept_.at(name);
  VITRO_CHECK(kept.there, "a sequence goes on that nobody kept");
  KvCache& kv = model_.kv();
  if (where_ == KeptIn::dram) {
    if (!replaces) co_return KeptSequence{kv.fork(kept.sequence.sequence), kept.sequence.next};
    kept.there = false;
    co_return kept.sequence;
  }
  const KeptSequence copy{kv.create(kept.adapter), kept.sequence.next};
  co_await read_blocks(&machine_, &model_, copy.sequence, kept.length, kept.first, kept.place);
  co_return copy;
}

Task<void> KeptSequences::keep(std::string name, KeptSequence ended, bool grown) {
  Kept& kept = kept_.at(name);
  KvCache& kv = model_.kv();
  if (where_ == KeptIn::dram) {
    if (kept.there) kv.release(kept.sequence.sequence);
    if (KvFlash* const flash = model_.kv_tier()) co_await flash->put_away(ended.sequence);
  } else {
    const std::uint32_t same = grown && kept.there ? kept.length / kv.shape().block_tokens : 0;  // full blocks do not change
    co_await write_blocks(&machine_, &model_, ended.sequence, same, kept.place);
    kept.adapter = kv.adapter(ended.sequence);
    kept.length = kv.length(ended.sequence);
    kept.first = first_block_of(kv, ended.sequence);
    kv.release(ended.sequence);
  }
  kept.sequence = ended;
  kept.there = true;
}

std::string KeptSequences::in_dram() const {
  std::vector<std::string> all;
  if (where_ == KeptIn::flash) return "";
  for (const auto& [name, kept] : kept_) {
    if (kept.there) all.push_back(fmt::format("\"{}\" of {} positions", name, model_.kv().length(kept.sequence.sequence)));
  }
  return all.empty() ? "" : fmt::format("{} kept sequences, {}", all.size(), fmt::join(all, ", "));
}

}  // namespace vitro
