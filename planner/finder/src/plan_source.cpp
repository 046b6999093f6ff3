#include "mc2/finder/plan_source.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::finder {
namespace {

/// What the error of a place means for the search: no plan there, a document that cannot be read, or no place can help.
enum class Failure { Miss, Unreadable, Ends };

Failure meaning_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidSpec:
    case ErrorCode::Cancelled: return Failure::Ends;
    case ErrorCode::Corrupt:
    case ErrorCode::NewerVersion:
    case ErrorCode::Unreadable: return Failure::Unreadable;
    default: return Failure::Miss;
  }
}

/// Collects the answers of the places that were asked so far.
class Search {
 public:
  /// Takes the answer of one place; returns whether the search is over.
  [[nodiscard]] bool take(const PlanSource& place, Result<FoundPlan> found) {
    if (found) {
      auto& misses = found.value().misses;
      misses_.insert(misses_.end(), std::make_move_iterator(misses.begin()), std::make_move_iterator(misses.end()));
      if (best_ && found.value().is_stopgap) return false; // the first of several stopgaps stays
      if (best_) misses_.insert(misses_.begin() + stopgap_index_, stopgap_miss_);
      best_ = std::move(found).value();
      if (!best_->is_stopgap) return true;
      stopgap_miss_ = place.name + ": only extrapolated: " + best_->stored.plan.makespan.reason;
      stopgap_index_ = std::ssize(misses_);
      return false;
    }
    misses_.push_back(place.name + ": " + found.error().text());
    const Failure meaning = meaning_of(found.error().code);
    if (meaning == Failure::Ends && !best_) ended_ = found.error();
    if (meaning == Failure::Unreadable && !unreadable_) unreadable_ = found.error().code;
    last_ = found.error().code;
    return ended_.has_value();
  }

  [[nodiscard]] Result<FoundPlan> result() && {
    if (ended_) return *ended_;
    if (!best_)
      return Error{unreadable_.value_or(last_), "",
                   misses_.empty() ? "there is no source of plans to ask" : list_text(misses_, "; ")};
    best_->misses = std::move(misses_);
    best_->passed_over_damage = unreadable_.has_value();
    return *std::move(best_);
  }

 private:
  std::optional<FoundPlan> best_;
  std::optional<Error> ended_;
  std::optional<ErrorCode> unreadable_;
  ErrorCode last_ = ErrorCode::NotFound;
  std::vector<std::string> misses_;
  std::string stopgap_miss_; ///< told if a plan that is not a stopgap takes the place of `best_`
  std::ptrdiff_t stopgap_index_ = 0;
};

} // namespace

store::PlanRequest PlanQuestion::request() const {
  return options ? store::PlanRequest{op, *options} : store::PlanRequest::usual(op);
}

std::string PlanQuestion::unusual_options() const {
  return options ? store::unusual_options(*options, planner::default_options_on(machine)) : "";
}

std::string_view to_string(Origin origin) noexcept {
  switch (origin) {
    case Origin::Given: return "given";
    case Origin::Service: return "service";
    case Origin::Kept: return "kept";
    case Origin::Model: break;
  }
  return "model";
}

bool is_stopgap(const planner::Plan& plan) noexcept {
  // The provenance of a transferred plan may be Analytic.
  return (plan.makespan.provenance == planner::Provenance::Extrapolated || plan.is_transferred()) && !plan.validation;
}

store::StoredPlan unkept(planner::Plan plan) {
  store::StoredPlan stored;
  stored.document = store::encode(plan);
  stored.digest = store::digest(stored.document);
  stored.plan = std::move(plan);
  return stored;
}

FoundPlan served_plan(const store::PlanAnswer& answer, std::string source) {
  return {.stored = {.key = {answer.plan.op, store::digest(answer.plan.fingerprint)},
                     .plan = answer.plan,
                     .document = answer.document,
                     .digest = answer.digest,
                     .created_at = answer.created_at},
          .source = std::move(source),
          .origin = Origin::Service,
          .is_stopgap = answer.source == "model" && is_stopgap(answer.plan),
          .staleness = answer.staleness};
}

