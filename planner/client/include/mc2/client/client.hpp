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

/// The code of an Error if the service does not answer, or does not answer what was asked.
inline constexpr ErrorCode kUnavailable = ErrorCode::Unsupported;

/// What those who run a program call its settings: messages name them.
struct SettingNames {
  std::string token = "MC2_SERVER_TOKEN or --token-file";
  std::string ca_file = "--server-ca";
  std::string without = "leave out the server"; ///< how to do without the service
};

/// Where a service is and how to call it.
struct Options {
  /// "http://host:port" or "https://...", with a path before /v1 if there is one. Or "unix:/run/mc2/mc2.sock" for a
  /// service on this machine (mc2 serve --unix-socket): several times faster, since connections stay open
  std::string url;
  std::string token;                           ///< bearer token; empty: none is sent
  std::filesystem::path ca_file;               ///< trusted certificates (PEM) for https; empty: those of the system
  std::chrono::milliseconds deadline{10'000};  ///< of a whole call, from resolving the name to the last byte
  std::size_t max_answer_bytes = 64ULL << 20U; ///< a longer answer is refused while it arrives
  SettingNames names = {};

  /// Errors: InvalidSpec naming the option.
  [[nodiscard]] Result<void> validate() const;
};

using finder::PlanQuestion;

/// Settings of one call.
struct AskOptions {
  std::optional<std::int64_t> epoch = std::nullopt;                 ///< asks for the answer of this epoch
  std::optional<std::chrono::milliseconds> deadline = std::nullopt; ///< set: replaces Options::deadline
  std::stop_token stop = {};                                        ///< ends the call early
  std::string deadline_name = {}; ///< the setting that the deadline comes from, for messages; empty: none
};

/// A request that another client made, to be sent on.
struct ForwardedRequest {
  std::string method, target, content_type, body;
  std::vector<std::pair<std::string, std::string>> headers = {}; ///< further headers that matter, e.g. If-Match
};
struct ForwardedAnswer {
  int status = 0;
  std::string content_type, body, location;
};

/// Calls one plan service (`mc2 serve`), over HTTP by cpprestsdk's http_client or over a Unix socket. The store's codec
/// reads the documents, and their digests are verified.
/// Errors of every call, naming the URL and what to do: kUnavailable if the connection is refused, the answer is late,
/// cut short or too large, its status is 5xx, or the server is no plan service; InvalidSpec if the service does not
/// accept the token; Malformed, NewerVersion and Mismatch if the answer cannot be read; otherwise the code in the
/// service's problem document.
/// Memory: a body takes at most Options::max_answer_bytes. cpprestsdk holds headers and each chunk of a body as a whole
/// before it hands them on; only the deadline limits their size.
/// Threads: safe to share. cpprestsdk runs its I/O on one pool per process. The pool gets 2 threads unless the program
/// sized it before.
class Client {
 public:
  /// Makes a client without connecting yet. Errors: as Options::validate.
  [[nodiscard]] static Result<Client> open(const Options& options);

  [[nodiscard]] const std::string& url() const noexcept;

  /// The service's plan for a question. With AskOptions::epoch: the answer that the service had at that epoch.
  /// Errors beside those above: Stale if the service does not know the answer of that epoch any more; Mismatch for a
  /// plan of another operator, machine or epoch.
  [[nodiscard]] Result<store::PlanAnswer> find_plan(const PlanQuestion& question, const AskOptions& ask = {}) const;
  /// A kept plan by its digest, or a unique prefix of at least 6 digits. Errors: NotFound; InvalidSpec if the text is
  /// not a digest or prefix.
  [[nodiscard]] Result<store::StoredPlan> find_plan(const std::string& digest_prefix) const;
  /// A kept model by its digest, or a unique prefix of at least 6 digits. Errors: as find_plan(digest_prefix).
  [[nodiscard]] Result<planner::CostModel> find_model(const std::string& digest_prefix) const;
  /// The kept model of exactly this operator on this machine, else the one for another length of the cut axis that
  /// Store::find_model would choose. Errors: NotFound.
  [[nodiscard]] Result<planner::CostModel> find_model(const planner::OpSpec& op,
                                                      const planner::Fingerprint& machine) const;

  /// The changes to the service's documents since its store had this epoch. If there are none yet, waits for them for
  /// up to `patience` (at most a minute). Without an epoch: no changes, but the epoch to start from. Errors: Stale if
  /// the epoch is too long ago or of another store; the caller must then ask for everything again.
  [[nodiscard]] Result<store::Changes> changes_since(std::optional<std::int64_t> epoch,
                                                     std::chrono::milliseconds patience,
                                                     const std::stop_token& stop = {}) const;

  // For a replica of the service (docs/service.md). Errors of rows_since(), require_position() and snapshot():
  // InvalidSpec if the service's version of mc2 is not this one's.

  /// As store::Store::rows_since, with the same errors. Waits for changes as changes_since() does.
  [[nodiscard]] Result<store::Changes> rows_since(const store::Position& position, std::chrono::milliseconds patience,
                                                  const std::stop_token& stop = {}) const;
  /// Asks whether the service's store has had this position. Errors: Mismatch if it is a position of another store;
  /// Stale if the service cannot tell, because its store has gone far beyond it.
  [[nodiscard]] Result<void> require_position(const store::Position& position, const std::stop_token& stop = {}) const;
  /// The bytes of a store file that holds the service's documents (store/backup.hpp): at most
  /// Options::max_answer_bytes. The deadline is ten minutes.
  [[nodiscard]] Result<std::string> snapshot(const std::stop_token& stop = {}) const;
  /// Sends another client's request on with the token of this client. Returns the service's answer, whatever its
  /// status. The deadline is one minute.
  [[nodiscard]] Result<ForwardedAnswer> forward(const ForwardedRequest& request,
                                                const std::stop_token& stop = {}) const;

  /// Keeps a plan at the service in place of an earlier one with the same key. Returns its digest.
  /// @param purpose  as store::PlanKey::purpose
  [[nodiscard]] Result<std::string> put_plan(const planner::Plan& plan,
                                             const std::string& purpose = store::PlanKey{}.purpose) const;
  /// Keeps a model at the service in place of an earlier one. Returns its digest.
  [[nodiscard]] Result<std::string> put_model(const planner::CostModel& model) const;
  /// Adds the result of a race unless the service has it already. Returns whether it was new.
  [[nodiscard]] Result<bool> add_measurement(const store::MeasurementRecord& record) const;
  /// Adds samples to those that the service keeps. Returns their number.
  [[nodiscard]] Result<std::int64_t> add_samples(const planner::Profile& profile) const;

 private:
  struct Impl;
  explicit Client(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_; ///< shared by copies of a client
};

/// Returns the text of rank 0 on every rank, e.g. by MPI_Bcast; the texts of other ranks are ignored. Collective.
using Broadcast = std::function<std::string(const std::string& text_of_rank_0)>;

/// Finds the same plan on all ranks of a job, even if the service's plan is replaced meanwhile. Rank 0 asks first; the
/// others then ask for the answer of the same epoch. A rank that gets another plan, or none, fails. Collective: all
/// ranks call with the same question.
/// Errors: as Client::find_plan; on the other ranks also kUnavailable (rank 0), with the text of rank 0's error, and
/// Mismatch for another plan than rank 0's.
[[nodiscard]] Result<store::PlanAnswer> find_plan_as_world(const Client& client, const PlanQuestion& question, int rank,
                                                           const Broadcast& broadcast);

} // namespace mc2::client

#pragma GCC visibility pop
