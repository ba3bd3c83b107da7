#include "engine/model/pack_checksums.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/base/hash.hpp"

namespace vitro {
namespace {

constexpr Bytes kPiece = MiB;
constexpr Bytes kWord = sizeof(std::uint64_t);

std::uint64_t checksum(std::span<const std::byte> bytes) {
  VITRO_CHECK(bytes.size() % kWord == 0, "sections are whole pages");
  Hash hash;
  for (std::size_t i = 0; i < bytes.size(); i += kWord) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, kWord);
    hash.add(word);
  }
  return hash.value();
}

std::size_t pieces(const PackSection& section) { return (section.bytes + kPiece - 1) / kPiece; }

std::size_t pieces(const std::vector<PackSection>& sections) {
  std::size_t n = 0;
  for (const PackSection& section : sections) n += pieces(section);
  return n;
}

// The table is the checksums, then their own, then zeros.
std::vector<std::uint64_t> table_of(std::vector<std::uint64_t> sums) {
  sums.push_back(checksum(std::as_bytes(std::span(sums))));
  sums.resize(round_up(sums.size() * kWord, kPageSize) / kWord);
  return sums;
}

constexpr std::int64_t kSecond = 1'000'000'000;
std::int64_t nanoseconds(const timespec& t) { return static_cast<std::int64_t>(t.tv_sec) * kSecond + t.tv_nsec; }

// Notes of checks that looked at less do not hold.
constexpr std::string_view kWhatIsChecked = "checksums and contents";

struct Note {
  std::string path, text;
  std::int64_t changed_ns = 0;  // when the packed file was

  Note(const InputFile& file, const std::string& cache_dir) {
    struct stat info{};
    if (::fstat(file.descriptor(), &info) != 0) throw RunError(fmt::format("{}: can not be examined", file.path()));
    changed_ns = nanoseconds(info.st_ctim);
    text = fmt::format("{} {} {} {} {} {}\n", kWhatIsChecked, info.st_dev, info.st_ino, info.st_size, nanoseconds(info.st_mtim),
                       changed_ns);
    Hash hash;
    hash.add(canonical_path(file.path()));
    path = (std::filesystem::path(cache_dir) / fmt::format("verified-{}", hash.hex())).string();
  }

  // Clocks of file systems are coarse: a note that is as old as the file may have missed a change right after it.
  bool holds() const {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0 || nanoseconds(info.st_mtim) < changed_ns + kSecond) return false;
    return static_cast<std::size_t>(info.st_size) == text.size() && read_text(path) == text;
  }

  void write() const {
    try {
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      OutputFile out(path);
      out.write(text);
      out.commit();
    } catch (const std::runtime_error&) {
      // No place for notes: the next start reads the file again.
    }
  }
};

}  // namespace

Bytes checksum_table_bytes(const std::vector<PackSection>& sections) { return round_up((pieces(sections) + 1) * kWord, kPageSize); }

void SectionWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), kPiece - piece_.size());
    piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (piece_.size() == kPiece) end_piece();
  }
}

void SectionWriter::end_section() {
  piece_.resize(round_up(piece_.size(), kPageSize));
  if (!piece_.empty()) end_piece();
}

void SectionWriter::end_piece() {
  sums_.push_back(checksum(piece_));
  out_.write(piece_);
  piece_.clear();
}

void SectionWriter::write_table() {
  VITRO_CHECK(piece_.empty(), "a section is not ended");
  const std::vector<std::uint64_t> table = table_of(sums_);
  out_.write(std::as_bytes(std::span(table)));
}

std::string find_damage(const InputFile& file, const std::vector<PackSection>& sections) {
  const Bytes table_at = sections.back().offset + sections.back().bytes;
  std::vector<std::uint64_t> found(checksum_table_bytes(sections) / kWord);
  file.read_at(table_at, std::as_writable_bytes(std::span(found)));
  const std::vector<std::uint64_t> sums(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(pieces(sections)));
  if (table_of(sums) != found) return "the table of checksums is damaged";
  std::vector<std::byte> piece;
  auto sum = sums.begin();
  for (const PackSection& section : sections) {
    for (Bytes at = 0; at < section.bytes; at += kPiece) {
      piece.resize(std::min(kPiece, section.bytes - at));
      file.read_at(section.offset + at, piece);
      if (checksum(piece) != *sum++) {
        return fmt::format("{} is damaged between bytes {} and {}", section.name, section.offset + at, section.offset + at + piece.size());
      }
    }
  }
  return "";
}

std::string find_new_damage(const InputFile& file, const std::vector<PackSection>& sections, const std::string& cache_dir,
                            const std::function<std::string()>& more) {
  const Note note(file, cache_dir);
  if (note.holds()) return "";
  std::string damage = find_damage(file, sections);
  if (damage.empty()) damage = more();
  if (damage.empty()) note.write();
  return damage;
}

}  // namespace vitro
