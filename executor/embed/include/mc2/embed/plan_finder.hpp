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

/// The plan of one block: the machine's backend runs matmul and collective one after the other, as a program without
/// mc2 does. It is correct on every machine. Its times are 0, because no model predicts them; its strategy is "given".
/// Errors: InvalidSpec (op, Fingerprint::require_ranks()); UnknownName if this build has no backend of the
/// fingerprint's name; Unsupported.
[[nodiscard]] Result<planner::Plan> uncut_plan(const planner::OpSpec& op, const planner::Fingerprint& machine);

/// Where a PlanFinder looks. The order is: plan files, service, kept plans (stores), own planner (models).
struct FinderOptions {
  std::vector<std::filesystem::path> plan_files;
  std::optional<client::Options> service = std::nullopt;
  client::ServiceOptions waiting = {};
  /// Read, and made when missing, for plans of the service. If it may not be written, it is only read, or left out if
  /// it is missing or if no file can be there (a directory, /dev/null); find() then says why it was left out. One that
  /// is damaged, of a newer version or may not be read is an error of open(), even if there are other places: its plans
  /// would be missed silently. Empty: none.
  std::filesystem::path store = {};
  /// Further stores that are only read, lowest priority first.
  std::vector<std::filesystem::path> read_only_stores = {};
  std::vector<planner::CostModel> models = {}; ///< the own planner uses these before the models in the stores
  /// Whether a kept model of another n and k may answer (planner/transfer.hpp). Its plans are marked as extrapolated.
  bool may_transfer = true;
  bool is_disabled = false; ///< every answer is the uncut plan
  LogSink log = {}; ///< debug: every chosen plan; warning: damaged or failing places; error: failures of devices
                    ///< while they are closed (executor::FailureLog). Empty: nothing is logged
  /// A remembered plan of this age is looked up anew, so that plans that were tuned or served meanwhile are found. It
  /// is looked up anew earlier if the service reports changed answers (ServiceOptions::watches).
  std::chrono::milliseconds refresh{30'000};
  std::size_t cached_plan_count = 4096; ///< at least 1; one plan more, and all remembered plans are forgotten
};

/// The options that the environment names. read_only_stores are system_stores().
[[nodiscard]] FinderOptions finder_options(const Environment& environment);

/// Finds plans in several places and remembers them. Finding a remembered plan costs one look-up under a shared lock,
/// which is held for nothing else (times: mc2-bench embedding). Any other plan costs as much as the places take: at
/// most the service's patience, plus a query of the store and one planning, about 1 ms. Nothing is measured. Threads:
/// safe to share. After fork() the child's calls are refused.
class PlanFinder {
 public:
  /// Opens the store and reads the plan files. Sends no question to the service yet.
  /// Errors: InvalidSpec (options, client::Client::open); as finder::plan_file; as store::Layers::open, e.g.
  /// NewerVersion.
  /// Throws SystemError as store::Store::open.
  [[nodiscard]] static Result<PlanFinder> open(FinderOptions options);

  PlanFinder(PlanFinder&&) noexcept;
  PlanFinder& operator=(PlanFinder&&) noexcept;
  ~PlanFinder();

  /// The plan of the first place that has one, never null. An equal question gets the same plan until `refresh` has
  /// passed or the service reports changed answers. A question with time_lanes is answered anew each time.
  /// Errors: InvalidSpec (question); as finder::find_plan, with every place's reason in one line; a caller that gets no
  /// plan runs uncut_plan(). Unsupported in a child of the process that opened the finder.
  [[nodiscard]] Result<std::shared_ptr<const finder::FoundPlan>> find(const finder::PlanQuestion& question) const;
  /// As above for a question without options. Operator and machine are copied only if no plan is remembered.
  [[nodiscard]] Result<std::shared_ptr<const finder::FoundPlan>> find(const planner::OpSpec& op,
                                                                      const planner::Fingerprint& machine) const;

  /// Plans every m from first_m to the question's m, with the given and the kept models. This takes about 0.2 to 1.4 s
  /// for 16,384 values of m, so a program asks once and looks up each m in the answer (planner::PlanRanges::find). The
  /// answer is not remembered.
  /// Errors: as finder::find_ranges. Unsupported in a child of the process that opened the finder.
  [[nodiscard]] Result<planner::PlanRanges> find_ranges(const finder::PlanQuestion& question,
                                                        std::int64_t first_m) const;

 private:
  struct Impl;
  explicit PlanFinder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::embed

#pragma GCC visibility pop
