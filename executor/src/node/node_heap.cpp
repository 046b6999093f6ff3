#include "node/node_heap.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "node/shared_file.hpp"
#include "texts.hpp"

namespace mc2::executor::node {
namespace {

Error unsupported(const std::string& what) {
  return {ErrorCode::Unsupported, "memory", what + ": " + std::strerror(errno)};
}

} // namespace

NodeHeap::NodeHeap(int world_size, std::size_t bytes_per_rank)
    : byte_count_(bytes_per_rank), segments_(static_cast<std::size_t>(world_size)) {}

NodeHeap::~NodeHeap() {
  for (std::byte* segment : segments_) {
    if (segment != nullptr) munmap(segment, byte_count_);
  }
}

Result<std::unique_ptr<NodeHeap>> NodeHeap::create(const Meeting& meeting, std::size_t bytes_per_rank) {
  std::unique_ptr<NodeHeap> heap(new NodeHeap(meeting.world_size, bytes_per_rank));
  Result<void> own;
  const SharedFile file(bytes_per_rank);
  if (!file.is_open()) own = unsupported("no shared memory of " + std::to_string(bytes_per_rank) + " bytes");
  const auto addresses = meeting.gather(file.address());
  for (std::size_t rank = 0; own && rank < addresses.size(); ++rank) {
    const int number = static_cast<int>(rank);
    own = heap->map(number, rank_text(meeting.names.empty() ? number : meeting.names[rank]), addresses[rank]);
  }
  // share_error() is also where ranks wait for each other: until then every rank keeps its file open for the others.
  MC2_TRY(meeting.share_error(own));
  heap->own_segment_ = heap->segment(meeting.rank).data();
  return heap;
}

Result<void> NodeHeap::map(int rank, const std::string& name, std::int64_t address) {
  if (address < 0) return {}; // that rank reports the error itself
  const SharedFile file = SharedFile::open(address);
  if (!file.is_open()) return unsupported("the memory of " + name + " cannot be opened");
  std::byte* mapped = file.map(byte_count_);
  if (mapped == nullptr) return unsupported("the memory of " + name + " cannot be mapped");
  segments_[static_cast<std::size_t>(rank)] = mapped;
  return {};
}

} // namespace mc2::executor::node
