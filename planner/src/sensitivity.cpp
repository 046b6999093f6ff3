#include "mc2/planner/sensitivity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "mc2/planner/text.hpp"
#include "sensitivity_knobs.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kParameterNames{Name<Parameter>{Parameter::ComputeTime, "compute_time"},
                                     Name<Parameter>{Parameter::CommunicationTime, "communication_time"},
                                     Name<Parameter>{Parameter::CommunicationLatency, "communication_latency"},
                                     Name<Parameter>{Parameter::ComputeSlowdown, "compute_slowdown"},
                                     Name<Parameter>{Parameter::CommunicationSlowdown, "communication_slowdown"},
                                     Name<Parameter>{Parameter::ComputeBlockFixed, "compute_block_fixed"},
                                     Name<Parameter>{Parameter::CommunicationBlockFixed, "communication_block_fixed"},
                                     Name<Parameter>{Parameter::Rows, "rows"},
                                     Name<Parameter>{Parameter::Columns, "columns"},
                                     Name<Parameter>{Parameter::Imbalance, "imbalance"}};
constexpr std::array kFlipNames{Name<FlipKind>{FlipKind::OtherLengths, "other_lengths"},
                                Name<FlipKind>{FlipKind::OtherCount, "other_count"},
                                Name<FlipKind>{FlipKind::CutOrUncut, "cut_or_uncut"}};
constexpr std::array kFlipKinds{FlipKind::OtherLengths, FlipKind::OtherCount, FlipKind::CutOrUncut};
constexpr double kFirstChange = 0.001;
constexpr double kBisectedTo = 0.01; ///< relative to the change itself

/// The decision with a changed parameter, and the makespan of today's plan there.
struct Answer {
  Cut cut;
  Variant variant;
  double best_us = 0;
  std::optional<double> kept_us;

  [[nodiscard]] std::optional<double> loss() const {
    if (!kept_us || !(best_us > 0)) return std::nullopt;
    return std::max(0.0, *kept_us / best_us - 1);
  }
};

/// The changes that are tried, relative: 0.1 % to 300 %.
const std::vector<double>& changes() {
  static const std::vector<double> kChanges = [] {
    std::vector<double> result;
    constexpr double kLast = kMaxSensitivityFactor - 1;
    for (double change = kFirstChange; change < kLast; change *= std::sqrt(2.0)) result.push_back(change);
    result.push_back(kLast);
    return result;
  }();
  return kChanges;
}

/// Asks the search with one parameter at another value.
class Study {
 public:
  Study(const Plan& plan, const CostModel& model, PlanOptions options, const StopCheck& is_stopped)
      : plan_(plan), model_(model), options_(std::move(options)), is_stopped_(is_stopped) {
    options_.strategy = "search";
    options_.runner_up_count = 0;
  }

  [[nodiscard]] Result<Answer> today() const { return ask({plan_.op, model_, {}}); }
  /// Empty where the changed question has no answer, e.g. because m is too large.
  [[nodiscard]] std::optional<Answer> at(const Knob& knob, double value) const {
    Question question{plan_.op, model_, {}};
    if (!knob.turn(question, value)) return std::nullopt;
    auto answer = ask(question);
    if (!answer) return std::nullopt;
    return std::move(answer).value();
  }

 private:
  [[nodiscard]] Result<Answer> ask(const Question& question) const {
    PlanOptions options = options_;
    options.counts = question.counts;
    MC2_ASSIGN(auto best, make_plan(question.op, question.model, options, is_stopped_));
    Answer answer{best.cut, best.variant, best.makespan.us, std::nullopt};
    if (question.op != plan_.op || !question.counts.empty()) return answer;
    MC2_ASSIGN(const auto kept, predict_cut(question.op, question.model, plan_.variant, plan_.cut));
    answer.kept_us = kept.makespan.us;
    return answer;
  }

  const Plan& plan_;
  const CostModel& model_;
  PlanOptions options_;
  const StopCheck& is_stopped_;
};

/// The FlipKind between two decisions as a number, or 0 for the same decision. With another m, n or counts the lengths
/// cannot stay the same, so only their number counts.
int strength(const Answer& today, const Answer& there, Parameter parameter) {
  const std::size_t was = today.cut.block_rows.size(), is = there.cut.block_rows.size();
  if ((was > 1) != (is > 1)) return static_cast<int>(FlipKind::CutOrUncut);
  if (was != is || today.variant != there.variant) return static_cast<int>(FlipKind::OtherCount);
  const bool is_same = changes_lengths(parameter) || today.cut == there.cut;
  return is_same ? 0 : static_cast<int>(FlipKind::OtherLengths);
}

std::string decision_text(const Answer& today, const Flip& flip) {
  const auto counted = [](std::size_t count) { return std::to_string(count) + (count == 1 ? " block" : " blocks"); };
  const std::size_t was = today.cut.block_rows.size(), is = flip.cut.block_rows.size();
  if (is == 1 && was > 1) return "uncut instead of " + counted(was);
  std::string text = was == is ? flip.cut.text()
                               : counted(is) + " instead of " + (was == 1 ? "uncut" : std::to_string(was)) + " (" +
                                     flip.cut.text() + ")";
  if (flip.variant != today.variant) text += ", variant " + flip.variant.text();
  return text;
}

