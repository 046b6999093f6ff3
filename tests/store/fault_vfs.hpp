#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

struct sqlite3_vfs;

/// A file system for SQLite that fails on demand, and one that a power cut leaves as disks may leave it.
namespace mc2::store::faults {

enum class Fault : std::uint8_t {
  None,
  IoError,  ///< the operation fails
  DiskFull, ///< a write fails for lack of room; other operations fail as above
  PowerCut, ///< this and every later operation fails; settle() then loses what was not flushed
};

/// Which operation of the file system fails, counted from 0 over opens, reads, writes, truncations, flushes and
/// removals.
struct Injection {
  Fault fault = Fault::None;
  std::int64_t at = -1;
  bool is_lasting = false; ///< later ones fail, too
  unsigned seed = 0;       ///< of what a power cut loses
};

/// While one exists, SQLite opens files through it unless told otherwise. One at a time, one thread.
class FaultyDisk {
 public:
  explicit FaultyDisk(const Injection& injection);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  [[nodiscard]] std::int64_t operation_count() const noexcept { return operation_count_; }
  /// After a power cut, once every file is closed: each write since its file was last flushed is there, or lost, or
  /// there in part; files whose creation or removal was not flushed may be there or not.
  void settle();

  /// What the next operation shall do.
  [[nodiscard]] Fault next() noexcept;
  void opened(const std::filesystem::path& path, bool was_there);
  void written(const std::string& path, std::int64_t offset, std::string bytes);
  void truncated(const std::string& path, std::int64_t size);
  void flushed(const std::string& path);
  void removed(const std::string& path, bool is_flushed);

 private:
  struct Change {
    std::int64_t offset = 0; ///< or the new size
    std::string bytes;
    bool is_truncation = false;
  };
  /// A file as it is on the disk for sure, and what was done to it since.
  struct File {
    std::string flushed;
    bool is_flushed = false; ///< its being there is
    bool is_removed = false;
    std::vector<Change> changes;
  };
  static void apply(const Change& change, std::string& content);

  Injection injection_;
  std::int64_t operation_count_ = 0;
  bool has_power_ = true;
  std::mt19937 random_;
  std::map<std::string, File> files_;
};

} // namespace mc2::store::faults
