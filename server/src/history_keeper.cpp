#include "history_keeper.hpp"

#include <algorithm>
#include <exception>
#include <vector>

#include "kept_plans.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/profiler/statistics.hpp"
#include "pause.hpp"

namespace mc2::server {
namespace {

/// Checking a plan means planning anew, which takes milliseconds. Plans beyond this time are left out.
constexpr std::chrono::seconds kMostPlanning{2};

/// The predicted losses of those plans that another cut beats at the present speed of their machines. Only plans of the
/// usual purpose count: a plan for one variant or with its own options is slower from the start.
std::vector<double> losses_of(const store::Store& store, const std::vector<store::StoredPlan>& plans,
                              const std::stop_token& ends) {
  const auto end = std::chrono::steady_clock::now() + kMostPlanning;
  const auto is_over = [&] { return ends.stop_requested() || std::chrono::steady_clock::now() >= end; };
  const finder::Kept kept = finder::kept_in_unnamed(store);
  std::vector<double> losses;
  for (const store::StoredPlan& stored : plans) {
    if (is_over()) break;
    if (stored.key.purpose != store::PlanKey{}.purpose) continue;
    if (const auto stale = finder::staleness_of(kept, stored.plan, {}, is_over)) losses.push_back(stale->loss);
  }
  return losses;
}

} // namespace

HistoryKeeper::HistoryKeeper(std::chrono::seconds interval, StoreGate& store, Metrics& metrics, const DriftWatch& drift,
                             DamageWatch& damage, Surroundings surroundings)
    : interval_(interval),
      store_(store),
      metrics_(metrics),
      drift_(drift),
      damage_(damage),
      surroundings_(std::move(surroundings)),
      before_(metrics.totals()) {
  if (interval.count() > 0) thread_ = std::jthread([this](const std::stop_token& ends) { watch(ends); });
}

Result<store::HistoryPoint> HistoryKeeper::look(const Metrics::Totals& now, const std::stop_token& ends) {
  return store_.read([&](const store::Store& store) -> Result<store::HistoryPoint> {
    MC2_ASSIGN(const auto plans, newest_plans(store, damage_));
    const PlanFigures figures = figures_of(plans);
    const auto losses = losses_of(store, plans, ends);
    metrics_.set_stale_plans(losses.size(), losses.empty() ? 0 : std::ranges::max(losses));
    store::HistoryPoint point{surroundings_.utc_now(),
                              {{"requests", now.requests - before_.requests},
                               {"failed_requests", now.failed_requests - before_.failed_requests},
                               {"questions", now.questions - before_.questions},
                               {"questions_from_memory", now.questions_from_memory - before_.questions_from_memory},
                               {"plans", static_cast<double>(plans.size())},
                               {"raced_plans", static_cast<double>(figures.errors.size())},
                               {"covered_plans", static_cast<double>(figures.covered_count)},
                               {"stale_plans", static_cast<double>(losses.size())},
                               {"drifted_models", static_cast<double>(drift_.drifted_count())}}};
    if (!figures.errors.empty()) {
      point.numbers["prediction_error"] = profiler::quantile(figures.errors, 0.5);
      point.numbers["prediction_error_p90"] = profiler::quantile(figures.errors, 0.9);
      point.numbers["gain"] = profiler::quantile(figures.gains, 0.5);
    }
    if (!losses.empty()) point.numbers["worst_loss"] = std::ranges::max(losses);
    return point;
  });
}

void HistoryKeeper::keep(const std::stop_token& ends) {
  const auto tell = [&](const std::string& why) { surroundings_.tell("a point of the history was not kept: " + why); };
  try {
    const Metrics::Totals now = metrics_.totals();
    const auto point = look(now, ends);
    if (ends.stop_requested()) return;
    const auto kept = point ? store_.write([&](store::Store& store) { return store.add_history(point.value()); })
                            : Result<void>(point.error());
    if (!kept) return tell(kept.error().text());
    before_ = now;                        // only now, so that after a failure the next point counts these requests, too
  } catch (const std::exception& fault) { // the store was locked too long, or the disk is full
    tell(fault.what());
  }
}

void HistoryKeeper::watch(const std::stop_token& ends) {
  while (!ends_within(ends, interval_)) keep(ends);
}

} // namespace mc2::server
