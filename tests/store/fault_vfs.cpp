#include "fault_vfs.hpp"

#include <sqlite3.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace mc2::store::faults {
namespace {

namespace fs = std::filesystem;

FaultyDisk* disk = nullptr; ///< the only one, while it exists
sqlite3_vfs* real_vfs = nullptr;

/// A file of this VFS. SQLite reserves szOsFile bytes for it: this struct, and behind it the real file.
struct FaultyFile {
  sqlite3_file base;
  const char* path; ///< SQLite keeps it as long as the file is open; null for temporary files
  sqlite3_file* real;
};

FaultyFile& of(sqlite3_file* file) { return *reinterpret_cast<FaultyFile*>(file); }

/// The code that SQLite gets: the one for the failing operation, or that there is no room.
int code_of(Fault fault, int io_code, bool needs_room = false) {
  if (fault == Fault::None) return SQLITE_OK;
  return fault == Fault::DiskFull && needs_room ? SQLITE_FULL : io_code;
}

int close_file(sqlite3_file* file) { return of(file).real->pMethods->xClose(of(file).real); }

int read_file(sqlite3_file* file, void* into, int count, sqlite3_int64 offset) {
  if (const int code = code_of(disk->next(), SQLITE_IOERR_READ)) return code;
  return of(file).real->pMethods->xRead(of(file).real, into, count, offset);
}

int write_file(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  if (const int code = code_of(disk->next(), SQLITE_IOERR_WRITE, true)) return code;
  if (of(file).path != nullptr)
    disk->written(of(file).path, offset, std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(count)));
  return of(file).real->pMethods->xWrite(of(file).real, bytes, count, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = code_of(disk->next(), SQLITE_IOERR_TRUNCATE)) return code;
  if (of(file).path != nullptr) disk->truncated(of(file).path, size);
  return of(file).real->pMethods->xTruncate(of(file).real, size);
}

int flush_file(sqlite3_file* file, int flags) {
  if (const int code = code_of(disk->next(), SQLITE_IOERR_FSYNC)) return code;
  if (of(file).path != nullptr) disk->flushed(of(file).path);
  return of(file).real->pMethods->xSync(of(file).real, flags);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  return of(file).real->pMethods->xFileSize(of(file).real, size);
}
int lock_file(sqlite3_file* file, int level) { return of(file).real->pMethods->xLock(of(file).real, level); }
int unlock_file(sqlite3_file* file, int level) { return of(file).real->pMethods->xUnlock(of(file).real, level); }
int is_reserved(sqlite3_file* file, int* answer) {
  return of(file).real->pMethods->xCheckReservedLock(of(file).real, answer);
}
int control(sqlite3_file* file, int what, void* value) {
  return of(file).real->pMethods->xFileControl(of(file).real, what, value);
}
int sector_size(sqlite3_file* file) { return of(file).real->pMethods->xSectorSize(of(file).real); }
int characteristics(sqlite3_file* file) { return of(file).real->pMethods->xDeviceCharacteristics(of(file).real); }

/// Version 1 has no shared memory and no mapped reads, which would bypass this VFS.
constexpr sqlite3_io_methods kMethods{.iVersion = 1,
                                      .xClose = close_file,
                                      .xRead = read_file,
                                      .xWrite = write_file,
                                      .xTruncate = truncate_file,
                                      .xSync = flush_file,
                                      .xFileSize = file_size,
                                      .xLock = lock_file,
                                      .xUnlock = unlock_file,
                                      .xCheckReservedLock = is_reserved,
                                      .xFileControl = control,
                                      .xSectorSize = sector_size,
                                      .xDeviceCharacteristics = characteristics,
                                      .xShmMap = nullptr,
                                      .xShmLock = nullptr,
                                      .xShmBarrier = nullptr,
                                      .xShmUnmap = nullptr,
                                      .xFetch = nullptr,
                                      .xUnfetch = nullptr};

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  FaultyFile& opened = of(file);
  opened.base.pMethods = nullptr;
  if (const int code = code_of(disk->next(), SQLITE_CANTOPEN)) return code;
  const bool was_there = path != nullptr && fs::exists(path);
  opened.path = path;
  opened.real = reinterpret_cast<sqlite3_file*>(&opened + 1);
  const int code = real_vfs->xOpen(real_vfs, path, opened.real, flags, out_flags);
  if (code != SQLITE_OK) return code;
  if (path != nullptr) disk->opened(path, was_there);
  opened.base.pMethods = &kMethods;
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs*, const char* path, int is_flushed) {
  if (const int code = code_of(disk->next(), SQLITE_IOERR_DELETE)) return code;
  disk->removed(path, is_flushed != 0);
  return real_vfs->xDelete(real_vfs, path, is_flushed);
}

