#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "active_profile.hpp"
#include "mc2/executor/block_times.hpp"
#include "mc2/executor/communicator.hpp"
#include "screening.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

using executor::BlockTime;
using executor::RunMode;
using planner::Component;
using planner::Context;
using planner::Sample;
using Clock = std::chrono::steady_clock;

planner::Cut equal_blocks(std::int64_t rows, std::int64_t length) {
  planner::Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(rows / length), length)};
  if (rows % length != 0) cut.block_rows.push_back(rows % length);
  return cut;
}

/// One size of the sweep: what to run and how to turn the record into samples.
struct SizeCase {
  executor::Prepared* prepared;
  std::string variant;
  planner::Work work; ///< what the compute lane does
  std::int64_t block_rows;
  std::int64_t unit_bytes; ///< of the message, of a row or column of the cut axis
  std::size_t full_count;
  std::string_view unit; ///< "rows" or "columns"

  [[nodiscard]] std::string text() const { return std::to_string(block_rows) + " " + std::string(unit); }

  [[nodiscard]] Sample sample(Component component, Context context, const BlockTime& time) const {
    Sample sample;
    sample.component = component;
    sample.context = context;
    sample.variant = variant;
    sample.block_rows = block_rows;
    sample.block_count = time.block_count;
    sample.message_bytes = component == Component::Collective ? block_rows * unit_bytes : 0;
    // No block takes no time; the clock may say so of a tiny one.
    sample.time = std::chrono::nanoseconds(std::max<std::int64_t>(1, std::llround(time.block_us * planner::kNsPerUs)));
    sample.slowest_rank = time.rank;
    return sample;
  }

  [[nodiscard]] BlockTime time_alone(Component component) const {
    const auto mode = component == Component::Matmul ? RunMode::ComputeOnly : RunMode::CommunicationOnly;
    return executor::mean_block(prepared->run(mode), component, full_count);
  }

  [[nodiscard]] std::vector<Sample> measure_alone(Component component) const {
    return {sample(component, Context::Alone, time_alone(component))};
  }

  /// Each lane alone just before, then both together.
  [[nodiscard]] std::vector<Sample> measure_together() const {
    const BlockTime matmul = time_alone(Component::Matmul);
    const BlockTime collective = time_alone(Component::Collective);
    const executor::RunRecord& record = prepared->run(RunMode::Independent);
    return {sample(Component::Matmul, Context::CoRun,
                   executor::contended_block(record, Component::Matmul, full_count, matmul)),
            sample(Component::Collective, Context::CoRun,
                   executor::contended_block(record, Component::Collective, full_count, collective))};
  }
};

profiler::SweepCase alone_case(const SizeCase& size, Component component) {
  const auto name = component == Component::Matmul ? to_string(size.work) : to_string(component);
  return {std::string(name) + " " + size.text(), [size, component] { return size.measure_alone(component); },
          [size, component](const Sample& s) {
            return s.component == component && s.context == Context::Alone && s.block_rows == size.block_rows &&
                   s.variant == size.variant;
          }};
}

profiler::SweepCase together_case(const SizeCase& size) {
  return {"both lanes " + size.text(), [size] { return size.measure_together(); },
          [size](const Sample& s) {
            return s.context == Context::CoRun && s.block_rows == size.block_rows && s.variant == size.variant;
          }};
}

/// The lengths at which both lanes are also timed together: those near typical plans of 4 to 16 blocks.
bool is_co_run_length(std::int64_t rows, std::int64_t length) { return length * 3 <= rows && length * 17 >= rows; }

Result<std::vector<profiler::SweepCase>> sweep_cases(Workbench& bench, std::int64_t alignment) {
  using profiler::ActiveTarget;
  const std::int64_t rows = planner::traits_of(bench.op().kind).cut_axis_length(bench.op());
  std::vector<profiler::ActiveCase> sizes;
  const auto lengths = profiler::sweep_block_rows(rows, alignment);
  for (const std::int64_t length : lengths)
    for (const auto target : {ActiveTarget::Matmul, ActiveTarget::Collective, ActiveTarget::BothLanes})
      if (target != ActiveTarget::BothLanes || is_co_run_length(rows, length)) sizes.push_back({target, length});
  std::vector<profiler::SweepCase> cases;
  for (const planner::Variant& variant : bench.variants())
    for (const auto& size : sizes) {
      auto made = make_sweep_case(bench, size, variant);
      if (!made) return made.error();
      cases.push_back(std::move(made).value());
    }
  return cases;
}

