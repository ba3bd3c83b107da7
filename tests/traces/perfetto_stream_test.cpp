#include "traces/perfetto_stream.hpp"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include "engine/base/check.hpp"
#include "engine/base/file.hpp"

namespace vitro {
namespace {

constexpr Picoseconds kNs{1000};

class Folder {
 public:
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  static std::string make() {
    std::string path = std::filesystem::temp_directory_path() / "vitro-XXXXXX";
    return ::mkdtemp(path.data());
  }
  const std::string path_ = make();
};

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What is in the packets is read back by tests/python/trace/test_perfetto.py.
TEST(PerfettoStream, writes_parts_as_it_goes_and_a_file_only_when_it_is_finished) {
  const Folder folder;
  const std::string out = folder / "run", file = out + "/trace.pftrace";
  {
    PerfettoStream stream("t", out);
    const TrackId track = stream.track("units", "cpu0");
    EXPECT_FALSE(std::filesystem::exists(out)) << "nothing was written yet";
    for (int i = 0; i < 100'000; ++i) stream.span(track, i * 10 * kNs, (i * 10 + 5) * kNs, "matmul", "detail");
    EXPECT_TRUE(std::filesystem::exists(out));
    EXPECT_FALSE(std::filesystem::exists(file)) << "half a file";
  }
  EXPECT_FALSE(std::filesystem::exists(file)) << "a run that failed leaves no trace";
  PerfettoStream stream("t", out);
  stream.decision("evict", "block 1", "cold");
  stream.finish(out);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(read_text(out + "/decisions.jsonl"), "{\"n\":0,\"kind\":\"evict\",\"what\":\"block 1\",\"where\":\"cold\"}\n");
}

TEST(PerfettoStream, spans_that_do_not_nest_get_lanes_and_names_are_told_once) {
  const Folder folder;
  PerfettoStream stream("t", folder / "");
  const TrackId track = stream.track("storage", "flash");
  stream.span(track, 0 * kNs, 10 * kNs, "read", "a");
  stream.span(track, 20 * kNs, 30 * kNs, "read", "b");
  stream.span(track, 0 * kNs, 40 * kNs, "group", "begins with the first read: a lane of its own");
  stream.span(track, 15 * kNs, 45 * kNs, "read", "encloses b, overlaps group: the first lane");
  stream.span(track, 35 * kNs, 50 * kNs, "read", "overlaps both: a third lane");
  stream.finish(folder / "");
  const std::string text = read_text(folder / "trace.pftrace");
  EXPECT_EQ(count(text, "flash"), 3u);
  EXPECT_EQ(count(text, "flash (2)"), 1u);
  EXPECT_EQ(count(text, "flash (3)"), 1u);
  EXPECT_EQ(count(text, "read"), 2u) << "the name, and a detail that has the word";
  EXPECT_EQ(count(text, "t: storage"), 1u);
}

TEST(PerfettoStream, a_folder_that_can_not_be_made_is_named) {
  const Folder folder;
  { OutputFile file(folder / "file"); file.commit(); }
  PerfettoStream stream("t", folder / "file/inside");
  EXPECT_THROW(stream.finish(folder / "file/inside"), RunError);
}

TEST(PerfettoStream, a_part_that_can_not_be_written_ends_no_run_and_is_told_at_the_end) {
  const Folder folder;
  { OutputFile file(folder / "file"); file.commit(); }
  PerfettoStream stream("t", folder / "file/inside");
  const TrackId track = stream.track("units", "cpu0");
  for (int i = 0; i < 200'000; ++i) EXPECT_NO_THROW(stream.span(track, i * 10 * kNs, (i * 10 + 5) * kNs, "matmul", "detail"));
  std::filesystem::remove(folder / "file");  // from then on it could be written, without its beginning
  EXPECT_THROW(stream.finish(folder / "file/inside"), RunError);
  EXPECT_FALSE(std::filesystem::exists(folder / "file/inside/trace.pftrace"));
}

TEST(PerfettoStream, text_is_kept_but_for_bytes_that_are_no_UTF_8) {
  const Folder folder;
  PerfettoStream stream("t", folder / "");
  const TrackId track = stream.track("units", "cpu0");
  stream.span(track, 0 * kNs, 1 * kNs, "gr\xc3\xb6\xc3\x9f" "e", "half \xc3 of it");
  stream.finish(folder / "");
  const std::string text = read_text(folder / "trace.pftrace");
  EXPECT_EQ(count(text, "gr\xc3\xb6\xc3\x9f" "e"), 1u);
  EXPECT_EQ(count(text, "half \xef\xbf\xbd of it"), 1u);
}

}  // namespace
}  // namespace vitro
