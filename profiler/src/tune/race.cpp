#include "mc2/profiler/race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "mc2/profiler/stopping_rule.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

using Clock = std::chrono::steady_clock;

/// Rounds before the width of intervals can end a race: with fewer pairs they may be narrow by chance.
constexpr int kSettlingRounds = 11;
constexpr int kWarmupRounds = 2;
constexpr double kConfidence = 0.95;

Interval fused_to_serial(const Contender& contender) {
  return paired_ratio(contender.fused_us, contender.serial_us, contender.confidence);
}

/// The confidence of each of `count` intervals that all hold together with kConfidence (Bonferroni).
double confidence_of_each(std::ptrdiff_t count) {
  return 1 - (1 - kConfidence) / static_cast<double>(std::max<std::ptrdiff_t>(1, count));
}

/// The fewest pairs whose median has an interval of this confidence: all of them lie on one side of the true median
/// with probability 2^(1 - pairs).
int fewest_pairs(double confidence) { return static_cast<int>(std::ceil(1 - std::log2(1 - confidence))); }

int fewest_to_settle(const RaceSettings& settings) {
  return std::min(std::max(settings.min_rounds, kSettlingRounds), settings.max_rounds);
}

/// Relative half-width of the least certain contender's fused/serial interval.
double widest_interval(const Race& race) {
  double widest = 0;
  for (const Contender& c : race.contenders) widest = std::max(widest, fused_to_serial(c).relative_half_width());
  return widest;
}

bool is_settled(const Race& race, const RaceSettings& settings) {
  return race.round_count >= fewest_to_settle(settings) && widest_interval(race) <= settings.relative_half_width;
}

bool is_finished(const Race& race, const RaceSettings& settings, Clock::duration elapsed) {
  const bool is_spent = elapsed >= settings.budget && race.round_count >= settings.min_rounds;
  return is_spent || race.round_count >= settings.max_rounds || is_settled(race, settings);
}

/// Runs the rounds of one race.
class Track {
 public:
  Track(Bench& bench, RaceSettings settings, const std::string& label, const TuneHooks& hooks)
      : bench_(bench), settings_(settings), label_(label), hooks_(hooks), start_(bench.now()) {}

  [[nodiscard]] Result<void> prepare(std::span<const planner::Plan> plans);
  [[nodiscard]] Result<Race> run();

 private:
  [[nodiscard]] planner::Cut whole() const { return planner::uncut(bench_.op()); }
  [[nodiscard]] Clock::time_point warm_up_end() const { return start_ + settings_.budget / kWarmUpShare; }
  [[nodiscard]] Result<planner::Variant> find_serial_variant();
  [[nodiscard]] bool is_of_bench(const planner::Variant& variant) const {
    return std::ranges::find(bench_.variants(), variant) != bench_.variants().end();
  }
  [[nodiscard]] Error interrupted() const {
    return {ErrorCode::Cancelled, label_, "interrupted; nothing of this race was kept"};
  }
  double time_us(std::size_t prepared, RunPart part);
  void share_confidence();
  [[nodiscard]] Result<void> run_round(int round);
  void time_parts();
  void report(Clock::time_point first_round);

  Bench& bench_;
  RaceSettings settings_;
  const std::string& label_;
  const TuneHooks& hooks_;
  Clock::time_point start_;
  std::vector<std::size_t> contenders_, uncut_; ///< prepared numbers: each contender, and uncut with its variant
  std::size_t serial_ = 0;
  Race race_;
};

double Track::time_us(std::size_t prepared, RunPart part) {
  const double us = bench_.time_us(prepared, part);
  race_.timed_us += us;
  return us;
}

/// Finds the variant with the fastest serial run by a few rounds over all variants.
Result<planner::Variant> Track::find_serial_variant() {
  if (bench_.variants().size() == 1) return bench_.variants().front();
  const auto times_us = time_in_turn(bench_, whole(), RunPart::Serial, warm_up_end(), hooks_);
  if (!times_us) return times_us.error().code == ErrorCode::Cancelled ? interrupted() : times_us.error();
  const auto fastest = std::ranges::min_element(times_us.value());
  return bench_.variants()[static_cast<std::size_t>(fastest - times_us.value().begin())];
}

