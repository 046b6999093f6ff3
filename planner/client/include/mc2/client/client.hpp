#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "mc2/finder/question.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/answer.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"

#pragma GCC visibility push(default)

namespace mc2::client {

/// What an Error of a service that does not answer, or not with what was asked for, carries.
inline constexpr ErrorCode kUnavailable = ErrorCode::Unsupported;

/// Where a service is and how it is spoken to.
struct Options {
  /// "http://host:port" or "https://..."; a path before /v1 is kept. "unix:/run/mc2/mc2.sock" for a service of this
  /// machine (mc2 serve --unix-socket), which is asked by connections that stay open: several times faster
  std::string url;
  std::string token;                           ///< bearer token; empty: none is sent
  std::filesystem::path ca_file;               ///< trusted certificates (PEM) for https; empty: those of the system
  std::chrono::milliseconds deadline{10'000};  ///< for a whole call, from resolving the name to the last byte
  std::size_t max_answer_bytes = 64ULL << 20U; ///< a longer answer is refused while it arrives

  /// Errors: InvalidSpec naming the option.
  [[nodiscard]] Result<void> validate() const;
};

using finder::PlanQuestion;

/// How one question is asked.
struct AskOptions {
  std::optional<std::int64_t> epoch = std::nullopt;                 ///< of an answer that another rank has got
  std::optional<std::chrono::milliseconds> deadline = std::nullopt; ///< instead of Options::deadline
  std::stop_token stop = {};                                        ///< gives the call up
};

/// A request that somebody else made.
struct ForwardedRequest {
  std::string method, target, content_type, body;
  std::vector<std::pair<std::string, std::string>> headers = {}; ///< others that it depends on, e.g. If-Match
};
struct ForwardedAnswer {
  int status = 0;
  std::string content_type, body, location;
};

/// One plan service (`mc2 serve`), asked through cpprestsdk's http_client, or over its Unix socket. Documents are read
/// by the store's codec and their digests are verified. Errors of every call, all naming the URL and what to do:
/// kUnavailable (refused, late, cut short, too large, 5xx, not this service); InvalidSpec (the service does not take
/// the token); Malformed, NewerVersion and Mismatch for what cannot be read; otherwise the code that the service's
/// problem document names. Memory: a body takes at most Options::max_answer_bytes; cpprestsdk holds headers, and each
/// chunk of a body, whole before it hands them on, so those are bounded by what arrives within the deadline only.
/// Threads: safe to share. cpprestsdk runs its I/O on a pool that the process has once; it gets 2 threads here unless
/// the program has sized it before.
class Client {
 public:
  /// Connects to nothing yet. Errors: as Options::validate.
  [[nodiscard]] static Result<Client> open(const Options& options);

  [[nodiscard]] const std::string& url() const noexcept;

  /// The service's plan for a question. With an epoch: the answer of that epoch, or Stale when it is no longer known.
  /// Errors beside those above: Mismatch for a plan of another operator or machine.
  [[nodiscard]] Result<store::PlanAnswer> find_plan(const PlanQuestion& question, const AskOptions& ask = {}) const;
  /// A kept plan by its digest, or a unique prefix of at least 6 digits. Errors: NotFound; InvalidSpec for what is no
  /// digest.
  [[nodiscard]] Result<store::StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// A kept model by its digest, or a unique prefix of at least 6 digits. Errors: as above.
  [[nodiscard]] Result<planner::CostModel> find_model(const std::string& digest_prefix) const;
  /// The kept model of exactly this operator on this machine, or else of the length of its cut axis that
  /// Store::find_model would choose. Errors: NotFound.
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& machine) const;

  /// What became of the service's documents since its store had this epoch; where nothing has yet, waits for `patience`
  /// (at most a minute). Without an epoch: no changes, and the epoch to begin with. Errors: Stale for an epoch that is
  /// too long ago, or of another store: ask for everything anew.
  [[nodiscard]] Result<store::Changes> changes_since(std::optional<std::int64_t> epoch,
                                                     std::chrono::milliseconds patience,
                                                     const std::stop_token& stop = {}) const;

  // What a replica of the service needs (docs/service.md). Errors of the first two: InvalidSpec for a service of
  // another version than this mc2's.

  /// As store::Store::rows_since, waiting as changes_since() does. Errors: likewise.
  [[nodiscard]] Result<store::Changes> rows_since(const store::Position& position, std::chrono::milliseconds patience,
                                                  const std::stop_token& stop = {}) const;
  /// The service's documents as a store's file (store/backup.hpp): its bytes, at most Options::max_answer_bytes, within
  /// ten minutes.
  [[nodiscard]] Result<std::string> snapshot(const std::stop_token& stop = {}) const;
  /// Sends another client's request on, with this one's token, and hands back whatever the service answers within a
  /// minute.
  [[nodiscard]] Result<ForwardedAnswer> forward(const ForwardedRequest& request,
                                                const std::stop_token& stop = {}) const;

  /// Each keeps a document at the service in place of an earlier one; returns its digest.
  /// @param purpose  what the plan is kept for: store::PlanKey
  [[nodiscard]] Result<std::string> put_plan(const planner::Plan& plan,
                                             const std::string& purpose = store::PlanKey{}.purpose) const;
  [[nodiscard]] Result<std::string> put_model(const planner::CostModel& model) const;
  /// Adds the result of a race, unless the service has it. Returns whether it was new.
  [[nodiscard]] Result<bool> add_measurement(const store::MeasurementRecord& record) const;
  /// Adds samples to those that the service keeps; returns how many.
  [[nodiscard]] Result<std::int64_t> add_samples(const planner::Profile& profile) const;

 private:
  struct Impl;
  explicit Client(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_; ///< shared by copies of a client
};

/// Gives every rank the text that rank 0 gives, e.g. around MPI_Bcast. Collective.
using Broadcast = std::function<std::string(const std::string& text_of_rank_0)>;

/// One plan for all ranks of a job, whatever is replaced at the service meanwhile: rank 0 asks, the others ask for its
/// epoch, and a rank that gets another plan, or none, fails. Collective: every rank calls with the same question.
/// Errors: as Client::find_plan; on the other ranks also what rank 0 failed with, and Mismatch.
[[nodiscard]] Result<store::PlanAnswer> find_plan_as_world(const Client& client, const PlanQuestion& question, int rank,
                                                           const Broadcast& broadcast);

} // namespace mc2::client

#pragma GCC visibility pop
