#include "shared_memory_group.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "mc2/planner/text.hpp"
#include "polling.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostProcesses = 64;
constexpr std::size_t kMessageSlotBytes = 4096;
constexpr std::size_t kReasonBytes = 512;
constexpr std::uint32_t kIsReady = 0x6d633269; // to be changed with the layout of Shared, whose versions must not mix
constexpr std::uint32_t kNoFailure = 0, kIsBeingWritten = 1, kIsWritten = 2;

/// The start time of a process, in clock ticks; 0 if it has ended. Process ids are used again, but id and start time
/// together name one process.
std::uint64_t start_time(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text, '\0'); // the whole file; empty if the process ends meanwhile
  // Fields are counted from the end of the name, which is in parentheses and may contain any character. The state is
  // the third field, the start time the 22nd (proc(5)).
  std::size_t at = text.rfind(')');
  constexpr int kFieldsBefore = 20;
  for (int field = 0; field < kFieldsBefore && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const char state = text[text.rfind(')') + 2];
  std::uint64_t ticks = 0;
  std::from_chars(text.data() + at + 1, text.data() + text.size(), ticks);
  return state == 'Z' || state == 'X' ? 0 : ticks;
}

/// Whether this process is the one with this id and start time.
bool is_own(std::int32_t process, std::uint64_t started) {
  return process == getpid() && started == start_time(getpid());
}

/// The name of the shared memory, which differs for every user, key and number.
std::string name_of(const std::string& key, int number) {
  const std::size_t digest = std::hash<std::string>{}(key);
  return "/mc2-" + std::to_string(getuid()) + "-" + std::to_string(digest) + "-" + std::to_string(number);
}

SystemError two_ranks_here(int other) {
  return {"meet", EEXIST,
          "another thread of this process came as " + rank_text(other) +
              " under the same key; every process holds one rank"};
}

/// Yields for 2 ms before it sleeps, because most ranks come at about the same time.
Patience patience() { return {std::chrono::microseconds{100}, std::chrono::microseconds{2000}}; }

} // namespace

struct SharedMemoryGroup::Shared {
  struct alignas(64) Rank {
    std::atomic<std::int32_t> process;    ///< process id; 0 until the rank has come
    std::atomic<std::uint64_t> started;   ///< start_time(process); 0 until the rank has written it
    std::atomic<std::int32_t> world_size; ///< of the world that the rank opens; 0 until it has written it
    std::atomic<std::uint64_t> round;     ///< the last round of all_gather() that the rank has written
    std::atomic<std::uint32_t> is_away;   ///< has given up waiting for the others; may come back
    std::atomic<std::uint32_t> has_left;
    std::array<std::uint32_t, 2> byte_counts;
    /// Rounds use the two slots in turn. No rank writes round n + 2 before all have written round n + 1, and a rank
    /// that has written round n + 1 has read round n.
    char slots[2][kMessageSlotBytes];
  };

  alignas(kAbortPageBytes) std::atomic<std::uint32_t> abort;
  alignas(kAbortPageBytes) std::atomic<std::uint32_t> is_ready;
  /// Odd once all ranks have met; else grows by 2 each time that a rank gives up. So a rank that has seen all others
  /// meets them only if none has given up meanwhile.
  std::atomic<std::uint32_t> meeting;
  /// Guards `failure`, the reason of the first failure. Later failures are consequences and are dropped.
  std::atomic<std::uint32_t> failure_state;
  char failure[kReasonBytes];
  std::array<Rank, kMostProcesses> ranks;
};

SharedMemoryGroup::SharedMemoryGroup(const ProcessPlace& place, int world_size, std::chrono::milliseconds deadline)
    : ProcessGroup(place.rank, world_size), key_(place.key), deadline_(deadline) {
  if (world_size > kMostProcesses)
    throw SystemError("ProcessGroup", EINVAL,
                      std::to_string(world_size) + " processes; at most " + std::to_string(kMostProcesses));
  meet();
}

void SharedMemoryGroup::meet() {
  Number number(key_, rank());
  const std::string name = name_of(key_, number.value());
  const auto end = Clock::now() + deadline_;
  try {
    if (rank() == 0)
      create(name);
    else
      join(name, end, number);
    sign_in();
    wait_for_all(end, number);
  } catch (...) {
    if (rank() == 0) shm_unlink(name.c_str());
    if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
    throw;
  }
  number.keep();
  if (rank() == 0) shm_unlink(name.c_str());
}

SharedMemoryGroup::~SharedMemoryGroup() {
  shared_->ranks[static_cast<std::size_t>(rank())].has_left = 1;
  munmap(shared_, sizeof(Shared));
}

