// Checksums of a packed file's sections: one 64-bit hash per MiB of each, in a table behind the last section. They catch
// what storage and people do to files (any change within 8 bytes is found for certain); they are no signature.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/file.hpp"
#include "engine/model/pack_plan.hpp"

namespace vitro {

// Bytes of the table for these sections, in whole pages.
Bytes checksum_table_bytes(const std::vector<PackSection>& sections);

// Writes sections and keeps their checksums.
class SectionWriter {
 public:
  explicit SectionWriter(OutputFile& out) : out_(out) {}
  void write(std::span<const std::byte> bytes);
  void end_section();  // pads to a page
  void write_table();  // after the last section
  Bytes position() const { return out_.position() + piece_.size(); }

 private:
  void end_piece();
  OutputFile& out_;
  std::vector<std::byte> piece_;
  std::vector<std::uint64_t> sums_;
};

// Reads the whole file. "" when all of it is as it was written, else what is damaged, such as
// "blk.3.ffn_up.weight is damaged between bytes 4096 and 1052672". Memory: one MiB. Requires: read_pack_header() took the
// file, and the sections are its.
std::string find_damage(const InputFile& file, const std::vector<PackSection>& sections);

// find_damage(), then `more` with the same kind of answer, unless this very state of the file (its identity, size and times) was found
// good before, as a note in `cache_dir` says. So a file is read once after it was made or touched, not at every start. Without a folder
// that can be written, every time.
std::string find_new_damage(const InputFile& file, const std::vector<PackSection>& sections, const std::string& cache_dir,
                            const std::function<std::string()>& more);

}  // namespace vitro
