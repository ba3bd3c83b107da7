#include "engine/transformer/saved_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/base/file.hpp"
#include "engine/base/hash.hpp"
#include "engine/quant/kv_rows.hpp"
#include "engine/transformer/kv_transfer.hpp"

namespace vitro {
namespace {

constexpr std::array<char, 8> kMagic{'v', 'i', 't', 'r', 'o', '.', 'k', 'v'};
constexpr std::uint32_t kVersion = 1, kMostTokens = 1u << 24, kMostOf = 1u << 16;

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion, layers = 0, heads = 0, head_dim = 0, block_tokens = 0, format = 0, length = 0, first_block = 0;
  std::uint64_t model = 0, contracts = 0, slices = 0, header = 0;  // checksums of the slices, and of header and tokens
};
static_assert(sizeof(Header) == 72);

void add_words(Hash& hash, std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash.add(word);
  }
}

std::uint64_t hash_header(Header header, std::span<const std::int32_t> tokens) {
  header.header = 0;
  Hash hash;
  hash.add(std::as_bytes(std::span(&header, 1)));
  hash.add(std::as_bytes(tokens));
  return hash.value();
}

std::uint32_t format_number(Format format) {
  return static_cast<std::uint32_t>(std::ranges::find(kKvFormats, format) - kKvFormats.begin());
}

[[noreturn]] void refuse(const std::string& path, std::string_view problem) {
  throw ConfigError(fmt::format("workload.restore_kv: {}: {}", path, problem));
}

}  // namespace

Bytes SavedSequence::slice_bytes() const { return Bytes{heads} * block_tokens * kv_pair_bytes(kKvFormats.at(format), head_dim); }

Bytes SavedSequence::data_offset() const { return kPageSize + round_up(tokens.size() * sizeof(std::int32_t), kPageSize); }

SavedSequence open_sequence(const std::string& path) {
  const InputFile file(path);
  Header header;
  if (file.size() < kPageSize) refuse(path, "is too short for keys and values of a sequence (expected a file that workload.save_kv wrote)");
  file.read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != kMagic) refuse(path, "does not hold keys and values (expected a file that workload.save_kv wrote)");
  if (header.version != kVersion) refuse(path, fmt::format("has version {} of the format (expected {})", header.version, kVersion));
  const bool sound = header.format < kKvFormats.size() && header.length > 0 && header.length < kMostTokens && header.layers > 0 &&
                     header.layers < kMostOf && header.heads > 0 && header.heads < kMostOf && header.head_dim > 0 &&
                     header.head_dim < kMostOf && header.block_tokens > 0 && header.block_tokens < kMostTokens;
  if (!sound) refuse(path, "is damaged: its header has sizes that can not be");
  SavedSequence saved{path,
                      {header.model, header.contracts},
                      header.layers,
                      header.heads,
                      header.head_dim,
                      header.block_tokens,
                      header.format,
                      header.length,
                      header.first_block,
                      std::vector<std::int32_t>(header.length + 1),
                      header.slices};
  if (saved.first_block >= saved.end_block()) refuse(path, "is damaged: its header has sizes that can not be");
  const Bytes slices = Bytes{saved.layers} * (saved.end_block() - saved.first_block), slice = saved.slice_bytes();
  const Bytes data = file.size() - std::min(file.size(), saved.data_offset());
  if (data / slice != slices || data % slice != 0) {
    refuse(path, fmt::format("has {} bytes, which its header does not announce (it was cut, or added to)", file.size()));
  }
  file.read_at(kPageSize, std::as_writable_bytes(std::span(saved.tokens)));
  if (hash_header(header, saved.tokens) != header.header) refuse(path, "is damaged: header and tokens do not have their checksum");
  Hash checksum;
  std::vector<std::byte> buffer(MiB);
  for (Bytes at = saved.data_offset(); at < file.size(); at += buffer.size()) {
    const std::span part(buffer.data(), std::min<Bytes>(buffer.size(), file.size() - at));
    file.read_at(at, part);
    add_words(checksum, part);
  }
  if (checksum.value() != saved.checksum) refuse(path, "is damaged: keys and values do not have their checksum");
  return saved;
}