void SharedMemoryGroup::create(const std::string& name) {
  shm_unlink(name.c_str()); // an earlier job that failed before all its ranks had come may have left it
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) throw SystemError("shm_open", errno, rank_text(rank()) + ": " + std::strerror(errno));
  const bool has_size = ftruncate(file, sizeof(Shared)) == 0;
  void* const place =
      has_size ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int code = errno;
  close(file);
  if (place == MAP_FAILED) throw SystemError("mmap", code, rank_text(rank()) + ": " + std::strerror(code));
  shared_ = static_cast<Shared*>(place); // all zeros, the initial value of every member
}

/// Maps rank 0's memory once it exists. Passes over memory that an ended job has left, or one whose ranks disagreed.
void SharedMemoryGroup::join(const std::string& name, Clock::time_point end, const Number& number) {
  for (const Patience waiting = patience(); Clock::now() < end; waiting.pause()) {
    if (const auto other = number.other_rank()) throw two_ranks_here(*other);
    const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) continue;
    struct stat status {};
    const bool is_whole =
        fstat(file, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(Shared)) && status.st_uid == getuid();
    void* const place =
        is_whole ? mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (place == MAP_FAILED) continue;
    auto* const found = static_cast<Shared*>(place);
    const auto& leader = found->ranks[0];
    const bool is_ready = found->is_ready.load(std::memory_order_acquire) == kIsReady;
    const bool has_failed = found->failure_state != kNoFailure && found->meeting % 2 == 0;
    if (is_ready && !has_failed && start_time(leader.process) == leader.started) {
      shared_ = found;
      return;
    }
    munmap(place, sizeof(Shared));
  }
  throw SystemError("meet", ETIMEDOUT, "rank 0 did not come within " + std::to_string(deadline_.count()) + " ms");
}

void SharedMemoryGroup::sign_in() {
  auto& own = shared_->ranks[static_cast<std::size_t>(rank())];
  std::int32_t nobody = 0;
  const bool comes_back = own.is_away != 0 && is_own(own.process, own.started);
  if (!comes_back && !own.process.compare_exchange_strong(nobody, getpid()))
    throw SystemError("meet", EEXIST,
                      rank_text(rank()) + " is there twice: processes " + std::to_string(nobody) + " and " +
                          std::to_string(getpid()) + "; every process needs a rank of its own");
  own.started = start_time(getpid());
  own.world_size = world_size();
  own.is_away = 0;
  if (rank() == 0) shared_->is_ready.store(kIsReady, std::memory_order_release);
}

/// The ranks that have not come, or else those that have given up; empty if all are there.
std::string SharedMemoryGroup::missing() const {
  std::vector<int> late, away;
  for (int rank = 0; rank < world_size(); ++rank) {
    const auto& one = shared_->ranks[static_cast<std::size_t>(rank)];
    if (one.world_size == 0)
      late.push_back(rank);
    else if (one.is_away != 0)
      away.push_back(rank);
  }
  return list_text(late.empty() ? away : late);
}

/// Names the first rank that opens a world of another size than rank 0, which comes before all others.
std::optional<std::string> SharedMemoryGroup::disagreement() const {
  const std::int32_t leaders = shared_->ranks[0].world_size;
  for (int rank = 1; rank < kMostProcesses; ++rank)
    if (const std::int32_t size = shared_->ranks[static_cast<std::size_t>(rank)].world_size;
        size != 0 && size != leaders)
      return rank_text(rank) + " opens a world of " + std::to_string(size) + ", rank 0 one of " +
             std::to_string(leaders);
  return std::nullopt;
}

void SharedMemoryGroup::wait_for_all(Clock::time_point end, const Number& number) {
  auto& own = shared_->ranks[static_cast<std::size_t>(rank())];
  for (const Patience waiting = patience();; waiting.pause()) {
    std::uint32_t seen = shared_->meeting;
    const std::string late = missing(); // first: a rank that is not missing has written its world's size
    const auto worlds = disagreement();
    if (seen % 2 == 1) { // a rank of a larger world may come after the others have met
      if (worlds && world_size() != shared_->ranks[0].world_size) throw SystemError("meet", EINVAL, *worlds);
      return;
    }
    if (worlds) {
      if (!shared_->meeting.compare_exchange_strong(seen, seen + 2)) continue;
      tell(*worlds);
      throw SystemError("meet", EINVAL, *worlds);
    }
    // Looks at `meeting` again: the others may have met meanwhile, and one of them may have failed after that.
    if (shared_->failure_state == kIsWritten && shared_->meeting == seen)
      throw SystemError("meet", ECANCELED, shared_->failure);
    if (late.empty() && shared_->meeting.compare_exchange_strong(seen, seen + 1)) return;
    const auto other = number.other_rank();
    if (late.empty() || (Clock::now() <= end && !other)) continue;
    own.is_away = 1;
    if (shared_->meeting.compare_exchange_strong(seen, seen + 2)) {
      if (other) throw two_ranks_here(*other);
      throw SystemError("meet", ETIMEDOUT,
                        "of " + std::to_string(world_size()) + " ranks these did not come within " +
                            std::to_string(deadline_.count()) + " ms: " + late);
    }
    own.is_away = 0; // all have met, or another rank has just given up
  }
}