Result<void> Track::prepare(std::span<const planner::Plan> plans) {
  MC2_ASSIGN(race_.serial_variant, find_serial_variant());
  for (const auto& plan : plans) {
    MC2_ASSIGN(const auto ready, bench_.prepare(plan));
    contenders_.push_back(ready);
    Contender& contender = race_.contenders.emplace_back();
    contender.cut = plan.cut;
    contender.variant = plan.variant;
    contender.measured_at = bench_.date();
    contender.is_serial = !plan.overlaps() && is_of_bench(plan.variant);
    if (!settings_.times_parts) continue;
    MC2_ASSIGN(const auto uncut, prepare_blocks(bench_, whole(), plan.variant));
    uncut_.push_back(uncut);
  }
  MC2_ASSIGN(serial_, prepare_blocks(bench_, whole(), race_.serial_variant));
  share_confidence();
  return {};
}

/// The more cuts race, the more likely one of them seems faster by chance alone.
void Track::share_confidence() {
  const double confidence = confidence_of_each(std::ranges::count(race_.contenders, false, &Contender::is_serial));
  for (Contender& contender : race_.contenders) contender.confidence = confidence;
  if (!settings_.proves) return;
  settings_.min_rounds = std::max(settings_.min_rounds, fewest_pairs(confidence));
  settings_.max_rounds = std::max(settings_.max_rounds, settings_.min_rounds);
}

/// Times the parts of serial and the uncut parts of every contender's variant, each once.
void Track::time_parts() {
  race_.compute_us.push_back(time_us(serial_, RunPart::SerialCompute));
  race_.communication_us.push_back(time_us(serial_, RunPart::Communication));
  for (const std::size_t uncut : std::set(uncut_.begin(), uncut_.end())) {
    const double compute_us = time_us(uncut, RunPart::Compute);
    const double communication_us =
        uncut == serial_ ? race_.communication_us.back() : time_us(uncut, RunPart::Communication);
    for (std::size_t i = 0; i < uncut_.size(); ++i) {
      if (uncut_[i] != uncut) continue;
      race_.contenders[i].compute_us.push_back(compute_us);
      race_.contenders[i].communication_us.push_back(communication_us);
    }
  }
}

Result<void> Track::run_round(int round) {
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    if (is_cancelled(hooks_)) return interrupted();
    // The order within a pair alternates, and so does the order of contenders, so that a steady drift cancels.
    const std::size_t index = round % 2 == 0 ? i : contenders_.size() - 1 - i;
    Contender& contender = race_.contenders[index];
    const bool fused_first = (round + static_cast<int>(i)) % 2 == 0;
    if (fused_first) contender.fused_us.push_back(time_us(contenders_[index], RunPart::Fused));
    contender.serial_us.push_back(time_us(serial_, RunPart::Serial));
    if (!fused_first) contender.fused_us.push_back(time_us(contenders_[index], RunPart::Fused));
  }
  if (settings_.times_parts) time_parts();
  ++race_.round_count;
  return {};
}

void Track::report(Clock::time_point first_round) {
  if (!hooks_.on_progress) return;
  const auto now = bench_.now();
  const int done = race_.round_count;
  const auto round_time = std::max<Clock::duration>((now - first_round) / done, Clock::duration(1));
  const int missing = missing_rounds(race_, settings_, round_time, start_ + settings_.budget - now);
  hooks_.on_progress({label_, static_cast<double>(done) / (done + missing),
                      std::chrono::duration_cast<std::chrono::milliseconds>(round_time * missing),
                      std::to_string(done) + " of about " + std::to_string(done + missing) + " rounds"});
}

Result<Race> Track::run() {
  const Race fresh = race_;
  for (int round = 0; round < kWarmupRounds && bench_.now() < warm_up_end(); ++round) {
    MC2_TRY(run_round(round));
  }
  const double warm_up_us = race_.timed_us;
  race_ = fresh;
  race_.timed_us = warm_up_us;
  const auto first_round = bench_.now();
  while (!is_finished(race_, settings_, bench_.now() - start_)) {
    MC2_TRY(run_round(race_.round_count));
    report(first_round);
  }
  return std::move(race_);
}

} // namespace

Result<void> RaceSettings::validate() const {
  if (min_rounds < 1) return Error{ErrorCode::InvalidSpec, "min_rounds", "must be 1 or more"};
  if (max_rounds < min_rounds) return Error{ErrorCode::InvalidSpec, "max_rounds", "must be min_rounds or more"};
  if (!(relative_half_width >= 0)) return Error{ErrorCode::InvalidSpec, "relative_half_width", "must be 0 or more"};
  if (budget.count() < 0) return Error{ErrorCode::InvalidSpec, "budget", "must be 0 ms or more"};
  return {};
}