/// The fastest variant at running the operator uncut, by a few rounds over all of them.
Result<planner::Variant> find_serial_variant(Workbench& bench, const planner::Cut& uncut, Clock::time_point deadline) {
  if (bench.variants().size() == 1) return bench.default_variant();
  const auto times_us = time_in_turn(bench, uncut, RunMode::Serial, deadline);
  if (!times_us) return times_us.error();
  const auto fastest = std::ranges::min_element(times_us.value());
  return bench.variants()[static_cast<std::size_t>(fastest - times_us.value().begin())];
}

/// What takes part in a race, ready to run.
struct Field {
  std::vector<executor::Prepared*> contenders;
  std::vector<executor::Prepared*> uncut; ///< by contender: the whole axis with its variant
  executor::Prepared* serial = nullptr;
};

Result<Field> make_field(Workbench& bench, const std::vector<planner::Plan>& plans, const planner::Variant& serial) {
  const planner::Cut whole{{planner::traits_of(bench.op().kind).cut_axis_length(bench.op())}};
  Field field{.contenders = {}, .uncut = {}, .serial = nullptr};
  for (const auto& plan : plans) {
    auto ready = bench.prepare(plan);
    if (!ready) return ready.error();
    auto uncut = bench.prepare(whole, plan.variant);
    if (!uncut) return uncut.error();
    field.contenders.push_back(ready.value());
    field.uncut.push_back(uncut.value());
  }
  auto uncut = bench.prepare(whole, serial);
  if (!uncut) return uncut.error();
  field.serial = uncut.value();
  return field;
}

/// The parts of serial, and those of every uncut variant in the field, each once.
void time_parts(Workbench& bench, Race& race, const Field& field) {
  race.compute_us.push_back(bench.timed_us(*field.serial, RunMode::SerialCompute));
  race.communication_us.push_back(bench.timed_us(*field.serial, RunMode::CommunicationOnly));
  for (executor::Prepared* uncut : std::set(field.uncut.begin(), field.uncut.end())) {
    const double compute_us = bench.timed_us(*uncut, RunMode::ComputeOnly);
    const double communication_us =
        uncut == field.serial ? race.communication_us.back() : bench.timed_us(*uncut, RunMode::CommunicationOnly);
    for (std::size_t i = 0; i < field.uncut.size(); ++i) {
      if (field.uncut[i] != uncut) continue;
      race.contenders[i].compute_us.push_back(compute_us);
      race.contenders[i].communication_us.push_back(communication_us);
    }
  }
}

/// One measured round of a race.
void race_round(Workbench& bench, Race& race, const Field& field, int round) {
  for (std::size_t i = 0; i < field.contenders.size(); ++i) {
    // The order within a pair alternates, and so does the order of contenders, so that a steady drift cancels.
    const std::size_t index = round % 2 == 0 ? i : field.contenders.size() - 1 - i;
    Contender& contender = race.contenders[index];
    const bool fused_first = (round + static_cast<int>(i)) % 2 == 0;
    if (fused_first) contender.fused_us.push_back(bench.timed_us(*field.contenders[index], RunMode::Fused));
    contender.serial_us.push_back(bench.timed_us(*field.serial, RunMode::Serial));
    if (!fused_first) contender.fused_us.push_back(bench.timed_us(*field.contenders[index], RunMode::Fused));
  }
  time_parts(bench, race, field);
}

/// Intervals of fewer pairs may be narrow by chance.
constexpr int kSettlingRounds = 11;
constexpr int kWarmupRounds = 2;
constexpr int kWarmUpShare = 8; // of the budget

