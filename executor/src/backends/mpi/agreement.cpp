#include "backends/mpi/agreement.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <thread>

#include "backends/mpi/check.hpp"
#include "mc2/planner/text.hpp"
#include "rank_agreement.hpp"
#include "texts.hpp"

namespace mc2::executor::mpi {
namespace {

constexpr std::chrono::microseconds kYieldFor{2000}; // processes that start a run together arrive within this time
constexpr std::chrono::microseconds kSleep{100};
constexpr std::size_t kProgressBytes = 96;

} // namespace

std::uint64_t digest_of(std::string_view text) noexcept {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  for (const char letter : text) digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return digest;
}

Agreement::Agreement(std::chrono::milliseconds deadline)
    : channel_(deadline),
      roll_call_channel_(deadline),
      deadline_(deadline),
      digests_(static_cast<std::size_t>(World::get().size())) {}

void Agreement::wait(std::span<MPI_Request> requests, const char* what) {
  const auto end = Clock::now() + deadline_;
  const Patience patience(kSleep, kYieldFor);
  wait_all(requests, [&] {
    if (Clock::now() >= end)
      abort_job(std::string("waited for the other ranks to ") + what + ", past the deadline; " +
                roll_call(std::string("begun to ") + what));
    patience.pause();
  });
}

std::vector<std::string> Agreement::gather_unless_same(std::string_view text) {
  const std::uint64_t own = digest_of(text);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&own, 1, MPI_UINT64_T, digests_.data(), 1, MPI_UINT64_T, channel_.get(), &request),
        "MPI_Iallgather");
  wait({&request, 1}, "agree");
  if (std::ranges::all_of(digests_, [&](std::uint64_t digest) { return digest == own; })) return {};
  return gather_texts(text);
}

Result<void> Agreement::agree(std::string_view text) {
  const auto texts = gather_unless_same(text);
  return texts.empty() ? Result<void>() : check_same_call(texts);
}

Result<void> Agreement::agree_on_machine(const planner::Fingerprint& own) {
  const auto texts = gather_unless_same(own.canonical_text());
  if (texts.empty()) return {};
  std::vector<std::string> names;
  for (int rank = 0; rank < World::get().size(); ++rank) names.push_back(World::get().name_of(rank));
  return check_same_machine(texts, names);
}

Result<void> Agreement::share_error(const Result<void>& own) {
  const std::string text = error_text(own);
  int length = static_cast<int>(text.size());
  int longest = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(&length, &longest, 1, MPI_INT, MPI_MAX, channel_.get(), &request), "MPI_Iallreduce");
  wait({&request, 1}, "share errors");
  return longest == 0 ? Result<void>() : first_error(own, gather_texts(text));
}

std::vector<std::int64_t> Agreement::gather(std::span<const std::int64_t> own) {
  std::vector<std::int64_t> all(digests_.size() * own.size());
  const int count = static_cast<int>(own.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(own.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T, channel_.get(), &request),
        "MPI_Iallgather");
  wait({&request, 1}, "exchange numbers");
  return all;
}

void Agreement::maximum(std::span<std::int64_t> values) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX,
                       channel_.get(), &request),
        "MPI_Iallreduce");
  wait({&request, 1}, "finish the run");
}

std::vector<std::string> Agreement::gather_texts(std::string_view own) {
  const std::size_t count = digests_.size();
  const int length = static_cast<int>(std::min(own.size(), static_cast<std::size_t>(INT_MAX) / count));
  std::vector<int> lengths(count), offsets(count);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, channel_.get(), &request), "MPI_Iallgather");
  wait({&request, 1}, "compare");
  int end = 0;
  for (std::size_t rank = 0; rank < count; ++rank) {
    offsets[rank] = end;
    end += lengths[rank];
  }
  std::string all(static_cast<std::size_t>(end), '\0');
  check(MPI_Iallgatherv(own.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(), MPI_CHAR,
                        channel_.get(), &request),
        "MPI_Iallgatherv");
  wait({&request, 1}, "compare");
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < count; ++rank) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[rank]), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

std::string Agreement::roll_call(const std::string& own_progress) noexcept {
  const int own_rank = World::get().rank(), count = World::get().size();
  std::array<char, kProgressBytes> own{};
  std::strncpy(own.data(), own_progress.c_str(), own.size() - 1);
  std::vector<std::array<char, kProgressBytes>> answers(static_cast<std::size_t>(count));
  std::vector<MPI_Request> sends(answers.size(), MPI_REQUEST_NULL), answered(answers.size(), MPI_REQUEST_NULL);
  const MPI_Comm comm = roll_call_channel_.get();
  for (int peer = 0; peer < count; ++peer) {
    if (peer == own_rank) continue;
    const auto at = static_cast<std::size_t>(peer);
    MPI_Irecv(answers[at].data(), kProgressBytes, MPI_CHAR, peer, 0, comm, &answered[at]);
    MPI_Isend(own.data(), kProgressBytes, MPI_CHAR, peer, 0, comm, &sends[at]);
  }
  const auto end = Clock::now() + std::chrono::milliseconds{500};
  for (int is_done = 0; is_done == 0 && Clock::now() < end;) {
    MPI_Testall(count, answered.data(), &is_done, MPI_STATUSES_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  std::vector<std::string> texts;
  for (std::size_t peer = 0; peer < answers.size(); ++peer) {
    if (static_cast<int>(peer) == own_rank) continue;
    const bool is_missing = answered[peer] != MPI_REQUEST_NULL && answers[peer][0] == '\0';
    texts.push_back(World::get().name_of(static_cast<int>(peer)) +
                    (is_missing ? " does not answer" : " had " + std::string(answers[peer].data())));
  }
  return list_text(texts);
}

} // namespace mc2::executor::mpi