namespace {

planner::MeasuredSpread spread_of(std::span<const double> fused_us, std::span<const double> serial_us) {
  const Interval fused = quantile_interval(fused_us, 0.5, kConfidence);
  const Interval serial = quantile_interval(serial_us, 0.5, kConfidence);
  return {fused.low, fused.high, serial.low, serial.high, quantile(serial_us, 0.9) / quantile(serial_us, 0.1)};
}

} // namespace

planner::Validation Contender::validation() const {
  const Interval ratio = fused_to_serial(*this);
  planner::Validation result;
  result.fused_us = median(fused_us);
  result.serial_us = median(serial_us);
  result.benefit = 1 - ratio.value;
  result.benefit_low = 1 - ratio.high;
  result.benefit_high = 1 - ratio.low;
  result.pair_count = static_cast<int>(fused_us.size());
  result.spread = spread_of(fused_us, serial_us);
  result.measured_at = measured_at;
  return result;
}

Interval Race::overlap_efficiency(const Contender& contender) const {
  std::vector<double> gained, possible;
  for (std::size_t i = 0; i < contender.fused_us.size(); ++i) {
    const double possible_us = contender.serial_us[i] - std::max(compute_us[i], communication_us[i]);
    // A round whose longer part took as long as serial had nothing to gain, so it is left out.
    if (possible_us <= 0) continue;
    gained.push_back(contender.serial_us[i] - contender.fused_us[i]);
    possible.push_back(possible_us);
  }
  return possible.empty() ? Interval{} : paired_ratio(gained, possible, kConfidence);
}

planner::Validation Race::serial_validation() const {
  std::vector<double> serial_us;
  for (const Contender& contender : contenders)
    serial_us.insert(serial_us.end(), contender.serial_us.begin(), contender.serial_us.end());
  const double us = median(serial_us);
  return {.fused_us = us,
          .serial_us = us,
          .pair_count = round_count,
          .spread = spread_of(serial_us, serial_us),
          .measured_at = contenders.front().measured_at};
}

planner::MeasuredCut observation_of(const Contender& contender) {
  return {{.fused_us = median(contender.fused_us),
           .compute_us = median(contender.compute_us),
           .communication_us = median(contender.communication_us)},
          contender.variant,
          contender.cut};
}

int missing_rounds(const Race& race, const RaceSettings& settings, std::chrono::nanoseconds round_time,
                   std::chrono::nanoseconds budget_left) {
  const int done = race.round_count;
  double expected = fewest_to_settle(settings);
  if (done >= expected) {
    const double growth = std::max(1.0, widest_interval(race) / settings.relative_half_width);
    expected = std::min<double>(done * growth * growth, settings.max_rounds);
  }
  const double rounds_left =
      std::floor(static_cast<double>(budget_left.count()) / static_cast<double>(round_time.count()));
  const double affordable = std::max<double>(settings.min_rounds - done, rounds_left);
  return static_cast<int>(std::lround(std::max(0.0, std::min(expected - done, affordable))));
}

Result<Race> race(Bench& bench, std::span<const planner::Plan> plans, const RaceSettings& settings,
                  const std::string& label, const TuneHooks& hooks) {
  MC2_TRY(settings.validate());
  MC2_TRY(bench.fingerprint().require_speeds());
  if (plans.empty()) return Error{ErrorCode::InvalidSpec, "plans", "is empty; there is nothing to race"};
  for (const planner::Plan& plan : plans)
    if (plan.op != bench.op())
      return Error{ErrorCode::InvalidSpec, "plan", "is of " + plan.op.text() + ", not of " + bench.op().text()};
  Track track(bench, settings, label, hooks);
  MC2_TRY(track.prepare(plans));
  return track.run();
}

int winner_of(std::span<const Race> races) {
  int winner = -1;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < races.front().contenders.size(); ++i) {
    if (races.front().contenders[i].is_serial || races.front().contenders[i].validation().benefit_low <= 0) continue;
    double worst = std::numeric_limits<double>::infinity();
    bool loses_somewhere = false;
    for (const Race& race : races) {
      const planner::Validation validation = race.contenders[i].validation();
      loses_somewhere = loses_somewhere || validation.benefit_high < 0;
      worst = std::min(worst, validation.benefit);
    }
    if (loses_somewhere || worst <= best) continue;
    best = worst;
    winner = static_cast<int>(i);
  }
  return winner;
}

} // namespace mc2::profiler