int round_count(const Race& race) { return static_cast<int>(race.compute_us.size()); }

int fewest_to_settle(const RaceSettings& settings) {
  return std::min(std::max(settings.min_rounds, kSettlingRounds), settings.max_rounds);
}

/// Of the least certain contender's fused/serial interval.
double widest_interval(const Race& race) {
  double widest = 0;
  for (const Contender& c : race.contenders)
    widest = std::max(widest, profiler::paired_ratio(c.fused_us, c.serial_us, 0.95).relative_half_width());
  return widest;
}

bool is_settled(const Race& race, const RaceSettings& settings) {
  return round_count(race) >= fewest_to_settle(settings) && widest_interval(race) <= settings.relative_half_width;
}

bool is_finished(const Race& race, const RaceSettings& settings, Clock::duration elapsed) {
  const bool is_spent = elapsed >= settings.budget && round_count(race) >= settings.min_rounds;
  return is_spent || round_count(race) >= settings.max_rounds || is_settled(race, settings);
}

Error interrupted_race(const std::string& label) {
  return {ErrorCode::Cancelled, label, "interrupted; nothing of this race was kept"};
}

} // namespace

double to_us(std::chrono::nanoseconds time) noexcept { return static_cast<double>(time.count()) / planner::kNsPerUs; }

double median(const std::vector<double>& values) { return profiler::quantile(values, 0.5); }

Result<profiler::SweepCase> make_sweep_case(Workbench& bench, const profiler::ActiveCase& one,
                                            const planner::Variant& variant) {
  const auto& traits = planner::traits_of(bench.op().kind);
  const std::int64_t rows = traits.cut_axis_length(bench.op());
  auto prepared = bench.prepare(equal_blocks(rows, one.block_rows), variant);
  if (!prepared) return prepared.error();
  const SizeCase size{prepared.value(),
                      variant.text(),
                      traits.work,
                      one.block_rows,
                      traits.message_bytes_per_unit(bench.op()),
                      static_cast<std::size_t>(rows / one.block_rows),
                      to_string(planner::cut_axis(bench.op()))};
  const auto component = one.target == profiler::ActiveTarget::Matmul ? Component::Matmul : Component::Collective;
  auto made = one.target == profiler::ActiveTarget::BothLanes ? together_case(size) : alone_case(size, component);
  if (bench.variants().size() > 1) made.name = variant.text() + " " + made.name;
  return made;
}

Result<profiler::SweepSummary> profile_operator(Workbench& bench, const ProfileSettings& settings,
                                                store::Store& store) {
  const auto screened = screen_variants(bench, settings, store);
  if (!screened) return screened.error();
  if (!screened.value().empty()) std::cerr << "profile " + bench.op().text() + ": " + screened.value() + "\n";
  if (settings.active) return profile_actively(bench, settings, store);
  auto cases = sweep_cases(bench, settings.alignment);
  if (!cases) return cases.error();
  std::vector<Sample> earlier;
  if (auto kept = store.find_profile(bench.op(), bench.fingerprint())) earlier = std::move(kept).value().samples;

  ProgressLine progress("profile " + bench.op().text());
  std::optional<Error> store_error;
  profiler::SweepHooks hooks;
  hooks.now = [] { return std::chrono::steady_clock::now(); };
  hooks.on_progress = [&](const profiler::SweepProgress& p) {
    progress.update(p.fraction, p.remaining,
                    std::to_string(p.finished_case_count) + " of " + std::to_string(p.case_count) + " cases settled");
  };
  hooks.on_samples = [&](std::span<const Sample> samples) {
    auto kept = store.append_samples(bench.op(), bench.fingerprint(), samples, utc_now());
    if (!kept && !store_error) store_error = kept.error();
  };
  hooks.is_cancelled = [&] { return is_interrupted() || store_error.has_value(); };
  auto summary = profiler::run_sweep(cases.value(), settings.sweep, hooks, earlier);
  if (store_error) return *store_error;
  if (!summary) return summary;
  // Outliers can be told only once every sample is there.
  auto kept = store.replace_samples(bench.op(), bench.fingerprint(), summary.value().samples, utc_now());
  if (!kept) return kept.error();
  return summary;
}