bool SharedMemoryGroup::has_ended(int rank) const {
  const auto& other = shared_->ranks[static_cast<std::size_t>(rank)];
  return other.has_left == 0 && other.started != 0 && start_time(other.process) != other.started;
}

std::optional<std::string> SharedMemoryGroup::failure() const {
  if (shared_->failure_state.load(std::memory_order_acquire) == kIsWritten) return shared_->failure;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (!has_ended(rank)) continue;
    tell(rank_text(rank) + " has ended (process " +
         std::to_string(shared_->ranks[static_cast<std::size_t>(rank)].process) + ")");
    return shared_->failure;
  }
  return std::nullopt;
}

std::optional<std::string> SharedMemoryGroup::departure() const {
  for (int rank = 0; rank < world_size(); ++rank)
    if (shared_->ranks[static_cast<std::size_t>(rank)].has_left != 0) return rank_text(rank) + " has left";
  return std::nullopt;
}

void SharedMemoryGroup::wait_for_round(int rank, std::uint64_t round) const {
  constexpr std::chrono::milliseconds kBetweenLooks{10}; // between checks whether the other rank still exists
  const auto& other = shared_->ranks[static_cast<std::size_t>(rank)];
  const auto start = Clock::now();
  auto next_look = start + kBetweenLooks;
  for (const Patience waiting = patience(); other.round.load(std::memory_order_acquire) < round; waiting.pause()) {
    const auto now = Clock::now();
    if (now < next_look) continue;
    next_look = now + kBetweenLooks;
    auto reason = failure();
    if (!reason && other.has_left != 0) reason = rank_text(rank) + " has left";
    // A round that the rank wrote before it left or ended counts.
    if (reason && other.round.load(std::memory_order_acquire) < round) throw SystemError("meet", ECANCELED, *reason);
    if (now - start > deadline_)
      throw SystemError("meet", ETIMEDOUT,
                        rank_text(rank) + " did not come within " + std::to_string(deadline_.count()) + " ms");
  }
}

/// Exchanges the next piece of every rank's message, at most a slot long.
void SharedMemoryGroup::exchange_round(std::string_view own, std::vector<std::string>& all) {
  auto& mine = shared_->ranks[static_cast<std::size_t>(rank())];
  const std::size_t turn = ++round_ % 2;
  mine.byte_counts[turn] = static_cast<std::uint32_t>(own.size());
  const std::string_view piece = own.substr(0, kMessageSlotBytes);
  std::memcpy(mine.slots[turn], piece.data(), piece.size());
  mine.round.store(round_, std::memory_order_release);
  for (int rank = 0; rank < world_size(); ++rank) {
    wait_for_round(rank, round_);
    const auto& other = shared_->ranks[static_cast<std::size_t>(rank)];
    all[static_cast<std::size_t>(rank)].append(other.slots[turn],
                                               std::min<std::size_t>(other.byte_counts[turn], kMessageSlotBytes));
  }
}

std::vector<std::string> SharedMemoryGroup::all_gather(std::string_view own) {
  std::vector<std::string> all(static_cast<std::size_t>(world_size()));
  for (bool goes_on = true; goes_on;) {
    exchange_round(own, all);
    own.remove_prefix(std::min(own.size(), kMessageSlotBytes));
    const auto has_more = [&](const Shared::Rank& rank) { return rank.byte_counts[round_ % 2] > kMessageSlotBytes; };
    goes_on = std::any_of(shared_->ranks.begin(), shared_->ranks.begin() + world_size(), has_more);
  }
  return all;
}

void SharedMemoryGroup::fail(std::string_view why) noexcept {
  if (shared_->failure_state == kNoFailure) tell(rank_text(rank()).append(": ").append(why));
}

/// Writes the reason of a failure, unless another was written before, and raises the abort word. Waits until a reason
/// is complete, but not for ever: the process that writes it may be killed.
void SharedMemoryGroup::tell(std::string_view what) const noexcept {
  std::uint32_t nothing = kNoFailure;
  if (shared_->failure_state.compare_exchange_strong(nothing, kIsBeingWritten)) {
    const std::string_view kept = what.substr(0, kReasonBytes - 1); // the memory after it is zero, which ends the text
    std::memcpy(shared_->failure, kept.data(), kept.size());
    shared_->failure_state.store(kIsWritten, std::memory_order_release);
  }
  constexpr int kMostPauses = 100;
  const Patience waiting = patience();
  for (int i = 0; i < kMostPauses && shared_->failure_state.load(std::memory_order_acquire) != kIsWritten; ++i)
    waiting.pause();
  shared_->abort.store(1, std::memory_order_release);
}

std::uint32_t* SharedMemoryGroup::abort_word() const noexcept {
  return reinterpret_cast<std::uint32_t*>(&shared_->abort);
}

} // namespace mc2::executor
