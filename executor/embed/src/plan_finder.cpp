#include "mc2/embed/plan_finder.hpp"
#include "mc2/planner/text.hpp"

#include <atomic>
#include <utility>

#include "mc2/executor/failure_log.hpp"
#include "mc2/executor/process_mark.hpp"
#include "mc2/store/dates.hpp"
#include "plan_cache.hpp"

namespace mc2::embed {
namespace {

using finder::FoundPlan;
using finder::PlanQuestion;
using finder::PlanSource;

/// The text as the quoted value of a key=value line.
std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

std::string describe(const FoundPlan& found) {
  const planner::Plan& plan = found.stored.plan;
  std::string line = "event=plan op=" + in_quotes(plan.op.text()) + " cut=" + in_quotes(plan.cut.text()) +
                     " variant=" + in_quotes(plan.variant.text()) + " predicted_us=" + number(plan.makespan.us, "%f") +
                     " machine=" + in_quotes(plan.fingerprint.label()) + " source=" + in_quotes(found.source) +
                     " digest=" + found.stored.digest;
  if (const auto& stale = found.staleness)
    line += " loss=" + number(stale->loss, "%.3f") +
            " better=" + in_quotes(stale->best_blocks + ", " + stale->best_variant) + " why=" + in_quotes(stale->why);
  for (const auto& miss : found.misses) line += " miss=" + in_quotes(miss);
  return line;
}

PlanSource uncut_source() {
  return {"MC2_DISABLE", [](const PlanQuestion& question) -> Result<FoundPlan> {
            MC2_ASSIGN(auto plan, uncut_plan(question.op, question.machine));
            return FoundPlan{finder::unkept(std::move(plan)), "uncut, mc2 is disabled"};
          }};
}

/// A place that has no plan, so that the reason is among those of the others.
PlanSource skipped_store(const std::string& note) {
  return {"kept plans", [note](const PlanQuestion&) -> Result<FoundPlan> {
            return Error{ErrorCode::NotFound, "", note};
          }};
}

/// One range with the uncut plan, for a program that runs with MC2_DISABLE=1.
Result<planner::PlanRanges> uncut_ranges(const PlanQuestion& question, std::int64_t first_m) {
  MC2_TRY(planner::check_range(question.op, first_m, question.op.m, planner::PlanOptions()));
  planner::OpSpec op = question.op;
  op.m -= op.m % planner::m_step(op);
  MC2_ASSIGN(const auto plan, uncut_plan(op, question.machine));
  planner::PlanRange all = planner::range_of(plan);
  all.first_m = first_m;
  planner::PlanRanges ranges{op, question.machine, first_m};
  ranges.ranges.push_back(std::move(all));
  ranges.planned_count = planner::legal_count(op, first_m, op.m);
  return ranges;
}

Error inherited() {
  return {ErrorCode::Unsupported, "plan finder", "was opened before fork(); open another one in the child"};
}

Result<void> validate(const FinderOptions& options) {
  if (options.cached_plan_count < 1)
    return Error{ErrorCode::InvalidSpec, "cached_plan_count", "is 0; at least 1 plan is remembered"};
  if (options.refresh.count() < 0) return Error{ErrorCode::InvalidSpec, "refresh", "is negative"};
  for (const auto& model : options.models)
    if (auto legal = model.validate(); !legal) return Error{legal.error().code, "models", legal.error().text()};
  return {};
}

} // namespace

FinderOptions finder_options(const Environment& environment) {
  FinderOptions options;
  if (!environment.server_url.empty()) {
    client::Options service;
    service.url = environment.server_url;
    service.token = environment.server_token;
    service.ca_file = environment.server_ca;
    service.names.token = "MC2_SERVER_TOKEN";
    service.names.ca_file = "MC2_SERVER_CA";
    options.service = service;
  }
  options.store = environment.store;
  options.read_only_stores = system_stores();
  options.is_disabled = environment.is_disabled;
  options.may_transfer = environment.may_transfer;
  options.log = stderr_log(environment.log);
  return options;
}

struct PlanFinder::Impl {
  explicit Impl(FinderOptions given) : options(std::move(given)), cache(options.cached_plan_count) {
    if (options.log) failures.emplace([log = options.log](const std::string& line) { log(LogLevel::Error, line); });
  }

