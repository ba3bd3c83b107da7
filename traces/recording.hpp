// What the data decided in a run, without the data: which neurons fired, which experts were chosen, which tokens came.
// Keyed by what the work was for, never by when or where it ran. docs/guide/traces.md has the file format.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/machine/storage.hpp"
#include "engine/ops/kernel_call.hpp"

namespace vitro {

// Sequences of a second model on the machine, which judges what the first one says, have numbers from here on: a recording holds what both
// were asked, and what is learned from it is of the first.
inline constexpr std::uint32_t kFirstOfJudge = 1u << 31;

struct OutcomeKey {
  std::int16_t layer = -1, expert = -1;
  SeqPos at;
  bool of_judge() const { return at.sequence >= kFirstOfJudge; }
  friend auto operator<=>(const OutcomeKey&, const OutcomeKey&) = default;
};
std::string to_string(const OutcomeKey& key);  // "layer 3, expert 1, sequence 0, position 17"

// Neurons of a layer or expert that fired, and which ones were looked at: a slice that nobody computed is unknown, not
// silent. Both ascending; ranges are half-open and do not touch.
struct FiredNeurons {
  std::vector<std::uint32_t> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> covered;

  // What one call found goes in by both; idempotent.
  void cover(std::uint32_t first, std::uint32_t end);
  void add(const std::vector<std::uint32_t>& found);
  bool covers(std::uint32_t first, std::uint32_t end) const;
};

struct RecordedRead {
  Extent extent;
  UnitId issuer{};
  Pattern pattern = Pattern::random;
  PageFault page_fault = PageFault::none;
  Picoseconds submitted{0};
  friend bool operator==(const RecordedRead&, const RecordedRead&) = default;
};

struct Recording {
  // In `about`: of the neurons, those alone were looked at that a predictor had named. Replayed, the predictor names them again.
  static constexpr const char *kLookedAt = "looked at", *kNamed = "named neurons";
  // In `about`: of the tokens, those alone are there that the run drew, so a row behind one was generated, and all others are a prompt's.
  static constexpr const char *kTokens = "tokens", *kDrawn = "drawn by the run";

  std::map<std::string, std::string> about;  // text for people: model, prompt, engine; and kLookedAt, kTokens
  std::map<OutcomeKey, FiredNeurons> fired;
  std::map<OutcomeKey, ExpertChoice> experts;
  std::map<OutcomeKey, std::int32_t> tokens;
  std::vector<RecordedRead> reads;  // in order of submission

  std::string to_bytes() const;
  // ConfigError naming `name` and the byte offset when the bytes are no recording, cut, damaged or of another version.
  static Recording from_bytes(std::string_view bytes, const std::string& name);

  void save(const std::string& path) const;
  // Of this format; of Parquet as well, where convert_with() has been called. ConfigError otherwise.
  static Recording load(const std::string& path);
  static bool is_recording(const std::string& path);  // of either, by its first bytes; ConfigError when it can not be read
  // `convert`: for a path of Parquet, that of a file of the same recording in this format; throws ConfigError. For the process, and set
  // before anything is loaded: Arrow's library is Python's.
  static void convert_with(std::function<std::string(const std::string&)> convert);
};

// The part of an operand's last dimension that a glu call works on, with "to the end" resolved.
std::pair<std::uint32_t, std::uint32_t> slice_range(const KernelCall& call);

}  // namespace vitro