/// Moves one parameter in one direction: takes the answer at every step, then finds where it changes between two steps.
class Walk {
 public:
  Walk(const Study& study, const Knob& knob, bool is_up, const Answer& today)
      : study_(study), knob_(knob), is_up_(is_up), today_(today) {}

  [[nodiscard]] Excursion run() {
    Excursion result;
    result.end_value = knob_.value;
    for (const double change : changes()) {
      const double value = knob_.at(change, is_up_);
      if (value == result.end_value) continue;
      auto answer = study_.at(knob_, value);
      if (!answer) break;
      steps_.push_back({change, std::move(*answer)});
      result.end_value = value;
    }
    if (steps_.empty()) return result;
    result.end_loss = steps_.back().answer.loss();
    add_flips(result);
    const auto loses = [](const Answer& answer) { return answer.loss().value_or(0) >= kNotableLoss; };
    if (loses(today_)) return result;
    if (const auto first = first_where(loses)) result.one_percent_value = knob_.at(first->change, is_up_);
    return result;
  }

 private:
  struct Step {
    double change;
    Answer answer;
  };

  void add_flips(Excursion& result) const {
    for (const FlipKind kind : kFlipKinds) {
      const int wanted = static_cast<int>(kind);
      if (!result.flips.empty() && static_cast<int>(result.flips.back().kind) >= wanted) continue;
      const auto first =
          first_where([&](const Answer& answer) { return strength(today_, answer, knob_.parameter) >= wanted; });
      if (!first) return;
      Flip flip{static_cast<FlipKind>(strength(today_, first->answer, knob_.parameter)),
                knob_.at(first->change, is_up_),
                first->answer.cut,
                first->answer.variant,
                first->answer.best_us,
                first->answer.kept_us,
                {}};
      flip.text = knob_.change_text(flip.value) + ": " + decision_text(today_, flip);
      result.flips.push_back(std::move(flip));
    }
  }

  /// The first step at which the condition holds, moved back towards the step before as far as it still holds.
  template <typename Condition>
  [[nodiscard]] std::optional<Step> first_where(const Condition& holds) const {
    const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return holds(step.answer); });
    if (found == steps_.end()) return std::nullopt;
    Step best = *found;
    double low = found == steps_.begin() ? 0 : std::prev(found)->change;
    while (best.change - low > kBisectedTo * best.change) {
      const double middle = low + (best.change - low) / 2;
      auto answer = study_.at(knob_, knob_.at(middle, is_up_));
      if (answer && holds(*answer))
        best = {middle, std::move(*answer)};
      else
        low = middle;
      if (best.change < kFirstChange / 100) break; // today is a tie, which any change decides
    }
    return best;
  }

  const Study& study_;
  const Knob& knob_;
  bool is_up_;
  const Answer& today_;
  std::vector<Step> steps_;
};

std::string direction_text(const Knob& knob, const Excursion& excursion, const char* which) {
  if (excursion.end_value == knob.value) return std::string("cannot be ") + which;
  if (excursion.flips.empty()) return "no other decision up to " + knob.change_text(excursion.end_value);
  std::string text = list_text(excursion.flips, &Flip::text, "; ");
  if (excursion.one_percent_value)
    text += "; keeping the plan costs 1 % from " + knob.value_text(*excursion.one_percent_value) + " on";
  return text;
}

ParameterSensitivity study_parameter(const Study& study, const Knob& knob, const Answer& today) {
  ParameterSensitivity result;
  result.parameter = knob.parameter;
  result.value = knob.value;
  result.unit = knob.unit;
  result.relative_interval = knob.relative_interval;
  result.lower = Walk(study, knob, false, today).run();
  result.higher = Walk(study, knob, true, today).run();
  result.text = direction_text(knob, result.lower, "lower") + " | " + direction_text(knob, result.higher, "higher");
  return result;
}

} // namespace

std::string_view to_string(Parameter parameter) noexcept { return name_of<Parameter>(kParameterNames, parameter); }
std::string_view to_string(FlipKind kind) noexcept { return name_of<FlipKind>(kFlipNames, kind); }

Result<Sensitivity> analyse_sensitivity(const Plan& plan, const CostModel& model, const PlanOptions& options,
                                        const StopCheck& is_stopped) {
  if (std::ssize(plan.cut.block_rows) > kMaxBlockCount)
    return Error{ErrorCode::Infeasible, "cut",
                 "has " + std::to_string(plan.cut.block_rows.size()) + " blocks; sensitivity is studied for at most " +
                     std::to_string(kMaxBlockCount)};
  const Study study(plan, model, options, is_stopped);
  MC2_ASSIGN(const auto today, study.today());
  Sensitivity result;
  result.best_cut = today.cut;
  result.best_variant = today.variant;
  result.best_us = today.best_us;
  result.kept_us = today.kept_us.value_or(0);
  for (const Knob& knob : knobs_of(plan, model, options))
    result.parameters.push_back(study_parameter(study, knob, today));
  // A question that was stopped looks like one that has no answer.
  if (strategies::says_stop(&is_stopped)) return strategies::stopped_error();
  return result;
}

} // namespace mc2::planner
