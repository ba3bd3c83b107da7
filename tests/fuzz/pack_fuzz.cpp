// A packed file around any plan. The first byte says which of the checksums are right, and whether the plan is to be of the model that the
// file is opened with; the plan's text follows, after a zero byte what the sections hold. Or, as that byte may say, any bytes as a file.
#include <nlohmann/json.hpp>

#include "engine/base/hash.hpp"
#include "engine/model/pack_checksums.hpp"
#include "engine/model/pack_plan.hpp"
#include "engine/model/packed_file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace vitro;
using Json = nlohmann::ordered_json;

constexpr std::uint8_t kPlain = 1, kOfThisModel = 2, kWrongPlanSum = 4, kWrongTable = 8;
constexpr Bytes kMost = 2 * MiB;  // of a file

const Gguf& model() {
  static const Gguf gguf = Gguf::open(VITRO_FUZZ_SEEDS "/gguf_fuzz/llama.gguf");
  return gguf;
}

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::uint64_t sum_of(std::string_view words) {
  Hash hash;
  for (std::size_t at = 0; at + 8 <= words.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, words.data() + at, sizeof word);
    hash.add(word);
  }
  return hash.value();
}

// Sections of a plan as far as it has any, in whole pages; no more than a file may have.
std::vector<std::pair<Bytes, Bytes>> sections_in(const Json& plan) {
  std::vector<std::pair<Bytes, Bytes>> sections;
  if (!plan.is_object() || !plan.contains("sections") || !plan["sections"].is_array()) return sections;
  for (const Json& section : plan["sections"]) {
    const auto number = [&](const char* key) {
      const bool there = section.is_object() && section.contains(key) && section[key].is_number_unsigned();
      return there ? std::min(section[key].get<Bytes>(), kMost) : 0;
    };
    sections.emplace_back(number("offset"), number("bytes"));
  }
  return sections;
}

std::string packed(std::uint8_t flags, std::string_view text, std::string_view body) {
  std::string own(text);
  const Json plan = Json::parse(text, nullptr, false);
  if ((flags & kOfThisModel) != 0 && plan.is_object()) {
    Json changed = plan;
    changed["source"] = source_identity(model());
    own = changed.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  Hash hash;
  hash.add(std::string_view(own));
  static const std::string preamble = make_plan(model(), {}).header.substr(0, 16);  // what it is, and its version
  std::string out = preamble;
  append(out, std::uint64_t{own.size()});
  append(out, hash.value() ^ ((flags & kWrongPlanSum) != 0 ? 1 : 0));
  out += own;
  out.resize(round_up(out.size(), kPageSize));
  std::string sums;
  for (const auto& [offset, bytes] : sections_in(plan)) {
    if (out.size() + bytes > kMost) break;
    const std::size_t begin = out.size();
    out.append(body.substr(0, bytes));
    body.remove_prefix(std::min<std::size_t>(body.size(), bytes));
    out.resize(begin + bytes);
    for (Bytes at = 0; at < bytes; at += MiB) append(sums, sum_of(std::string_view(out).substr(begin + at, std::min(MiB, bytes - at))));
  }
  append(sums, sum_of(sums) ^ ((flags & kWrongTable) != 0 ? 1 : 0));
  sums.resize(round_up(sums.size(), kPageSize));
  return out + sums;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::File file;
  fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  const std::string_view rest = input.rest();
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view body = end < rest.size() ? rest.substr(end + 1) : std::string_view();
  model();  // is read once, and not the input's
  const std::string held = (flags & kPlain) != 0 ? std::string(rest) : packed(flags, rest.substr(0, end), body);
  const fuzz::Budget budget(held.size());
  file.hold(held);
  fuzz::attempt([&] { verify_packed(file.path()); });
  fuzz::attempt([&] {
    const PackedModel opened = open_packed(file.path(), model(), "/proc/no-folder");
    for (const Weight& weight : opened.weights) {
      VITRO_CHECK(weight.extent.offset + weight.extent.length <= opened.size, "weights lie within their file");
    }
  });
  return 0;
}