  [[nodiscard]] Result<void> open_places();
  [[nodiscard]] Result<void> open_store();
  /// @param question  gives the PlanQuestion of the view; called only if no fresh plan is remembered
  template <typename Ask>
  [[nodiscard]] Result<FoundPlanPtr> find(const QuestionView& view, const Ask& question);
  [[nodiscard]] Result<FoundPlanPtr> look_up(const PlanQuestion& question);
  /// Asks the places; look_up() also remembers the answer.
  [[nodiscard]] Result<FoundPlanPtr> ask(const PlanQuestion& question);
  [[nodiscard]] Result<FoundPlanPtr> renew(const PlanQuestion& question, const FoundPlanPtr& old);
  void tell(LogLevel level, const std::string& line) const {
    if (options.log) options.log(level, line);
  }

  const FinderOptions options;
  const executor::ProcessMark process;
  std::optional<store::Layers> layers;
  std::vector<std::string> skipped_stores; ///< why each of them was skipped
  std::optional<finder::SharedLayers> shared_layers;
  finder::ModelPlaces models;
  PlanCache cache;
  std::atomic<PlanCache::Clock::time_point> changed_at{}; ///< when the service last reported changed answers
  std::optional<executor::FailureLog> failures;           ///< set if the options have a log
  std::vector<PlanSource> sources; ///< last member, so destroyed first: the service's thread uses the members above
};

Result<void> PlanFinder::Impl::open_store() {
  const auto skipped = [&](const std::string& note) {
    tell(LogLevel::Warning, "event=store_skipped reason=" + in_quotes(note));
    skipped_stores.push_back(note);
  };
  auto opened = store::Layers::open({options.read_only_stores, options.store, true});
  if (!opened && opened.error().code == ErrorCode::InvalidSpec) { // no place for a file, e.g. where HOME is /dev/null
    skipped(opened.error().text());
    opened = store::Layers::open({options.read_only_stores, {}, true});
  } else if (!opened && opened.error().code == ErrorCode::NotFound && !options.store.empty()) {
    skipped(opened.error().message);
  }
  if (!opened) return opened.error().code == ErrorCode::NotFound ? Result<void>() : opened.error();
  layers.emplace(std::move(opened).value());
  shared_layers.emplace(*layers);
  for (const auto& note : layers->notes()) skipped(note);
  return {};
}

Result<void> PlanFinder::Impl::open_places() {
  if (options.is_disabled) {
    sources.push_back(uncut_source());
    return {};
  }
  MC2_TRY(open_store());
  finder::SharedLayers* const kept = shared_layers ? &*shared_layers : nullptr;
  for (const auto& path : options.plan_files) {
    MC2_ASSIGN(auto file, finder::plan_file(path));
    sources.push_back(std::move(file));
  }
  if (options.service) {
    MC2_ASSIGN(const auto service, client::Client::open(*options.service));
    client::ServiceOptions waiting = options.waiting;
    waiting.on_change = [this, told = options.waiting.on_change] {
      changed_at = PlanCache::Clock::now();
      if (told) told();
    };
    sources.push_back(client::plan_service(service, waiting, kept, &store::utc_now));
  }
  models.given = options.models;
  if (kept != nullptr) {
    models.kept = finder::kept_in(*kept);
    sources.push_back(finder::kept_plans(*models.kept));
  }
  for (const auto& note : skipped_stores) sources.push_back(skipped_store(note));
  sources.push_back(finder::own_planner(models));
  return {};
}

Result<FoundPlanPtr> PlanFinder::Impl::look_up(const PlanQuestion& question) {
  const auto asked_at = PlanCache::Clock::now(); // a change that is told while it is asked makes the answer old
  auto plan = ask(question);
  if (plan) cache.put(question, plan.value(), asked_at);
  return plan;
}

Result<FoundPlanPtr> PlanFinder::Impl::ask(const PlanQuestion& question) {
  MC2_TRY(question.op.validate());
  if (question.options) MC2_TRY(question.options->validate());
  PlanQuestion asked = question;
  asked.may_transfer = asked.may_transfer && options.may_transfer;
  MC2_ASSIGN(auto found, finder::find_plan(sources, std::move(asked)));
  auto plan = std::make_shared<const FoundPlan>(std::move(found));
  tell(plan->passed_over_damage ? LogLevel::Warning : LogLevel::Debug, describe(*plan));
  return plan;
}

/// Looks the plan up anew. If that fails, the old plan stays: a program must not lose its plan because a disk failed.
Result<FoundPlanPtr> PlanFinder::Impl::renew(const PlanQuestion& question, const FoundPlanPtr& old) {
  // A program that has a plan does not wait for another that locks the store.
  constexpr std::chrono::milliseconds kPatience{30};
  const store::ReadPatience short_wait(kPatience);
  const auto asked_at = PlanCache::Clock::now();
  std::string reason;
  try {
    auto found = look_up(question);
    if (found) return found;
    reason = found.error().text();
  } catch (const SystemError& error) {
    reason = error.what();
  }
  tell(LogLevel::Warning, "event=plan_kept op=" + in_quotes(question.op.text()) + " reason=" + in_quotes(reason));
  cache.put(question, old, asked_at);
  return old;
}

PlanFinder::PlanFinder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PlanFinder::PlanFinder(PlanFinder&&) noexcept = default;
PlanFinder& PlanFinder::operator=(PlanFinder&&) noexcept = default;

PlanFinder::~PlanFinder() {
  // Leaks in a fork()ed child: the thread to be joined does not exist there, and the store's connection is the
  // parent's.
  if (impl_ && impl_->process.is_inherited()) static_cast<void>(impl_.release());
}

Result<PlanFinder> PlanFinder::open(FinderOptions options) {
  MC2_TRY(validate(options));
  auto impl = std::make_unique<Impl>(std::move(options));
  MC2_TRY(impl->open_places());
  return PlanFinder(std::move(impl));
}

template <typename Ask>
Result<FoundPlanPtr> PlanFinder::Impl::find(const QuestionView& view, const Ask& question) {
  if (process.is_inherited()) return inherited();
  const PlanCache::Entry known = cache.find(view);
  if (!known.plan) return look_up(question());
  if (PlanCache::Clock::now() - known.found_at < options.refresh && known.found_at > changed_at.load())
    return known.plan;
  return renew(question(), known.plan);
}

Result<FoundPlanPtr> PlanFinder::find(const PlanQuestion& question) const {
  if (question.time_lanes && !impl_->process.is_inherited()) return impl_->ask(question);
  return impl_->find(question, [&]() -> const PlanQuestion& { return question; });
}

Result<planner::PlanRanges> PlanFinder::find_ranges(const PlanQuestion& question, std::int64_t first_m) const {
  if (impl_->process.is_inherited()) return inherited();
  if (impl_->options.is_disabled) return uncut_ranges(question, first_m);
  PlanQuestion asked = question;
  asked.may_transfer = asked.may_transfer && impl_->options.may_transfer;
  return finder::find_ranges(impl_->models, asked, first_m);
}

Result<FoundPlanPtr> PlanFinder::find(const planner::OpSpec& op, const planner::Fingerprint& machine) const {
  return impl_->find({op, machine}, [&] { return PlanQuestion{op, machine}; });
}

} // namespace mc2::embed
