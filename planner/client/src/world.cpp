#include <charconv>

#include "mc2/client/client.hpp"

namespace mc2::client {
namespace {

constexpr std::string_view kFailed = "failed ";

/// The message of rank 0 to the others: "EPOCH DIGEST", or why it has no plan.
std::string told_by_rank_0(const Result<store::PlanAnswer>& answer) {
  if (!answer) return std::string(kFailed) + answer.error().text();
  return std::to_string(answer.value().epoch) + " " + answer.value().digest;
}

} // namespace

Result<store::PlanAnswer> find_plan_as_world(const Client& client, const PlanQuestion& question, int rank,
                                             const Broadcast& broadcast) {
  if (rank == 0) {
    auto answer = client.find_plan(question);
    static_cast<void>(broadcast(told_by_rank_0(answer)));
    return answer;
  }
  const std::string told = broadcast({});
  if (told.starts_with(kFailed)) return Error{kUnavailable, "rank 0", told.substr(kFailed.size())};
  std::int64_t epoch = 0;
  const auto [end, fault] = std::from_chars(told.data(), told.data() + told.size(), epoch);
  if (fault != std::errc() || end == told.data() + told.size() || *end != ' ')
    return Error{ErrorCode::Mismatch, "rank 0", "told no epoch; every rank must call find_plan_as_world"};
  auto answer = client.find_plan(question, {.epoch = epoch});
  if (answer && answer.value().digest != std::string_view(end + 1, told.data() + told.size()))
    return Error{ErrorCode::Mismatch, client.url(),
                 "gave rank " + std::to_string(rank) + " another plan than rank 0 for one epoch"};
  return answer;
}

} // namespace mc2::client
