#include "operand_files.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace mc2::cli {
namespace {

/// Room that is left to other users of the directory.
constexpr std::uintmax_t kMarginBytes = 64 << 20;

void write_matrix(const std::filesystem::path& path, std::span<const std::byte> matrix) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(matrix.data()), static_cast<std::streamsize>(matrix.size()));
  stream.close();
  if (!stream) throw SystemError("write " + path.string(), errno, std::strerror(errno));
}

} // namespace

Result<PrivateDirectory> PrivateDirectory::with_room_for(std::uintmax_t byte_count) {
  std::string seen;
  for (const std::filesystem::path& parent :
       {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
    std::error_code failure;
    const auto space = std::filesystem::space(parent, failure);
    if (failure || space.available < byte_count + kMarginBytes) {
      seen += (seen.empty() ? "" : ", ") + parent.string() + " has " +
              (failure ? "none" : std::to_string(space.available >> 20) + " MiB");
      continue;
    }
    std::string pattern = (parent / "mc2-peers-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw SystemError("mkdtemp " + pattern, errno, std::strerror(errno));
    return PrivateDirectory(pattern);
  }
  return Error{ErrorCode::Unsupported, "operands",
               "need " + std::to_string((byte_count + kMarginBytes) >> 20) + " MiB of files, and " + seen};
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::uintmax_t operand_bytes(std::span<const executor::RankBuffers> buffers) noexcept {
  std::uintmax_t count = 0;
  for (const auto& rank : buffers) count += rank.a.size() + rank.b.size() + rank.c.size();
  return count;
}

void write_operands(std::span<const executor::RankBuffers> buffers, const std::filesystem::path& directory) {
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    const std::string suffix = "." + std::to_string(rank);
    write_matrix(directory / ("a" + suffix), buffers[rank].a);
    write_matrix(directory / ("b" + suffix), buffers[rank].b);
    write_matrix(directory / ("c" + suffix), buffers[rank].c);
    if (!buffers[rank].a_scales.empty()) write_matrix(directory / ("a_scales" + suffix), buffers[rank].a_scales);
    if (!buffers[rank].b_scales.empty()) write_matrix(directory / ("b_scales" + suffix), buffers[rank].b_scales);
  }
}

} // namespace mc2::cli
