#include "traces/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/base/file.hpp"
#include "engine/base/hash.hpp"

namespace vitro {
namespace {

constexpr std::string_view kMagic = "VTRC";
constexpr std::string_view kParquet = "PAR1";  // of four characters, as the other

std::function<std::string(const std::string&)>& converter() {
  static std::function<std::string(const std::string&)> convert;
  return convert;
}
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kTrailer = 8;

// LEB128 numbers; lists of ascending ids as differences, which are mostly one byte.
class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  void fixed64(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) out_ += static_cast<char>(value >> shift);
  }
  void key(const OutcomeKey& key) {
    number(static_cast<std::uint64_t>(key.layer + 1));
    number(static_cast<std::uint64_t>(key.expert + 1));
    number(key.at.sequence);
    number(key.at.position);
  }
  std::string out_;
};

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  [[noreturn]] void fail(std::string_view why) const {
    throw ConfigError(fmt::format("{}: not a usable recording: {} at byte {}", name_, why, at_));
  }
  std::uint64_t number(std::uint64_t max) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (at_ >= bytes_.size()) fail("it ends too early");
      const auto byte = static_cast<std::uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) fail("a number is too large");
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
      if (shift == 63) fail("a number is too large");
    }
    if (value > max) fail(fmt::format("a value of {} (at most {} is possible)", value, max));
    return value;
  }
  // A count of things that take at least one byte each: a hostile one can not make us allocate more than the file holds.
  std::size_t count() { return number(bytes_.size() - at_); }
  std::string text() {
    const std::size_t size = count();
    std::string out(bytes_.substr(at_, size));
    at_ += size;
    return out;
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number(~std::uint32_t{0})); }
  OutcomeKey key() {
    OutcomeKey key;
    key.layer = static_cast<std::int16_t>(static_cast<int>(number(32768)) - 1);
    key.expert = static_cast<std::int16_t>(static_cast<int>(number(32768)) - 1);
    key.at.sequence = number32();
    key.at.position = number32();
    return key;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
};

void write(Writer& out, const FiredNeurons& fired) {
  out.number(fired.covered.size());
  std::uint32_t at = 0;
  for (const auto& [first, end] : fired.covered) {
    out.number(first - at);
    out.number(end - first);
    at = end;
  }
  out.number(fired.ids.size());
  at = 0;
  for (const std::uint32_t id : fired.ids) {
    out.number(id - at);
    at = id;
  }
}

FiredNeurons read_fired(Parser& in) {
  FiredNeurons fired;
  std::uint64_t at = 0;
  const auto step = [&](std::uint64_t least) {
    const std::uint64_t delta = in.number32();
    if (delta < least) in.fail("ids or ranges that do not ascend");
    if ((at += delta) > ~std::uint32_t{0}) in.fail("an id is too large");
    return static_cast<std::uint32_t>(at);
  };
  for (std::size_t n = in.count(), i = 0; i < n; ++i) {
    const std::uint32_t first = step(i == 0 ? 0 : 1);
    fired.covered.emplace_back(first, step(1));
  }
  at = 0;
  for (std::size_t n = in.count(), i = 0; i < n; ++i) fired.ids.push_back(step(i == 0 ? 0 : 1));
  for (const std::uint32_t id : fired.ids) {
    if (!fired.covers(id, id + 1)) in.fail(fmt::format("neuron {} is active but was not computed", id));
  }
  return fired;
}

}  // namespace

std::string to_string(const OutcomeKey& key) {
  std::string out;
  if (key.layer >= 0) out += fmt::format("layer {}, ", key.layer);
  if (key.expert >= 0) out += fmt::format("expert {}, ", key.expert);
  return out + fmt::format("sequence {}, position {}", key.at.sequence, key.at.position);
}

std::pair<std::uint32_t, std::uint32_t> slice_range(const KernelCall& call) {
  const std::uint32_t size = call.in.empty() ? 0 : call.in[0].shape[1];
  const std::uint32_t first = call.slice.first;
  if (call.slice.count == ~0u) return {first, std::max(first, size)};
  return {first, first + call.slice.count};
}

void FiredNeurons::cover(std::uint32_t first, std::uint32_t end) {
  if (first >= end) return;
  auto from = std::lower_bound(covered.begin(), covered.end(), first, [](const auto& range, std::uint32_t x) { return range.second < x; });
  auto to = from;
  for (; to != covered.end() && to->first <= end; ++to) {
    first = std::min(first, to->first);
    end = std::max(end, to->second);
  }
  from = covered.erase(from, to);
  covered.insert(from, {first, end});
}

void FiredNeurons::add(const std::vector<std::uint32_t>& found) {
  std::vector<std::uint32_t> all;
  all.reserve(ids.size() + found.size());
  std::set_union(ids.begin(), ids.end(), found.begin(), found.end(), std::back_inserter(all));
  ids = std::move(all);
}

bool FiredNeurons::covers(std::uint32_t first, std::uint32_t end) const {
  const auto range = std::upper_bound(covered.begin(), covered.end(), first, [](std::uint32_t x, const auto& r) { return x < r.second; });
  return first >= end || (range != covered.end() && range->first <= first && end <= range->second);
}

