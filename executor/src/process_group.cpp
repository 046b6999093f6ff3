#include "process_group.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "rank_agreement.hpp"
#include "shared_memory_group.hpp"
#include "tcp_group.hpp"
#include "texts.hpp"

namespace mc2::executor {

namespace {

struct Meetings {
  int met_count = 0;
  std::optional<int> rank;  ///< the rank that waits for the others now
  std::optional<int> other; ///< another rank that a second thread wanted to open meanwhile
};

std::mutex meetings_mutex;

/// By key; under meetings_mutex.
std::map<std::string, Meetings>& meetings() {
  static std::map<std::string, Meetings> all;
  return all;
}

} // namespace

ProcessGroup::Number::Number(std::string key, int rank) : key_(std::move(key)) {
  const std::lock_guard lock(meetings_mutex);
  Meetings& own = meetings()[key_];
  if (own.rank) {
    if (own.rank != rank) own.other = rank;
    throw SystemError("meet", EEXIST,
                      "another thread of this process waits for the other ranks under the same key; every process "
                      "holds one rank");
  }
  own.rank = rank;
  own.other.reset();
  value_ = own.met_count;
}

std::optional<int> ProcessGroup::Number::other_rank() const {
  const std::lock_guard lock(meetings_mutex);
  return meetings()[key_].other;
}

ProcessGroup::Number::~Number() {
  if (key_.empty()) return;
  const std::lock_guard lock(meetings_mutex);
  meetings()[key_].rank.reset();
}

void ProcessGroup::Number::keep() noexcept {
  const std::lock_guard lock(meetings_mutex);
  Meetings& own = meetings()[std::exchange(key_, "")];
  own.rank.reset();
  ++own.met_count;
}

std::vector<std::int64_t> ProcessGroup::gather(std::span<const std::int64_t> own) {
  std::vector<std::int64_t> all;
  for (const std::string& bytes : all_gather({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
    const std::size_t known = all.size();
    all.resize(known + bytes.size() / sizeof(std::int64_t));
    std::memcpy(all.data() + known, bytes.data(), (all.size() - known) * sizeof(std::int64_t));
  }
  return all;
}

std::int64_t ProcessGroup::maximum(std::int64_t own) { return std::ranges::max(gather({&own, 1})); }

Result<void> ProcessGroup::share_error(const Result<void>& own) {
  return first_error(own, all_gather(error_text(own)));
}

Result<void> ProcessGroup::agree(std::string_view text) { return check_same_call(all_gather(text)); }

Result<void> check_meeting(const ProcessPlace& place, int world_size) {
  constexpr std::size_t kMostKeyBytes = 4096;
  const auto refuse = [](const std::string& text) { return Error{ErrorCode::InvalidSpec, "process", text}; };
  if (place.rank < 0 || place.rank >= world_size)
    return refuse("is " + rank_text(place.rank) + " of " + std::to_string(world_size));
  if (place.key.size() > kMostKeyBytes)
    return refuse("has a key of " + std::to_string(place.key.size()) + " bytes; legal: at most " +
                  std::to_string(kMostKeyBytes));
  return place.spans_hosts() ? check_rank_zero(place.address) : Result<void>{};
}

std::unique_ptr<ProcessGroup> open_process_group(const ProcessPlace& place, int world_size,
                                                 std::chrono::milliseconds deadline) {
  if (place.address.empty()) return std::make_unique<SharedMemoryGroup>(place, world_size, deadline);
  return std::make_unique<TcpGroup>(place, world_size, deadline);
}

} // namespace mc2::executor