sqlite3_vfs faulty_vfs() {
  sqlite3_vfs vfs = *real_vfs;
  vfs.szOsFile = static_cast<int>(sizeof(FaultyFile)) + real_vfs->szOsFile;
  vfs.zName = "mc2-faulty";
  vfs.pNext = nullptr;
  vfs.xOpen = open_file;
  vfs.xDelete = remove_file;
  return vfs;
}

sqlite3_vfs vfs_memory;

} // namespace

FaultyDisk::FaultyDisk(const Injection& injection) : injection_(injection), random_(injection.seed) {
  if (disk != nullptr) std::abort();
  disk = this;
  real_vfs = sqlite3_vfs_find("unix");
  vfs_memory = faulty_vfs();
  if (sqlite3_vfs_register(&vfs_memory, 1) != SQLITE_OK) std::abort();
}

FaultyDisk::~FaultyDisk() {
  sqlite3_vfs_unregister(&vfs_memory);
  sqlite3_vfs_register(real_vfs, 1);
  disk = nullptr;
}

Fault FaultyDisk::next() noexcept {
  const std::int64_t here = operation_count_++;
  if (!has_power_) return Fault::IoError;
  const bool is_hit = injection_.is_lasting ? injection_.at >= 0 && here >= injection_.at : here == injection_.at;
  if (!is_hit) return Fault::None;
  if (injection_.fault == Fault::PowerCut) has_power_ = false;
  return injection_.fault;
}

void FaultyDisk::opened(const fs::path& path, bool was_there) {
  const auto [place, is_new] = files_.try_emplace(path.string());
  File& file = place->second;
  if (!is_new && !file.is_removed) return;
  file = {};
  if (!was_there) return;
  std::ifstream stream(path, std::ios::binary);
  file.flushed.assign(std::istreambuf_iterator<char>(stream), {});
  file.is_flushed = true;
}

void FaultyDisk::written(const std::string& path, std::int64_t offset, std::string bytes) {
  files_[path].changes.push_back({offset, std::move(bytes), false});
}

void FaultyDisk::truncated(const std::string& path, std::int64_t size) {
  files_[path].changes.push_back({size, {}, true});
}

void FaultyDisk::flushed(const std::string& path) {
  File& file = files_[path];
  for (const Change& change : file.changes) apply(change, file.flushed);
  file.changes.clear();
  file.is_flushed = true;
}

void FaultyDisk::removed(const std::string& path, bool is_flushed) {
  if (is_flushed)
    files_.erase(path);
  else
    files_[path].is_removed = true;
}

void FaultyDisk::apply(const Change& change, std::string& content) {
  const auto at = static_cast<std::size_t>(change.offset);
  if (change.is_truncation) return content.resize(at);
  if (content.size() < at + change.bytes.size()) content.resize(at + change.bytes.size());
  std::memcpy(content.data() + at, change.bytes.data(), change.bytes.size());
}

void FaultyDisk::settle() {
  for (auto& [path, file] : files_) {
    const bool may_be_gone = !file.is_flushed || file.is_removed;
    if (may_be_gone && random_() % 2 == 0) {
      fs::remove(path);
      continue;
    }
    for (Change& change : file.changes) {
      const auto fate = random_() % 5;
      if (fate < 2) continue;                                                                       // lost
      if (fate == 2 && !change.bytes.empty()) change.bytes.resize(random_() % change.bytes.size()); // torn
      apply(change, file.flushed);
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << file.flushed;
  }
}

} // namespace mc2::store::faults
