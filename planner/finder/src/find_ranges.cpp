#include "mc2/finder/find_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace mc2::finder {
namespace {

using planner::CutAxis;
using planner::OpSpec;
using planner::PlanRange;
using planner::PlanRanges;

PlanQuestion at_m(PlanQuestion question, std::int64_t m) {
  question.op.m = m;
  return question;
}

void add(PlanRanges& all, PlanRange range) {
  const bool is_next = !all.ranges.empty() && (all.gaps.empty() || all.gaps.back().last_m < all.ranges.back().first_m);
  if (is_next && all.ranges.back().rule == range.rule)
    all.ranges.back().extend(range);
  else
    all.ranges.push_back(std::move(range));
}

void add_gap(PlanRanges& all, std::int64_t first_m, std::int64_t last_m, const std::string& reason) {
  const bool is_next = !all.gaps.empty() && all.gaps.back().reason == reason &&
                       (all.ranges.empty() || all.ranges.back().last_m < all.gaps.back().first_m);
  if (is_next)
    all.gaps.back().last_m = last_m;
  else
    all.gaps.push_back({first_m, last_m, reason});
}

/// The nearest model answers: m is taken part by part, each by one model.
class Segments {
 public:
  Segments(const std::function<Result<FoundModel>(const PlanQuestion&)>& find, const PlanQuestion& question,
           std::int64_t first_m)
      : find_(find), question_(question), next_m_(first_m), step_(planner::m_step(question.op)) {
    result_.op = question.op;
    result_.op.m = question.op.m / step_ * step_;
    result_.fingerprint = question.machine;
    result_.first_m = first_m;
    skip_to_legal();
  }

  Result<PlanRanges> run() {
    while (next_m_ <= result_.op.m) {
      const PlanQuestion question = at_m(question_, next_m_);
      auto found = find_(question);
      if (!found && (found.error().code == ErrorCode::InvalidSpec || found.error().code == ErrorCode::Cancelled))
        return found.error();
      MC2_TRY(found ? plan(found.value()) : leave_out(question.op, found.error()));
    }
    if (result_.ranges.empty()) return *failure_;
    return std::move(result_);
  }

 private:
  void skip_to_legal() { next_m_ = planner::ceil_div(next_m_, step_) * step_; }

  Result<void> plan(const FoundModel& found) {
    const bool cuts_columns = planner::cut_axis(found.model.op) == CutAxis::Columns;
    const std::int64_t last_m = cuts_columns ? next_m_ : last_of(found);
    MC2_TRY(cuts_columns ? plan_one(found) : plan_rows(found, last_m));
    next_m_ = last_m + 1;
    skip_to_legal();
    return {};
  }
  /// The last m that the model answers for, from the next one on.
  [[nodiscard]] std::int64_t last_of(const FoundModel& found) const {
    const auto answers = [&](std::int64_t steps) {
      const auto there = find_(at_m(question_, steps * step_));
      return there && is_same_answer(there.value(), found);
    };
    return last_where(next_m_ / step_, result_.op.m / step_, answers) * step_;
  }
  Result<void> plan_one(const FoundModel& found) {
    MC2_ASSIGN(const auto plan, plan_with(found, at_m(question_, next_m_)));
    add(result_, planner::range_of(plan));
    ++result_.planned_count;
    return {};
  }
  /// The speed of later runs is learned for each m: that of its middle stands for an octave.
  Result<void> plan_rows(const FoundModel& found, std::int64_t last_m) {
    if (found.level.run_count == 0) return plan_at_one_speed(found, last_m);
    while (next_m_ <= last_m) {
      const std::int64_t end_m = std::min(2 * next_m_ - 1, last_m);
      const auto middle_m = static_cast<std::int64_t>(std::sqrt(static_cast<double>(next_m_ * end_m)));
      MC2_ASSIGN(const auto there, find_(at_m(question_, std::max(middle_m / step_ * step_, next_m_))));
      MC2_TRY(plan_at_one_speed(there, end_m));
      next_m_ = end_m + 1;
      skip_to_legal();
    }
    return {};
  }
  Result<void> plan_at_one_speed(const FoundModel& found, std::int64_t last_m) {
    const auto label = [&](planner::Plan plan) { return labelled(std::move(plan), found, question_); };
    MC2_ASSIGN(auto part, planner::plan_ranges(question_.op, next_m_, last_m, as_it_is_now(found),
                                               options_for(found, question_), label, question_.is_stopped));
    for (PlanRange& range : part.ranges) add(result_, std::move(range));
    result_.planned_count += part.planned_count;
    return {};
  }
  /// Rows without a model have none for any further m.
  Result<void> leave_out(const OpSpec& op, const Error& error) {
    if (!failure_) failure_ = error;
    if (planner::cut_axis(op) == CutAxis::Columns) {
      add_gap(result_, next_m_, next_m_,
              "blocks of so few rows are cut from n, and no model of such an m is at hand; each needs a profile of its "
              "own");
      ++next_m_;
      return {};
    }
    add_gap(result_, next_m_, result_.op.m, error.text());
    next_m_ = result_.op.m + 1;
    return {};
  }

  const std::function<Result<FoundModel>(const PlanQuestion&)>& find_;
  const PlanQuestion& question_;
  PlanRanges result_;
  std::int64_t next_m_;
  std::int64_t step_;
  std::optional<Error> failure_;
};

} // namespace

Result<PlanRanges> find_ranges(const std::function<Result<FoundModel>(const PlanQuestion&)>& find,
                               const PlanQuestion& question, std::int64_t first_m) {
  if (question.time_uncut)
    return Error{ErrorCode::InvalidSpec, "anchor", "times the uncut parts of one m; leave it out for a range of m"};
  MC2_TRY(planner::check_range(question.op, first_m, question.op.m, question.options.value_or(planner::PlanOptions())));
  return Segments(find, question, first_m).run();
}

Result<PlanRanges> find_ranges(const ModelPlaces& places, const PlanQuestion& question, std::int64_t first_m) {
  return find_ranges([&](const PlanQuestion& each) { return find_model(places, each); }, question, first_m);
}

} // namespace mc2::finder
