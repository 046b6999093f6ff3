#include "file_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace mc2::store {
namespace {

namespace fs = std::filesystem;

struct NetworkMagic {
  long magic;
  std::string_view name;
};

/// From statfs(2) and linux/magic.h. Parallel file systems whose POSIX locks work (GPFS, Lustre, Ceph) are left out.
constexpr std::array kNetworkMagics{NetworkMagic{0x6969, "NFS"},      NetworkMagic{0x517B, "SMB"},
                                    NetworkMagic{0xFF534D42, "CIFS"}, NetworkMagic{0xFE534D42, "SMB"},
                                    NetworkMagic{0x01021997, "9p"},   NetworkMagic{0x5346414F, "AFS"},
                                    NetworkMagic{0x73757245, "Coda"}};
constexpr long kFuseMagic = 0x65735546;
constexpr std::array<std::string_view, 6> kNetworkFuseTypes{"fuse.sshfs",   "fuse.rclone",    "fuse.s3fs",
                                                            "fuse.gcsfuse", "fuse.glusterfs", "fuse.davfs"};

/// The error for a place that cannot be written, if permission is missing or the path is wrong. Throws otherwise.
Error not_writable(const char* call, const fs::path& path, int code) {
  if (code == EACCES || code == EPERM || code == EROFS)
    return {ErrorCode::ReadOnly, path.string(),
            std::string("cannot be written (") + std::strerror(code) + "); name a store in a place you may write to"};
  if (code == ENOTDIR)
    return {ErrorCode::InvalidSpec, path.string(), "a part of this path is a file, not a directory; name another"};
  throw StorageError(call, code, path.string() + ": " + std::strerror(code));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// Makes new entries of a directory durable.
Result<void> flush_directory(const fs::path& directory) {
  const Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return not_writable("open", directory, errno);
  // EINVAL, EROFS: the file system cannot flush directories and does not need to.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != EROFS)
    return not_writable("fsync", directory, errno);
  return {};
}

Result<void> create_missing(const fs::path& directory) {
  std::error_code ignored;
  if (directory.empty() || fs::is_directory(directory, ignored)) return {};
  MC2_TRY(create_missing(directory.parent_path()));
  if (::mkdir(directory.c_str(), 0700) != 0) {
    if (errno == EEXIST && fs::is_directory(directory, ignored)) return {};
    return not_writable("mkdir", directory, errno == EEXIST ? ENOTDIR : errno);
  }
  return flush_directory(directory.parent_path());
}

/// Creates an empty file unless it exists. Uses mknod, because open() gives a descriptor, and closing that would drop
/// the POSIX locks of another connection of this process to the file (sqlite.org/howtocorrupt.html §2.2).
Result<void> create_file(const fs::path& path) {
  if (::mknod(path.c_str(), S_IFREG | 0600, 0) == 0) return flush_directory(path.parent_path());
  if (errno == EEXIST) return {};
  return not_writable("mknod", path, errno);
}

/// The type of the mount that a device belongs to, e.g. "ext4" or "fuse.sshfs"; empty if it is not listed.
std::string mount_type(dev_t device) {
  const std::string wanted = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // "36 35 98:0 /root /mount options ... - ext4 /dev/sda1 rw": the optional fields end at the lone dash.
    std::istringstream words(line);
    std::string id, parent, number;
    words >> id >> parent >> number;
    const auto dash = line.find(" - ");
    if (number == wanted && dash != std::string::npos)
      return line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
  }
  return {};
}

Result<void> refuse_network(const fs::path& directory) {
  struct statfs file_system {};
  struct stat status {};
  if (::statfs(directory.c_str(), &file_system) != 0 || ::stat(directory.c_str(), &status) != 0)
    return not_writable("statfs", directory, errno);
  const auto magic = static_cast<long>(file_system.f_type);
  std::string name(network_file_system(magic));
  if (magic == kFuseMagic) name = network_fuse_type(mount_type(status.st_dev));
  if (name.empty()) return {};
  return Error{ErrorCode::Unsupported, directory.string(),
               "is on a network file system (" + name +
                   "), whose locks do not protect a database; name a store on a "
                   "local disk"};
}

Result<void> require_regular(const fs::path& path) {
  std::error_code failed;
  const auto status = fs::status(path, failed);
  if (!fs::exists(status) || fs::is_regular_file(status)) return {};
  return Error{ErrorCode::InvalidSpec, path.string(),
               fs::is_directory(status) ? "is a directory; name a file in it, e.g. mc2.db"
                                        : "is not a regular file; name a file"};
}

} // namespace

std::string_view network_file_system(long magic) noexcept {
  // Compare 32-bit patterns: where long has 32 bits, f_type can be negative.
  const auto same = [magic](const NetworkMagic& each) { return (each.magic & 0xFFFFFFFFL) == (magic & 0xFFFFFFFFL); };
  const auto found = std::find_if(kNetworkMagics.begin(), kNetworkMagics.end(), same);
  return found == kNetworkMagics.end() ? std::string_view() : found->name;
}

std::string_view network_fuse_type(std::string_view mount_type) noexcept {
  const auto found = std::find(kNetworkFuseTypes.begin(), kNetworkFuseTypes.end(), mount_type);
  return found == kNetworkFuseTypes.end() ? std::string_view() : *found;
}

Result<void> prepare_writable(const fs::path& path) {
  MC2_TRY(require_regular(path));
  const fs::path directory = path.parent_path();
  MC2_TRY(create_missing(directory));
  MC2_TRY(refuse_network(directory));
  // The rollback journal is created beside the file, so the directory must be writable too.
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return not_writable("access", directory, errno);
  MC2_TRY(create_file(path));
  if (::access(path.c_str(), R_OK | W_OK) != 0) return not_writable("access", path, errno);
  return {};
}

Error nothing_kept(const fs::path& path) {
  return {ErrorCode::NotFound, path.string(),
          "is empty: nothing is kept in it; if something was, restore it from an export or a backup"};
}

Result<void> require_readable(const fs::path& path) {
  MC2_TRY(require_regular(path));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR;
    return Error{is_missing ? ErrorCode::NotFound : ErrorCode::Unreadable, path.string(),
                 std::string("cannot be read (") + std::strerror(errno) + ")"};
  }
  if (status.st_size == 0) return nothing_kept(path);
  return {};
}

} // namespace mc2::store
