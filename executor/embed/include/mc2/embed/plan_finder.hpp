#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "mc2/client/client.hpp"
#include "mc2/client/plan_service.hpp"
#include "mc2/embed/environment.hpp"
#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::embed {

/// One block, which the backend of the machine runs as matmul and collective one after the other: correct everywhere,
/// and what a program without mc2 does. Its times are 0, because nothing predicts them; its strategy is "given".
/// Errors: InvalidSpec (op); UnknownName for a fingerprint without a backend of this build; Unsupported.
[[nodiscard]] Result<planner::Plan> uncut_plan(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// Where a PlanFinder looks, in this order: files, service, kept plans, own planner.
struct FinderOptions {
  std::vector<std::filesystem::path> plan_files;
  std::optional<client::Options> service = std::nullopt;
  client::ServiceOptions waiting = {};
  std::filesystem::path store = {};                         ///< read and written, made when missing; empty: none
  std::vector<std::filesystem::path> read_only_stores = {}; ///< weakest first; used beside `store` only
  std::vector<planner::CostModel> models = {}; ///< that the own planner takes before those kept in the store
  /// Whether a kept model of another n and k may answer (planner/transfer.hpp), which marks the plan as extrapolated.
  bool may_transfer = true;
  bool is_disabled = false; ///< every answer is the uncut plan
  LogSink log = {};         ///< debug: every chosen plan; warning: what is passed over; error: failures of devices
                            ///< that are closed (executor::FailureLog). Empty: nothing is told
  /// A found plan of this age is looked up anew: what was tuned or served meanwhile takes its place. So is one that is
  /// older than the last change of what the service answers, which is watched (ServiceOptions::watches).
  std::chrono::milliseconds refresh{30'000};
  std::size_t cached_plan_count = 4096; ///< at least 1; when there are more, all are forgotten
};

/// The options that the environment names, with the system's stores.
[[nodiscard]] FinderOptions finder_options(const Environment& environment);

/// Finds plans in several places and remembers them. A plan that is remembered costs one look under a shared lock
/// that is held for no other work (mc2-bench embedding); one that is not costs what the places take: at most the
/// service's patience, a look into the store and one planning, about 1 ms. Nothing is measured here.
/// Threads: safe to share. After fork() the child's calls are refused.
class PlanFinder {
 public:
  /// Opens the store and reads the files; asks nobody.
  /// Errors: InvalidSpec (options, client::Client::open); as finder::plan_file; as store::Layers::open, NewerVersion
  /// among them.
  /// Throws SystemError as store::Store::open.
  [[nodiscard]] static Result<PlanFinder> open(FinderOptions options);

  PlanFinder(PlanFinder&&) noexcept;
  PlanFinder& operator=(PlanFinder&&) noexcept;
  ~PlanFinder();

  /// The first plan found, never null. The same question gives the same plan until `refresh` has passed
  /// or the service has another one;
  /// one that has the uncut parts timed is answered anew each time.
  /// Errors: InvalidSpec (question); as finder::find_plan, with every place's reason in one line: a caller without a
  /// plan runs uncut_plan(). Unsupported in a child of the process that opened it.
  [[nodiscard]] Result<std::shared_ptr<const finder::FoundPlan>> find(const finder::PlanQuestion& question) const;
  /// As above, of a question without options, which is copied only where the plan is not remembered.
  [[nodiscard]] Result<std::shared_ptr<const finder::FoundPlan>> find(const planner::OpSpec& op,
                                                                      const planner::Fingerprint& machine) const;

  /// The plans of all m from first_m to the question's, by the models given and kept: some 0.2 to 1.4 s for 16,384 m,
  /// so a program asks once and then looks each m up in the answer (planner::PlanRanges::find). Not remembered.
  /// Errors: as finder::find_ranges. Unsupported in a child of the process that opened it.
  [[nodiscard]] Result<planner::PlanRanges> find_ranges(const finder::PlanQuestion& question,
                                                        std::int64_t first_m) const;

 private:
  struct Impl;
  explicit PlanFinder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::embed

#pragma GCC visibility pop
