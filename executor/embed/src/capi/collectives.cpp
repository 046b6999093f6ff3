#include <atomic>

#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"
#include "mc2/executor/node_collectives.hpp"

namespace mc2::capi {
namespace {

using executor::NodeCollectives;

struct CollectivesObject final : Object {
  static constexpr Kind kKind = Kind::Collectives;
  explicit CollectivesObject(std::unique_ptr<NodeCollectives> opened) : collectives(std::move(opened)) {}

  const std::unique_ptr<NodeCollectives> collectives;
  const executor::ProcessMark process;
  std::atomic_flag is_taken;
};

/// Runs `run(collectives)` as the body of a call. MC2_ERROR_BUSY while another thread is in a call.
template <typename Run>
mc2_status collective(mc2_collectives* handle, const Run& run) noexcept {
  return call([&] {
    const Pinned<CollectivesObject> on(handle);
    const Turn turn(on->process, on->is_taken, "collectives",
                    "another thread is in a call; one at a time, or open others");
    take(run(*on->collectives));
  });
}

std::unique_ptr<NodeCollectives> open(const mc2_collectives_options* options) {
  const auto from = read_struct(options, "options");
  executor::NodeCollectivesOptions to;
  if (from.threads != 0) to.threads = from.threads;
  if (from.deadline_ms != 0) to.deadline = std::chrono::milliseconds(from.deadline_ms);
  return take(NodeCollectives::open({from.rank, &given(from.key, "options.key")}, from.world_size, to));
}

/// The bytes of all ranks' parts. Fails if no address space has so many.
std::size_t whole_bytes(const NodeCollectives& on, std::size_t own_bytes) {
  const auto ranks = static_cast<std::size_t>(on.world_size());
  if (own_bytes > SIZE_MAX / ranks)
    fail(MC2_ERROR_INVALID_SPEC, "own_bytes",
         "is " + std::to_string(own_bytes) + ", and " + std::to_string(ranks) + " times that does not fit in memory");
  return own_bytes * ranks;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

mc2_status mc2_collectives_open(const mc2_collectives_options* options, mc2_collectives** collectives) {
  return call_for<CollectivesObject>(collectives, "collectives", [&] { return open(options); });
}

mc2_status mc2_all_reduce(mc2_collectives* collectives, void* data, size_t byte_count, int32_t dtype) {
  return collective(collectives, [&](NodeCollectives& on) {
    return on.all_reduce(bytes_at<std::byte>(data, byte_count, "data"), read_summed_dtype(dtype, "dtype"));
  });
}

mc2_status mc2_reduce_scatter(mc2_collectives* collectives, const void* data, void* own, size_t own_bytes,
                              int32_t dtype) {
  return collective(collectives, [&](NodeCollectives& on) {
    return on.reduce_scatter(bytes_at<const std::byte>(data, whole_bytes(on, own_bytes), "data"),
                             bytes_at<std::byte>(own, own_bytes, "own"), read_summed_dtype(dtype, "dtype"));
  });
}

mc2_status mc2_all_gather(mc2_collectives* collectives, const void* own, size_t own_bytes, void* all) {
  return collective(collectives, [&](NodeCollectives& on) {
    return on.all_gather(bytes_at<const std::byte>(own, own_bytes, "own"),
                         bytes_at<std::byte>(all, whole_bytes(on, own_bytes), "all"));
  });
}

mc2_status mc2_all_to_all(mc2_collectives* collectives, const void* data, void* received, size_t byte_count) {
  return collective(collectives, [&](NodeCollectives& on) {
    return on.all_to_all(bytes_at<const std::byte>(data, byte_count, "data"),
                         bytes_at<std::byte>(received, byte_count, "received"));
  });
}

mc2_status mc2_free_collectives(mc2_collectives* collectives) { return free_handle<CollectivesObject>(collectives); }
