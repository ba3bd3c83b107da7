#include "engine/faults/checked_storage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/checksum.hpp"
#include "engine/base/file.hpp"

namespace vitro {
namespace {

constexpr Bytes kPart = MiB;  // of a file whose checksums are taken

// Of a page, or of what a file has of its last one; never kUnknown.
std::uint64_t sum_of(const std::byte* bytes, Bytes length) { return checksum({bytes, length}) | 1; }

// Memory beside the budget.
Lease own_memory(Bytes size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  auto block = std::make_shared<Block>();
  block->size = size;
  block->region = Region::staging;
  block->data = bytes->data();
  return Lease(std::shared_ptr<Block>(block.get(), [block, bytes](Block*) {}));
}

bool same_memory(const ReadRequest& a, const ReadRequest& b) { return a.into.block() == b.into.block(); }

}  // namespace

Result<FileId> CheckedStorage::open(std::string_view path) {
  Result<FileId> opened = inner_.open(path);
  if (!opened.ok()) return opened;
  const InputFile input{std::string(path)};
  File file{input.path(), input.size(), {}};
  std::vector<std::byte> part;
  for (Bytes at = 0; at < input.size(); at += kPart) {
    part.resize(std::min(kPart, input.size() - at));
    input.read_at(at, part);
    for (Bytes page = 0; page < part.size(); page += kPageSize) {
      file.sums.push_back(sum_of(part.data() + page, std::min(kPageSize, part.size() - page)));
    }
  }
  files_[opened.value()] = std::move(file);
  return opened;
}

Result<FileId> CheckedStorage::create_scratch(Bytes size) {
  Result<FileId> created = inner_.create_scratch(size);
  if (!created.ok() || !scratch_) return created;
  files_[created.value()] = {"a scratch file", size, std::vector<std::uint64_t>((size + kPageSize - 1) / kPageSize)};
  return created;
}

const CheckedStorage::File* CheckedStorage::file_of(FileId file) const {
  const auto found = files_.find(file);
  return found == files_.end() ? nullptr : &found->second;
}

ReadRequest CheckedStorage::covering(const ReadRequest& request, const File& file) const {
  const Bytes begin = round_down(request.from.offset, kPageSize);
  const Bytes asked_end = request.from.offset + request.from.length;
  const Bytes end = std::min(round_up(asked_end, kPageSize), file.size);
  if ((begin == request.from.offset && end == asked_end) || end < asked_end) return request;
  ReadRequest cover = request;
  cover.from.offset = begin;
  cover.from.length = end - begin;
  cover.into = own_memory(cover.from.length);
  cover.into_offset = 0;
  return cover;
}

Bytes CheckedStorage::damage_in(const ReadRequest& cover, const File& file) const {
  const Bytes end = std::min(cover.from.offset + cover.from.length, file.size);
  for (Bytes at = cover.from.offset; at < end; at += kPageSize) {
    const std::uint64_t sum = file.sums.at(at / kPageSize);
    if (sum == kUnknown) continue;
    const std::byte* bytes = cover.into.data() + cover.into_offset + (at - cover.from.offset);
    if (sum_of(bytes, std::min(kPageSize, end - at)) != sum) return at;
  }
  return file.size;
}

Task<IoResult> CheckedStorage::judge(ReadRequest request, ReadRequest cover, IoResult result) {
  const File* file = file_of(request.from.file);
  if (file != nullptr && request.into.data() != nullptr && result.status.ok() && damage_in(cover, *file) != file->size) {
    ++damaged_;
    ReadRequest again = cover;
    result = co_await inner_.read(std::move(again));
    if (result.status.ok()) {
      const Bytes at = damage_in(cover, *file);
      if (at == file->size) {
        ++recovered_;
      } else {
        result = {{Code::io_error, fmt::format("{}: the page at {} is not what was written to it (read twice)", file->path, at)}, 0};
      }
    }
  }
  if (same_memory(request, cover)) co_return result;
  const Bytes before = request.from.offset - cover.from.offset;
  result.done = result.done > before ? std::min(result.done - before, request.from.length) : 0;
  if (result.done > 0) std::memcpy(request.into.data() + request.into_offset, cover.into.data() + before, result.done);
  co_return result;
}

Detached CheckedStorage::finish(ReadRequest request, ReadRequest cover, IoResult result, ResultSlot done) {
  IoResult judged = co_await judge(std::move(request), std::move(cover), std::move(result));
  done.complete(std::move(judged));
}

Detached CheckedStorage::check(ReadRequest request, ResultSlot done) {
  const File* file = file_of(request.from.file);
  ReadRequest cover = file != nullptr && request.into.data() != nullptr ? covering(request, *file) : request;
  ReadRequest submitted = cover;
  IoResult result = co_await inner_.read(std::move(submitted));
  IoResult judged = co_await judge(std::move(request), std::move(cover), std::move(result));
  done.complete(std::move(judged));
}

Detached CheckedStorage::check(WriteRequest request, Completion<IoResult>* done) {
  // A page is what the write makes of it, or nobody knows what.
  std::vector<std::pair<std::size_t, std::uint64_t>> sums;
  const auto found = files_.find(request.to.file);
  if (found != files_.end()) {
    const Bytes end = request.to.offset + request.to.length;
    for (Bytes page = round_down(request.to.offset, kPageSize); page < end; page += kPageSize) {
      const bool whole = page >= request.to.offset && std::min(page + kPageSize, found->second.size) <= end;
      const bool known = whole && request.from.data() != nullptr;
      const std::byte* bytes = known ? request.from.data() + request.from_offset + (page - request.to.offset) : nullptr;
      sums.emplace_back(page / kPageSize, known ? sum_of(bytes, std::min(kPageSize, end - page)) : kUnknown);
      found->second.sums.at(page / kPageSize) = kUnknown;
    }
  }
  WriteRequest submitted = request;
  IoResult result = co_await inner_.write(std::move(submitted));
  if (result.status.ok()) {
    for (const auto& [page, sum] : sums) found->second.sums[page] = sum;
  }
  done->complete(std::move(result));
}

Detached CheckedStorage::check_all(VectorRead* read) {
  std::vector<ReadRequest> asked = read->requests(), covers;
  for (const ReadRequest& request : asked) {
    const File* file = file_of(request.from.file);
    covers.push_back(file != nullptr && request.into.data() != nullptr ? covering(request, *file) : request);
  }
  VectorRead inner = inner_.read_many(covers, read->delivery());
  while (const VectorRead::Group* group = co_await inner.next()) {
    for (const ReadCompletion& done : *group) finish(asked[done.index], covers[done.index], done.result, ResultSlot(*read, done.index));
  }
}

void CheckedStorage::submit(const ReadRequest& request, Completion<IoResult>& done) { check(request, ResultSlot(done)); }
void CheckedStorage::submit(const WriteRequest& request, Completion<IoResult>& done) { check(request, &done); }
void CheckedStorage::submit(VectorRead& read) { check_all(&read); }

}  // namespace vitro
