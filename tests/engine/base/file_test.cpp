#include "engine/base/file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/base/check.hpp"

namespace vitro {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() : folder_(fs::path("vitro-files-" + std::to_string(::getpid()))) { fs::create_directory(folder_); }
  ~Files() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }
  void write(const std::string& name, std::string_view text) {
    OutputFile file(path(name));
    file.write(text);
    file.commit();
  }
  fs::path folder_;
};

template <class Error, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST_F(Files, what_is_written_is_read_back) {
  write("a", "hello");
  EXPECT_EQ(read_text(path("a")), "hello");
  const InputFile file(path("a"));
  EXPECT_EQ(file.size(), 5u);
  char part[3];
  file.read_at(2, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(std::string(part, 3), "llo");
}

TEST_F(Files, padding_goes_to_the_next_multiple_and_stays_there) {
  OutputFile file(path("a"));
  file.write("x");
  file.pad_to(8);
  EXPECT_EQ(file.position(), 8u);
  file.pad_to(8);
  EXPECT_EQ(file.position(), 8u);
  file.commit();
  EXPECT_EQ(read_text(path("a")), std::string("x\0\0\0\0\0\0\0", 8));
}

TEST_F(Files, without_a_commit_the_old_file_stays_and_nothing_else_does) {
  write("a", "old");
  {
    OutputFile file(path("a"));
    file.write("new");
    EXPECT_EQ(read_text(path("a")), "old");
  }
  EXPECT_EQ(read_text(path("a")), "old");
  EXPECT_EQ(entries(), 1u);
  write("a", "new");
  EXPECT_EQ(read_text(path("a")), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, what_the_user_named_wrongly_is_a_config_error_with_the_path) {
  EXPECT_EQ(message_of<ConfigError>([&] { InputFile(path("none")); }), path("none") + ": can not open: No such file or directory");
  EXPECT_EQ(message_of<ConfigError>([&] { InputFile(folder_.string()); }), folder_.string() + ": not a regular file");
  EXPECT_EQ(message_of<ConfigError>([&] { OutputFile(path("no/such")); }), path("no/such") + ": can not write: No such file or directory");
}

// A device such as /dev/null, which a test must not risk, is no regular file either.
TEST_F(Files, a_pipe_is_neither_waited_for_nor_replaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of<ConfigError>([&] { InputFile(path("pipe")); }), path("pipe") + ": not a regular file");
  EXPECT_EQ(message_of<ConfigError>([&] { OutputFile(path("pipe")); }), path("pipe") + ": can not write: not a regular file");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, have_one_path_however_they_are_spelled) {
  write("a", "x");
  fs::create_symlink("a", path("link"));
  fs::create_symlink("circle", path("circle"));
  const std::string a = fs::canonical(path("a")).string();
  for (const char* name : {"a", "link", "./a", "none/../a"}) EXPECT_EQ(canonical_path(path(name)), a) << name;
  EXPECT_EQ(canonical_path(path("circle")), path("circle")) << "leads nowhere";
  EXPECT_EQ(fs::path(canonical_path(path("none"))).filename(), "none");
}

TEST_F(Files, a_read_past_the_end_says_where_the_file_ends) {
  write("a", "hello");
  const InputFile file(path("a"));
  std::byte bytes[10];
  const std::string message = message_of<RunError>([&] { file.read_at(3, bytes); });
  EXPECT_NE(message.find(path("a") + ": the file ends at offset 5, but 10 bytes at 3 were expected"), std::string::npos) << message;
}

TEST_F(Files, a_file_that_shrinks_is_a_message_and_no_signal) {
  write("a", std::string(100'000, 'x'));
  const InputFile file(path("a"));
  ASSERT_EQ(::truncate(path("a").c_str(), 10), 0);
  std::vector<std::byte> bytes(file.size());
  EXPECT_THROW(file.read_at(0, bytes), RunError);
}

// A full disk, as far as a test can make one: a child process may write 4 KiB per file and no more.
TEST_F(Files, a_full_disk_is_a_run_error_and_leaves_the_old_file) {
  write("a", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    int code = 10;
    if (::setrlimit(RLIMIT_FSIZE, &limit) == 0) {
      const std::string message = message_of<RunError>([&] {
        OutputFile file(path("a"));
        file.write(std::string(10'000, 'x'));
        file.commit();
      });
      code = message == path("a") + ": write failed after 4096 bytes: File too large" ? 0 : 11;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_text(path("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace vitro
