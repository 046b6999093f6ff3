#include "mc2/finder/find_ranges.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mc2::finder {
namespace {

using planner::CostModel;
using planner::CutAxis;
using planner::OpSpec;
using planner::PlanRange;
using planner::PlanRanges;

/// Over m that differ by at most this factor, the time per row of messages and waves changes little.
constexpr double kAlike = 1.06;
constexpr std::int64_t kTileRows = 128;

constexpr const char* kNeedsOwnModel =
    "blocks of so few rows are cut from n, which takes a model of the same m; profile each such m";

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

/// Why some m have no model.
struct CountedFailure {
  Error error;
  std::int64_t m_count = 0; ///< how many m have none for this reason
};

/// Whether two errors give the same reason. Their messages may name different m.
bool has_same_reason(const Error& one, const Error& other) {
  return one.code == other.code && one.field == other.field;
}

/// The largest value from `first` to `last` for which `holds` is true. `holds` must be true for `first`, and must stay
/// false from the first value on for which it is false.
template <typename Holds>
std::int64_t last_where(std::int64_t first, std::int64_t last, const Holds& holds) {
  if (first >= last || holds(last)) return std::max(first, last);
  while (last - first > 1) {
    const std::int64_t middle = first + (last - first) / 2;
    (holds(middle) ? first : last) = middle;
  }
  return first;
}

/// The answer for the m of index `first`, and how far it holds. Where columns are cut, it is for one m only. A
/// transferred model has waves up to the m that it was found for, and is the same below that; so it is found for
/// last_m.
template <typename MAt>
AnswerOverM answer_from(const FindModel& find, const PlanQuestion& question, const MAt& m_at, std::int64_t first,
                        std::int64_t last) {
  const PlanQuestion asked = at_m(question, m_at(first));
  AnswerOverM answer{asked.op.m, asked.op.m, find(asked)};
  if (planner::cut_axis(asked.op) == CutAxis::Columns) return answer;
  Result<FoundModel>& found = answer.found;
  const auto is_same = [&](std::int64_t i) {
    const auto there = find(at_m(question, m_at(i)));
    if (found && there) return is_same_answer(there.value(), found.value());
    return !found && !there && has_same_reason(there.error(), found.error());
  };
  answer.last_m = m_at(last_where(first, last, is_same));
  if (found && found.value().transfer) found = find(at_m(question, answer.last_m));
  return answer;
}

/// Goes through the range of m in segments; one model answers for all m of a segment.
class Segments {
 public:
  Segments(const FindModel& find, const PlanQuestion& question, std::int64_t first_m)
      : find_(find), question_(question), next_m_(first_m), step_(planner::m_step(question.op)) {
    result_.op = question.op;
    result_.op.m = question.op.m / step_ * step_;
    result_.fingerprint = question.machine;
    result_.first_m = first_m;
    skip_to_legal();
  }

  Result<PlanRanges> run() {
    const auto m_at = [&](std::int64_t steps) { return steps * step_; };
    while (next_m_ <= result_.op.m) {
      const auto [first_m, last_m, found] = answer_from(find_, question_, m_at, next_m_ / step_, result_.op.m / step_);
      if (!found && (found.error().code == ErrorCode::InvalidSpec || found.error().code == ErrorCode::Cancelled))
        return found.error();
      MC2_TRY(found ? plan(found.value(), last_m) : leave_out(found.error(), last_m));
      if (question_.on_planned) question_.on_planned(last_m);
      next_m_ = last_m + 1;
      skip_to_legal();
    }
    if (result_.ranges.empty()) return most_frequent_failure();
    return std::move(result_);
  }

 private:
  void skip_to_legal() { next_m_ = planner::ceil_div(next_m_, step_) * step_; }

  Result<void> plan(const FoundModel& found, std::int64_t last_m) {
    return planner::cut_axis(found.model.op) == CutAxis::Columns ? plan_one(found) : plan_rows(found, last_m);
  }
  Result<void> plan_one(const FoundModel& found) {
    MC2_ASSIGN(const auto plan, plan_with(found, at_m(question_, next_m_)));
    add(result_, planner::range_of(plan));
    ++result_.planned_count;
    return {};
  }
  Result<void> plan_rows(const FoundModel& found, std::int64_t last_m) {
    const auto label = [&](planner::Plan plan) { return labelled(std::move(plan), found, question_); };
    const auto model_from = [&](std::int64_t m) { return model_until(found, m, last_m); };
    MC2_ASSIGN(auto part, planner::plan_ranges(question_.op, next_m_, last_m, model_from, options_of(question_), label,
                                               question_.is_stopped, question_.on_planned));
    for (PlanRange& range : part.ranges) add(result_, std::move(range));
    result_.planned_count += part.planned_count;
    return {};
  }
  /// The model for the m from first_m on. If the model or the speed of later runs depends on m, it is the one for the
  /// last of a few similar m, and is valid up to there. The m that was profiled is never grouped with others.
  [[nodiscard]] planner::ModelUntil model_until(const FoundModel& found, std::int64_t first_m,
                                                std::int64_t last_m) const {
    const auto model_at = [&](std::int64_t m) {
      return as_it_is_now(found, at_m(question_, std::max(m / step_ * step_, first_m)).op);
    };
    const std::int64_t profiled_m = found.messages.profiled.m;
    if (first_m == profiled_m) return {first_m, model_at(first_m)};
    if (first_m < profiled_m) last_m = std::min(last_m, profiled_m - 1);
    const bool has_later_runs = found.ratios && !found.ratios->empty();
    const bool depends_on_m = has_later_runs || planner::depends_on_length(found.model, found.messages);
    if (depends_on_m) last_m = std::min(last_m, last_alike(first_m));
    return {last_m, model_at(last_m)};
  }
  /// The last m that is similar to first_m; the last that fills whole tiles of rows, if there is one, since a kernel
  /// takes all rows of a tile at once.
  [[nodiscard]] std::int64_t last_alike(std::int64_t first_m) const {
    const auto last_m = static_cast<std::int64_t>(kAlike * static_cast<double>(first_m));
    const std::int64_t tile = kTileRows * step_, tiles_end = last_m / tile * tile;
    return tiles_end >= first_m ? tiles_end : last_m;
  }

