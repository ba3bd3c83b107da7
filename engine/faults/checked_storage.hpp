// Storage whose reads are held against checksums, page by page: a read that brought other bytes than were written is read once more, and
// then fails. Flash and file systems rarely lie; when they do, a model goes on with wrong numbers and nobody knows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/machine/detached.hpp"
#include "engine/machine/storage_decorator.hpp"
#include "engine/machine/task.hpp"

namespace vitro {

// Of a file that open() opens, checksums are taken when it is opened, from the file itself: all of it is read once. Of a scratch file,
// from each write, of the pages that it covers as a whole; a page that was never written so is not checked. A read that begins or ends
// within a page brings all of that page into memory beside the budget and copies what was asked for. Phantom files and memory are let
// through.
// Errors: Code::io_error, with the file and the offset of the page, after a second attempt. Threads: the policy thread.
// Cost: 8 bytes of checksum per page, and an event per read or write.
class CheckedStorage final : public StorageDecorator {
 public:
  // scratch: scratch files are checked, too; else whoever writes them does so.
  explicit CheckedStorage(Storage& inner, bool scratch = true) : StorageDecorator(inner), scratch_(scratch) {}

  Result<FileId> open(std::string_view path) override;
  Result<FileId> create_scratch(Bytes size) override;

  std::uint64_t damaged() const { return damaged_; }    // reads that brought other bytes than were written
  std::uint64_t recovered() const { return recovered_; }  // of them, those that the second attempt brought rightly

 protected:
  void submit(const ReadRequest& request, Completion<IoResult>& done) override;
  void submit(const WriteRequest& request, Completion<IoResult>& done) override;
  void submit(VectorRead& read) override;

 private:
  static constexpr std::uint64_t kUnknown = 0;  // no page's checksum
  struct File {
    std::string path;
    Bytes size = 0;
    std::vector<std::uint64_t> sums;  // by page
  };

  const File* file_of(FileId file) const;
  // The request in whole pages of its file, into memory of its own where it is not so already.
  ReadRequest covering(const ReadRequest& request, const File& file) const;
  // Of what `cover` brought, the offset of the first page that is damaged; the length of the file when none is.
  Bytes damage_in(const ReadRequest& cover, const File& file) const;
  Detached check(ReadRequest request, ResultSlot done);
  Detached check(WriteRequest request, Completion<IoResult>* done);
  Detached check_all(VectorRead* read);
  // What becomes of a read that brought `result`; may read again.
  Task<IoResult> judge(ReadRequest request, ReadRequest cover, IoResult result);
  Detached finish(ReadRequest request, ReadRequest cover, IoResult result, ResultSlot done);

  const bool scratch_;
  std::map<FileId, File> files_;
  std::uint64_t damaged_ = 0, recovered_ = 0;
};

}  // namespace vitro
