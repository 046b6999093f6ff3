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
  Service, ///< a plan service, now or as it answered before
  Kept,    ///< a store: tuned on the machine
  Model,   ///< made here from a model
};

[[nodiscard]] std::string_view to_string(Origin origin) noexcept;

/// A plan, where it is from, and why the places asked before had none.
struct FoundPlan {
  store::StoredPlan stored; ///< without a date unless it was kept or served as kept
  std::string source;       ///< for people, e.g. "service http://plans:8471, tuned plan of epoch 12"
  Origin origin = Origin::Given;
  /// Predicted from what was measured for another operator, or outside what was measured: any place that has a plan of
  /// its own is preferred.
  bool is_stopgap = false;
  std::vector<std::string> misses = {};                     ///< "NAME: reason", in the order in which they were asked
  std::optional<store::Staleness> staleness = std::nullopt; ///< of a kept plan, where it was asked
  bool passed_over_damage = false; ///< one of the misses is a document that could not be read: tell people
};

/// A plan that no store holds, as one would hold it: with its document and digest, without a date.
[[nodiscard]] store::StoredPlan unkept(planner::Plan plan);

/// Of a plan that a service made, as far as the plan tells: predicted outside what was measured, and never run.
[[nodiscard]] bool is_stopgap(const planner::Plan& plan) noexcept;

/// What a service answered, which is of the operator and machine that were asked for.
[[nodiscard]] FoundPlan served_plan(const store::PlanAnswer& answer, std::string source);

/// A place where plans come from. Threads: `find` may be called by several at once.
struct PlanSource {
  std::string name;
  std::function<Result<FoundPlan>(const PlanQuestion&)> find;
};

/// THE answer to "where does a plan come from", of the program, the service, host programs and Python. The places are
/// asked in turn: plan documents, a service, plans kept by tuning, models (given, kept, of another n and k). The first
/// plan is the answer, but one that is only a stopgap waits until no other place has a plan of its own.
///
/// Options that are the machine's defaults (planner::default_options_on) are as none. A kept plan answers for the
/// options that it was tuned with; how many runners-up are asked for is no option in this, and a kept plan has those it
/// has. A document that is damaged, unreadable, of a newer version or stale is passed over: its place's reason stands
/// in FoundPlan::misses, which every door shows or logs, and `mc2 db check` names it. Errors: InvalidSpec and Cancelled
/// at once, for no other place would do better. Otherwise every place's reason in one line, with the code of the first
/// that held something it could not read, else of the last.
[[nodiscard]] Result<FoundPlan> find_plan(std::span<const PlanSource> places, PlanQuestion question);

/// Whether a plan is of the operator, machine and counts of rows that are asked for.
/// Errors: NotFound for another operator or counts; Stale for another machine.
[[nodiscard]] Result<void> require_asked(const planner::Plan& plan, const PlanQuestion& question);

/// A plan at hand, for its own operator and machine.
[[nodiscard]] PlanSource given_plan(std::string name, planner::Plan plan);

/// As given_plan(), from a document that is read now.
/// Errors: NotFound; InvalidSpec for a directory; as store::decode_plan, naming the file.
[[nodiscard]] Result<PlanSource> plan_file(const std::filesystem::path& path);

/// What tuning keeps the question's plan for (store::PlanKey): a plan of one variant, or of other options than the
/// machine's, does not replace the best of all, and the same question finds it again.
[[nodiscard]] std::string tuned_purpose(const PlanQuestion& question);

/// Plans kept by tuning, of the question's variant and options where it names such; none for counts of rows.
[[nodiscard]] PlanSource kept_plans(Kept kept);

/// A plan made here, as find_model() and plan_with() do.
[[nodiscard]] PlanSource own_planner(ModelPlaces places);

} // namespace mc2::finder

#pragma GCC visibility pop