  /// No model answers for the m up to last_m.
  Result<void> leave_out(const Error& error, std::int64_t last_m) {
    const std::string reason = count_failure(error, (last_m - next_m_) / step_ + 1);
    // An error such as that of a topology, which no profile changes, is the better reason.
    const bool needs_own = planner::cut_axis(at_m(question_, next_m_).op) == CutAxis::Columns;
    add_gap(result_, next_m_, last_m, needs_own && error.code == ErrorCode::NotFound ? kNeedsOwnModel : reason);
    return {};
  }
  /// Returns the text of the first failure for this reason, so that its gaps are one.
  std::string count_failure(const Error& error, std::int64_t m_count) {
    auto known = std::ranges::find_if(
        failures_, [&](const CountedFailure& failure) { return has_same_reason(failure.error, error); });
    if (known == failures_.end()) known = failures_.insert(known, {error, 0});
    known->m_count += m_count;
    return known->error.text();
  }
  /// The reason that holds for the most m; of equals, that of the fewest rows.
  [[nodiscard]] Error most_frequent_failure() const {
    return std::ranges::max_element(failures_, {}, &CountedFailure::m_count)->error;
  }

  const FindModel& find_;
  const PlanQuestion& question_;
  PlanRanges result_;
  std::int64_t next_m_;
  std::int64_t step_;
  std::vector<CountedFailure> failures_;
};

} // namespace

Result<PlanRanges> find_ranges(const FindModel& find, const PlanQuestion& question, std::int64_t first_m) {
  if (question.time_lanes)
    return Error{ErrorCode::InvalidSpec, "anchor", "times the uncut parts of one m; leave it out for a range of m"};
  MC2_TRY(planner::check_range(question.op, first_m, question.op.m, question.options.value_or(planner::PlanOptions())));
  return Segments(find, question, first_m).run();
}

Result<PlanRanges> find_ranges(const ModelPlaces& places, const PlanQuestion& question, std::int64_t first_m) {
  return find_ranges(finding_often(places), question, first_m);
}

std::vector<AnswerOverM> find_over(const FindModel& find, const PlanQuestion& question,
                                   std::span<const std::int64_t> all_m) {
  const auto m_at = [&](std::int64_t i) { return all_m[static_cast<std::size_t>(i)]; };
  std::vector<AnswerOverM> answers;
  for (auto next = all_m.begin(); next != all_m.end(); next = std::ranges::upper_bound(all_m, answers.back().last_m))
    answers.push_back(answer_from(find, question, m_at, next - all_m.begin(), std::ssize(all_m) - 1));
  return answers;
}

FindModel finding_each(std::function<Result<CostModel>(const OpSpec&)> make,
                       std::function<bool(const CostModel&, const OpSpec&)> answers) {
  auto known = std::make_shared<std::optional<CostModel>>(); // shared by copies of the function
  return [known, make = std::move(make),
          answers = std::move(answers)](const PlanQuestion& question) -> Result<FoundModel> {
    const bool is_known = *known && planner::has_same_block_costs((*known)->op, question.op) &&
                          (!answers || answers(**known, question.op));
    if (!is_known) {
      MC2_ASSIGN(*known, make(question.op));
    }
    PlanQuestion on_its_machine = question;
    on_its_machine.machine = (*known)->fingerprint;
    return find_model({.given = {**known}}, on_its_machine);
  };
}

FindModel finding_often(ModelPlaces places) {
  if (!places.kept) return [places](const PlanQuestion& each) { return find_model(places, each); };
  auto known = std::make_shared<std::optional<std::vector<CostModel>>>(); // shared by copies of the function
  places.kept->list_models = [known, list = places.kept->list_models](const OpSpec& op,
                                                                      const planner::Fingerprint& machine) {
    if (!*known) *known = list(op, machine);
    return **known;
  };
  return [places](const PlanQuestion& each) { return find_model(places, each); };
}

} // namespace mc2::finder