void check_sequence(const SavedSequence& saved, const SequenceOrigin& origin, const KvShape& shape) {
  if (saved.origin.model != origin.model)
    refuse(saved.path, "was saved with another model (expected the file of model.gguf that saved it)");
  if (saved.origin.contracts != origin.contracts) {
    refuse(saved.path,
           "was computed with other numeric contracts (expected the same engine.products and engine.attention, and with LongRoPE both "
           "runs below or above the original context)");
  }
  const auto expect = [&](std::string_view key, auto has, auto wanted) {
    if (has != wanted) refuse(saved.path, fmt::format("has {} {} (expected {})", key, has, wanted));
  };
  expect("layers:", saved.layers, shape.layers);
  expect("format of engine.kv.format number", saved.format, format_number(shape.format));
  expect("heads by engine.kv.per:", saved.heads, shape.heads);
  expect("head size", saved.head_dim, shape.head_dim);
  expect("blocks of so many positions (engine.kv.block_tokens in whole pages):", saved.block_tokens, shape.block_tokens);
}

Task<void> restore_sequence(Machine* machine, Transformer* model, std::uint32_t sequence, const SavedSequence* saved) {
  BlocksInFile from;
  from.file = machine->storage.open(saved->path).value_or_throw();
  from.offset = saved->data_offset();
  from.parts = saved->layers;
  from.unit = saved->slice_bytes();
  from.first = saved->first_block;
  from.capacity = saved->end_block() - saved->first_block;
  co_await read_blocks(machine, model, sequence, saved->length, saved->first_block, from);
}

Task<void> save_sequence(Transformer* model, std::uint32_t sequence, std::vector<std::int32_t> tokens, SequenceOrigin origin,
                         std::string path) {
  KvCache& kv = model->kv();
  KvFlash* const flash = model->kv_tier();
  const KvShape& shape = kv.shape();
  VITRO_CHECK(kv.memory().data() != nullptr && tokens.size() == kv.length(sequence) + 1, "a sequence with its tokens, and values");
  const std::vector<SeqPos> rows(1, SeqPos{sequence, kv.length(sequence)});
  std::exception_ptr error;
  try {
    if (flash != nullptr) co_await flash->begin_step(&rows);
    const auto first = first_block_of(kv, sequence), end = static_cast<std::uint32_t>(kv.blocks_of(sequence).size());
    Header header;
    header.layers = shape.layers;
    header.heads = shape.heads;
    header.head_dim = shape.head_dim;
    header.block_tokens = shape.block_tokens;
    header.format = format_number(shape.format);
    header.length = kv.length(sequence);
    header.first_block = first;
    header.model = origin.model;
    header.contracts = origin.contracts;
    // The checksum stands in front of what it is of: once to hash, once to write.
    std::optional<OutputFile> out;
    Hash checksum;
    for (int pass = 0; pass < 2; ++pass) {
      const bool writes = pass == 1;
      if (writes) {
        header.slices = checksum.value();
        header.header = hash_header(header, tokens);
        out.emplace(path);
        out->write(std::as_bytes(std::span(&header, 1)));
        out->pad_to(kPageSize);
        out->write(std::as_bytes(std::span(tokens)));
        out->pad_to(kPageSize);
      }
      for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
        if (flash != nullptr) co_await flash->landed(layer);
        for (const KvPiece& piece : pieces_of(kv, sequence, first, end, layer, kv.slice_bytes())) {
          const std::span bytes(kv.memory().data() + piece.memory, piece.count * kv.slice_bytes());
          if (writes) {
            out->write(bytes);
          } else {
            add_words(checksum, bytes);
          }
        }
        if (flash != nullptr) flash->attended(layer);
      }
    }
    out->commit();
  } catch (...) {
    error = std::current_exception();
  }
  if (flash != nullptr) co_await flash->end_step(error != nullptr);
  if (error) std::rethrow_exception(error);
}

}  // namespace vitro