planner::Validation Race::validation(const Contender& contender) const {
  const profiler::Interval ratio = profiler::paired_ratio(contender.fused_us, contender.serial_us, 0.95);
  planner::Validation result;
  result.fused_us = median(contender.fused_us);
  result.serial_us = median(contender.serial_us);
  result.benefit = 1 - ratio.value;
  result.benefit_low = 1 - ratio.high;
  result.benefit_high = 1 - ratio.low;
  result.pair_count = static_cast<int>(contender.fused_us.size());
  return result;
}

profiler::Interval Race::overlap_efficiency(const Contender& contender) const {
  std::vector<double> gained, possible;
  for (std::size_t i = 0; i < contender.fused_us.size(); ++i) {
    gained.push_back(contender.serial_us[i] - contender.fused_us[i]);
    possible.push_back(contender.serial_us[i] - std::max(compute_us[i], communication_us[i]));
  }
  // Where a round's parts took as long as the whole there was nothing to gain; such rounds say nothing.
  for (std::size_t i = possible.size(); i-- > 0;)
    if (possible[i] <= 0) {
      possible.erase(possible.begin() + static_cast<std::ptrdiff_t>(i));
      gained.erase(gained.begin() + static_cast<std::ptrdiff_t>(i));
    }
  return possible.empty() ? profiler::Interval{} : profiler::paired_ratio(gained, possible, 0.95);
}

int missing_rounds(const Race& race, const RaceSettings& settings, std::chrono::nanoseconds round_time,
                   std::chrono::nanoseconds budget_left) {
  const int done = round_count(race);
  double expected = fewest_to_settle(settings);
  if (done >= expected) {
    const double growth = std::max(1.0, widest_interval(race) / settings.relative_half_width);
    expected = std::min<double>(done * growth * growth, settings.max_rounds);
  }
  const double affordable =
      std::max<double>(settings.min_rounds - done, std::floor(to_us(budget_left) / to_us(round_time)));
  return static_cast<int>(std::lround(std::max(0.0, std::min(expected - done, affordable))));
}

Result<Race> race(Workbench& bench, const std::vector<planner::Plan>& plans, const RaceSettings& settings,
                  const std::string& label) {
  const auto start = Clock::now();
  const auto warm_up_end = start + settings.budget / kWarmUpShare;
  const planner::Cut whole{{planner::traits_of(bench.op().kind).cut_axis_length(bench.op())}};
  auto serial = find_serial_variant(bench, whole, warm_up_end);
  if (!serial) return serial.error().code == ErrorCode::Cancelled ? interrupted_race(label) : serial.error();
  const auto field = make_field(bench, plans, serial.value());
  if (!field) return field.error();
  Race fresh;
  fresh.serial_variant = serial.value();
  for (const auto& plan : plans) fresh.contenders.push_back({plan.cut, plan.variant, {}, {}, {}, {}, plan.overlaps()});
  ProgressLine progress(label);
  Race result = fresh;
  for (int round = 0; round < kWarmupRounds && Clock::now() < warm_up_end; ++round) {
    if (is_interrupted()) return interrupted_race(label);
    race_round(bench, result, field.value(), round);
  }
  result = fresh;
  const auto first_round = Clock::now();
  while (!is_finished(result, settings, Clock::now() - start)) {
    if (is_interrupted()) return interrupted_race(label);
    race_round(bench, result, field.value(), round_count(result));
    const auto now = Clock::now();
    const int done = round_count(result);
    const auto round_time = (now - first_round) / done;
    const int missing = missing_rounds(result, settings, round_time, start + settings.budget - now);
    progress.update(static_cast<double>(done) / (done + missing),
                    std::chrono::duration_cast<std::chrono::milliseconds>(round_time * missing),
                    std::to_string(done) + " of about " + std::to_string(done + missing) + " rounds");
  }
  return result;
}

} // namespace mc2::cli
