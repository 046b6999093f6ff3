#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/finder/models.hpp"
#include "mc2/finder/question.hpp"
#include "mc2/finder/shared_layers.hpp"

#include "mc2/store/answer.hpp"
#pragma GCC visibility push(default)

namespace mc2::finder {

/// Where a plan came from.
enum class Origin : std::uint8_t {
  Given,   ///< a document that the caller named
  Service, ///< a plan service: its answer of now, or an earlier one that the client kept
  Kept,    ///< a store: the plan was tuned on the machine
  Model,   ///< a model: this process made the plan from it
};

[[nodiscard]] std::string_view to_string(Origin origin) noexcept;

/// A plan, where it came from, and why the places that were asked earlier had none.
struct FoundPlan {
  store::StoredPlan stored; ///< has a date only if a store or service kept the plan
  std::string source;       ///< for people, e.g. "service http://plans:8471, tuned plan of epoch 12"
  Origin origin = Origin::Given;
  /// The plan is predicted from measurements of another operator, or outside the range that was measured. A plan from
  /// any other place that is not a stopgap is preferred.
  bool is_stopgap = false;
  std::vector<std::string> misses = {};                     ///< "NAME: reason" of each place without, in order asked
  std::optional<store::Staleness> staleness = std::nullopt; ///< of a kept plan, for a question that names no variant
  bool passed_over_damage = false; ///< one of the misses is a document that could not be read; people should know
};

/// A plan that no store holds, in the form of a stored one: with its document and digest, but without a date.
[[nodiscard]] store::StoredPlan unkept(planner::Plan plan);

/// Whether a plan that was made from a model, by a service or here, is a stopgap, judged by the plan alone: it is
/// predicted outside the measured range or by a model of another n and k, and was never run.
[[nodiscard]] bool is_stopgap(const planner::Plan& plan) noexcept;

/// Why no plan that was made before, here or by a service, answers a question with `time_lanes`.
[[nodiscard]] Error not_at_present_speed();

/// The answer of a service as a found plan. It must be for the operator and machine that were asked for.
[[nodiscard]] FoundPlan served_plan(const store::PlanAnswer& answer, std::string source);

/// A place where plans come from. Threads: several threads may call `find` at once.
struct PlanSource {
  std::string name;
  std::function<Result<FoundPlan>(const PlanQuestion&)> find;
};

/// Finds a plan. The one rule for where plans come from, shared by the program, the service, host programs and Python.
/// Asks the places in the order given, usually plan documents, a service, plans kept by tuning, then models (given,
/// kept, of another n and k). The first plan is the answer, except that a stopgap is used only if every later place
/// lacks a plan that is not a stopgap; of several stopgaps the first is used. FoundPlan::misses names a stopgap that
/// was passed over.
///
/// Options equal to the machine's defaults (planner::default_options_on) count as unset. A kept plan answers only for
/// the options that it was tuned with. The number of runners-up that is asked for does not count as an option here: a
/// kept plan keeps the runners-up that it has. A document that is damaged, unreadable, of a newer version or stale is
/// passed over. The reason is in FoundPlan::misses, which every door shows or logs, and `mc2 db check` names the
/// document.
/// Errors: InvalidSpec and Cancelled at once unless a stopgap was found, since no other place would do better.
/// Otherwise the reasons of all places in one line, with the code of the first place that held something it could not
/// read, else with the code of the last place.
[[nodiscard]] Result<FoundPlan> find_plan(std::span<const PlanSource> places, PlanQuestion question);

/// Checks that a plan is for the operator, machine, counts of rows and, if there is one, variant that the question asks
/// for. Errors: NotFound for another operator, counts or variant; Stale for another machine.
[[nodiscard]] Result<void> require_asked(const planner::Plan& plan, const PlanQuestion& question);

/// A place that has this one plan, and answers only for the plan's own operator and machine.
[[nodiscard]] PlanSource given_plan(std::string name, planner::Plan plan);

/// As given_plan(), for the document in a file, which this call reads.
/// Errors: NotFound if the file cannot be opened; InvalidSpec for a directory; those of store::decode_plan. All name
/// the file.
[[nodiscard]] Result<PlanSource> plan_file(const std::filesystem::path& path);

/// The purpose under which tuning keeps the plan for this question (store::PlanKey). A plan of one variant, or for
/// options other than the machine's, has a purpose of its own. So it does not replace the best plan of all, and the
/// same question finds it again.
[[nodiscard]] std::string tuned_purpose(const PlanQuestion& question);

/// Checks that the purpose is the tuned_purpose() of some question, and that the plan answers it: it is of the
/// question's variant, and within its numbers of blocks and of rows. Errors: InvalidSpec with the field "purpose".
[[nodiscard]] Result<void> require_purpose(const planner::Plan& plan, const std::string& purpose);

/// The plans kept by tuning. Answers with a plan of the question's variant and options if it names any. Has no plan for
/// a question with counts of rows or with `time_lanes`.
[[nodiscard]] PlanSource kept_plans(Kept kept);

/// Makes the plan itself, by find_model() and plan_with(). For a question with `time_lanes` that has a kept plan that
/// was raced, the choice stays the race's, and only its times are predicted anew.
[[nodiscard]] PlanSource own_planner(ModelPlaces places);

} // namespace mc2::finder

#pragma GCC visibility pop
