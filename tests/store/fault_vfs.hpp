#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

struct sqlite3_vfs;

/// A file system for SQLite that fails on demand, and that loses in a power cut what a real disk may lose.
namespace mc2::store::faults {

enum class Fault : std::uint8_t {
  None,
  IoError,  ///< the operation fails
  DiskFull, ///< a write fails for lack of room; other operations fail as with IoError
  PowerCut, ///< this and every later operation fails; settle() then loses what was not flushed
};

/// Which operation of the file system fails, counted from 0 over opens, reads, writes, truncations, flushes and
/// removals.
struct Injection {
  Fault fault = Fault::None;
  std::int64_t at = -1;
  bool is_lasting = false; ///< later operations fail, too
  unsigned seed = 0;       ///< chooses what a power cut loses
};

/// While it exists, SQLite opens files through it unless told otherwise. Only one may exist at a time, and only one
/// thread may use it.
class FaultyDisk {
 public:
  explicit FaultyDisk(const Injection& injection);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  [[nodiscard]] std::int64_t operation_count() const noexcept { return operation_count_; }
  /// Call it after a power cut, once every file is closed. Each write since its file was last flushed is then there,
  /// lost, or there in part. A file whose creation or removal was not flushed may be there or not.
  void settle();

  /// Counts one operation and says how it shall fail.
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
  /// A file as the disk surely has it, and what was done to it since.
  struct File {
    std::string flushed;
    bool is_flushed = false; ///< its creation is flushed
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