Result<FoundPlan> find_plan(std::span<const PlanSource> places, PlanQuestion question) {
  if (question.options == planner::default_options_on(question.machine)) question.options.reset();
  Search search;
  for (const PlanSource& place : places)
    if (search.take(place, place.find(question))) break;
  return std::move(search).result();
}

Result<void> require_asked(const planner::Plan& plan, const PlanQuestion& question) {
  if (plan.op != question.op) return Error{ErrorCode::NotFound, "", "is for " + plan.op.text()};
  const planner::RowCounts asked = question.options ? question.options->counts : planner::RowCounts{};
  if (plan.counts != asked) return Error{ErrorCode::NotFound, "", "is for other counts of rows between the ranks"};
  if (plan.fingerprint != question.machine)
    return Error{ErrorCode::Stale, "",
                 "is for another machine (" + question.machine.differences(plan.fingerprint).front() + ")"};
  if (question.variant && plan.variant != *question.variant)
    return Error{ErrorCode::NotFound, "", "is of variant " + plan.variant.text()};
  return {};
}

Error not_at_present_speed() {
  return {ErrorCode::NotFound, "", "predicted at an earlier speed; the present one is asked for"};
}

PlanSource given_plan(std::string name, planner::Plan plan) {
  return {name, [stored = unkept(std::move(plan)), name](const PlanQuestion& question) -> Result<FoundPlan> {
            MC2_TRY(require_asked(stored.plan, question));
            if (question.time_lanes) return not_at_present_speed();
            return FoundPlan{stored, name, Origin::Given};
          }};
}

Result<PlanSource> plan_file(const std::filesystem::path& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) // a stream opens a directory, but throws when it reads it
    return Error{ErrorCode::InvalidSpec, path.string(), "is a directory, not a file; name a plan document"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::NotFound, path.string(), "cannot be opened"};
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  auto plan = store::decode_plan(json);
  if (!plan) return Error{plan.error().code, path.string(), plan.error().text()};
  return given_plan("file " + path.string(), std::move(plan).value());
}

namespace {

constexpr std::string_view kTuned = "tuned";

} // namespace

std::string tuned_purpose(const PlanQuestion& question) {
  const std::string options = question.unusual_options();
  return std::string(kTuned) + (question.variant ? " " + question.variant->text() : "") +
         (options.empty() ? "" : " " + options);
}

namespace {

/// The question of which tuned_purpose() is the purpose. Errors: as read_unusual_options.
Result<PlanQuestion> question_of(const planner::Plan& plan, std::string_view purpose) {
  PlanQuestion question{.op = plan.op, .machine = plan.fingerprint};
  purpose.remove_prefix(std::min(purpose.size(), kTuned.size() + 1));
  const std::string_view word = purpose.substr(0, purpose.find(' '));
  const bool is_variant = !word.empty() && word.find('=') >= word.find('('); // fields of a variant are in brackets
  if (is_variant) {
    question.variant = planner::parse_variant(word);
    purpose.remove_prefix(std::min(purpose.size(), word.size() + 1));
  }
  if (purpose.empty()) return question;
  MC2_ASSIGN(question.options, store::read_unusual_options(purpose, planner::default_options_on(plan.fingerprint)));
  return question;
}

/// Errors: InvalidSpec where the cut breaks an option that is not the machine's.
Result<void> require_within(const planner::Plan& plan, const planner::PlanOptions& options) {
  if (!plan.is_cut()) return {};
  const auto refused = [](const char* name, std::int64_t limit, const std::string& what) {
    return Error{ErrorCode::InvalidSpec, "purpose",
                 "has " + std::string(name) + "=" + std::to_string(limit) + "; this plan has " + what};
  };
  const planner::PlanOptions usual = planner::default_options_on(plan.fingerprint);
  const std::int64_t count = std::ssize(plan.cut.block_rows), rows = std::ranges::min(plan.cut.block_rows);
  if (options.max_block_count != usual.max_block_count && count > options.max_block_count)
    return refused("max_block_count", options.max_block_count, std::to_string(count) + " blocks");
  if (options.min_block_rows != usual.min_block_rows && rows < options.min_block_rows)
    return refused("min_block_rows", options.min_block_rows, "a block of " + std::to_string(rows));
  return {};
}

} // namespace