std::string Recording::to_bytes() const {
  Writer out;
  out.out_ = kMagic;
  out.number(kVersion);
  out.number(about.size());
  for (const auto& [key, value] : about) {
    out.text(key);
    out.text(value);
  }
  out.number(fired.size());
  for (const auto& [key, value] : fired) {
    out.key(key);
    write(out, value);
  }
  out.number(experts.size());
  for (const auto& [key, choice] : experts) {
    out.key(key);
    out.number(choice.ids.size());
    for (const std::uint16_t id : choice.ids) out.number(id);
    for (const float weight : choice.weights) out.number(std::bit_cast<std::uint32_t>(weight));
  }
  out.number(tokens.size());
  for (const auto& [key, token] : tokens) {
    out.key(key);
    out.number(static_cast<std::uint32_t>(token));
  }
  out.number(reads.size());
  for (const RecordedRead& read : reads) {
    out.number(static_cast<std::uint64_t>(read.extent.file));
    out.number(read.extent.offset);
    out.number(read.extent.length);
    out.number(static_cast<std::uint64_t>(read.issuer));
    out.number((read.pattern == Pattern::random ? 1u : 0u) | static_cast<std::uint32_t>(read.page_fault) << 1);
    out.number(static_cast<std::uint64_t>(read.submitted.count()));
  }
  Hash hash;
  hash.add(std::string_view(out.out_));
  out.fixed64(hash.value());
  return std::move(out.out_);
}

Recording Recording::from_bytes(std::string_view bytes, const std::string& name) {
  if (!bytes.starts_with(kMagic)) throw ConfigError(fmt::format("{}: not a recording (it does not begin with {})", name, kMagic));
  if (bytes.size() < kMagic.size() + 1 + kTrailer) {
    throw ConfigError(fmt::format("{}: the recording is cut after {} bytes", name, bytes.size()));
  }
  Parser in(bytes.substr(0, bytes.size() - kTrailer), name);
  for (std::size_t i = 0; i < kMagic.size(); ++i) in.number(0x7f);
  const std::uint64_t version = in.number(~std::uint64_t{0});
  if (version != kVersion) {
    throw ConfigError(fmt::format("{}: recording of version {}, this program reads version {}", name, version, kVersion));
  }
  Hash hash;
  hash.add(bytes.substr(0, bytes.size() - kTrailer));
  std::uint64_t stored = 0;
  for (std::size_t i = 0; i < kTrailer; ++i) {
    stored |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes[bytes.size() - kTrailer + i])) << (8 * i);
  }
  if (stored != hash.value()) throw ConfigError(fmt::format("{}: the recording is cut or damaged: its checksum does not match", name));

  Recording out;
  const auto must_be_new = [&](bool is_new) {
    if (!is_new) in.fail("one key is there twice");
  };
  for (std::size_t n = in.count(); n > 0; --n) {
    std::string key = in.text();
    must_be_new(out.about.emplace(std::move(key), in.text()).second);
  }
  for (std::size_t n = in.count(); n > 0; --n) {
    const OutcomeKey key = in.key();
    must_be_new(out.fired.emplace(key, read_fired(in)).second);
  }
  for (std::size_t n = in.count(); n > 0; --n) {
    const OutcomeKey key = in.key();
    ExpertChoice choice;
    const std::size_t k = in.count();
    for (std::size_t i = 0; i < k; ++i) choice.ids.push_back(static_cast<std::uint16_t>(in.number(65535)));
    for (std::size_t i = 0; i < k; ++i) choice.weights.push_back(std::bit_cast<float>(in.number32()));
    must_be_new(out.experts.emplace(key, std::move(choice)).second);
  }
  for (std::size_t n = in.count(); n > 0; --n) {
    const OutcomeKey key = in.key();
    must_be_new(out.tokens.emplace(key, static_cast<std::int32_t>(in.number32())).second);
  }
  for (std::size_t n = in.count(); n > 0; --n) {
    RecordedRead read;
    read.extent.file = FileId(in.number32());
    read.extent.offset = in.number(~std::uint64_t{0});
    read.extent.length = in.number(~std::uint64_t{0} - read.extent.offset);
    read.issuer = UnitId(in.number(65535));
    const std::uint64_t flags = in.number(5);
    read.pattern = (flags & 1) != 0 ? Pattern::random : Pattern::sequential;
    read.page_fault = static_cast<PageFault>(flags >> 1);
    read.submitted = Picoseconds(static_cast<std::int64_t>(in.number(~std::uint64_t{0} >> 1)));
    out.reads.push_back(read);
  }
  if (!in.at_end()) in.fail("there are bytes after the last entry");
  return out;
}

void Recording::save(const std::string& path) const {
  OutputFile file(path);
  file.write(to_bytes());
  file.commit();
}

bool Recording::is_recording(const std::string& path) {
  const InputFile file(path);
  std::string begin(std::min<Bytes>(kMagic.size(), file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(begin)));
  return begin == kMagic || begin == kParquet;
}

void Recording::convert_with(std::function<std::string(const std::string&)> convert) { converter() = std::move(convert); }

Recording Recording::load(const std::string& path) {
  const std::string bytes = read_text(path);
  if (!bytes.starts_with(kParquet)) return from_bytes(bytes, path);
  if (!converter()) {
    throw ConfigError(
        fmt::format("{}: is a recording in Parquet, which this program does not read (expected what `vitro trace convert` makes)", path));
  }
  return from_bytes(read_text(converter()(path)), path);
}

}  // namespace vitro