Result<void> require_purpose(const planner::Plan& plan, const std::string& purpose) {
  const auto refused = [](const std::string& why) { return Error{ErrorCode::InvalidSpec, "purpose", why}; };
  const bool is_tuned = purpose == kTuned || purpose.starts_with(std::string(kTuned) + " ");
  if (!is_tuned) return refused("must be \"tuned\", \"tuned VARIANT\", \"tuned OPTIONS\" or \"tuned VARIANT OPTIONS\"");
  const auto question = question_of(plan, purpose);
  if (!question) return refused(question.error().text());
  if (const std::string usual = tuned_purpose(question.value()); usual != purpose)
    return refused("is not as questions write it: \"" + usual + "\"");
  if (const auto asked = require_asked(plan, question.value()); !asked)
    return refused("is for another plan: this one " + asked.error().message);
  if (!question.value().options) return {};
  return require_within(plan, *question.value().options);
}

PlanSource kept_plans(Kept kept) {
  const std::string name = "kept plans";
  return {
      name, [kept = std::move(kept), name](const PlanQuestion& question) -> Result<FoundPlan> {
        if (question.options && !question.options->counts.empty())
          return Error{ErrorCode::NotFound, "", "are for equal splits between the ranks, not for counts of rows"};
        MC2_ASSIGN(auto plan, kept.find_plan({question.op, store::digest(question.machine), tuned_purpose(question)}));
        if (question.time_lanes) return not_at_present_speed(); // a damaged one is told all the same
        FoundPlan found{std::move(plan), name, Origin::Kept};
        if (!question.variant)
          found.staleness = staleness_of(kept, found.stored.plan, question.options, question.is_stopped);
        return found;
      }};
}

namespace {

/// "; its race of 2027-01-31T12:00Z measured a benefit of 20.1 % (18 to 22 %)".
std::string race_text(const planner::Plan& raced) {
  const planner::Validation& race = *raced.validation;
  const std::string when = race.measured_at.empty() ? "" : " of " + race.measured_at.substr(0, 16) + "Z";
  if (!raced.overlaps()) return "; its race" + when + " found no cut faster than serial";
  return "; its race" + when + " measured a benefit of " + percent_text(race.benefit) + " (" +
         percent_interval_text(race.benefit_low, race.benefit_high) + ")";
}

/// The choice of a race, with its times as the lanes are now. Empty if nothing was raced for the question.
std::optional<FoundPlan> raced_before(const ModelPlaces& places, const FoundModel& found,
                                      const PlanQuestion& question) {
  const bool has_counts = question.options && !question.options->counts.empty();
  if (!question.time_lanes || !places.kept || has_counts) return std::nullopt;
  auto kept = places.kept->find_plan({question.op, store::digest(question.machine), tuned_purpose(question)});
  if (!kept || !kept.value().plan.validation) return std::nullopt;
  const planner::Plan& raced = kept.value().plan;
  FoundModel of_variant = found;
  auto alone = planner::restricted_to(raced.variant, found.model);
  if (!alone) return std::nullopt;
  of_variant.model = std::move(alone).value();
  auto plan = with_prediction(raced, of_variant, question);
  if (!plan) return std::nullopt;
  plan.value().makespan.reason += race_text(raced);
  plan.value().validation.reset(); // it tells of another day's speed
  FoundPlan answer{unkept(std::move(plan).value()), "kept plans, at the present speed", Origin::Kept};
  answer.stored.key = kept.value().key;
  answer.stored.created_at = kept.value().created_at;
  answer.staleness = staleness_by(found, raced, question);
  return answer;
}

} // namespace

PlanSource own_planner(ModelPlaces places) {
  const std::string name = "own planner";
  return {name, [places = std::move(places), name](const PlanQuestion& question) -> Result<FoundPlan> {
            MC2_ASSIGN(const auto model, find_model(places, question));
            if (auto raced = raced_before(places, model, question)) return *std::move(raced);
            MC2_ASSIGN(auto plan, plan_with(model, question));
            const auto& transfer = model.transfer;
            const bool is_last_resort = is_stopgap(plan);
            const std::string source = transfer ? transfer->reason : "from the model of " + model.model.op.text();
            return FoundPlan{unkept(std::move(plan)), name + ", " + source, Origin::Model, is_last_resort};
          }};
}

} // namespace mc2::finder
