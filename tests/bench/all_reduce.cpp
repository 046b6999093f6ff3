#include "all_reduce.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <string_view>

#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using executor::Prepared;

constexpr std::int64_t kLeastBytes = std::int64_t{16} << 10U, kMostBytes = std::int64_t{64} << 20U;
constexpr std::int64_t kStep = 4;
/// Most collectives of one run: several, so that starting and ending the run weigh little. Large messages get fewer, at
/// most kBytesPerRun in all, so that their rows stay in the caches as with a single repeated collective.
constexpr std::int64_t kBackToBack = 8;
constexpr std::int64_t kBytesPerRun = std::int64_t{2} << 20U;
constexpr int kTrials = 7, kPairs = 31;
constexpr std::int64_t kColumns = 256; // small enough that even the smallest message is cut along m
constexpr std::string_view kRival = "blocking";
constexpr std::array<std::string_view, 2> kOurs{"direct", "two_shot"};

std::int64_t count_of(std::int64_t message_bytes) {
  return std::clamp<std::int64_t>(kBytesPerRun / message_bytes, 1, kBackToBack);
}

/// The operator whose collectives are timed; its matmul only provides the buffers. It has one row more than the
/// messages: the collective of that row synchronises the ranks and is not counted.
planner::OpSpec carrier(std::int64_t message_bytes, int ranks) {
  const std::int64_t rows = message_bytes / (kColumns * planner::size_bytes(planner::DType::F32));
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = 1 + count_of(message_bytes) * rows,
          .n = kColumns,
          .k = 16,
          .dtype = planner::DType::F32,
          .world_size = ranks};
}

/// A variant whose result was verified, ready to run.
struct Runner {
  planner::Variant variant;
  Prepared* prepared = nullptr;
  std::int64_t count = 1; ///< collectives in a run, without the first

  /// Time of one collective on the slowest rank.
  [[nodiscard]] double time_us() const {
    std::chrono::nanoseconds slowest{0};
    for (const auto& rank : prepared->run(executor::RunMode::CommunicationOnly).ranks)
      slowest = std::max(slowest, rank.communication.back().end - rank.communication.front().end);
    return to_us(slowest) / static_cast<double>(count);
  }
};

Result<Runner> make_runner(Workbench& bench, const planner::Variant& variant, std::int64_t count) {
  planner::Cut cut{{1}};
  cut.block_rows.resize(static_cast<std::size_t>(count) + 1, (bench.op().m - 1) / count);
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(bench.op(), bench.fingerprint(), variant, cut));
  MC2_TRY(bench.check(plan));
  return Runner{variant, bench.ready(plan).value(), count};
}

/// The variants of these names that the backend offers. Errors: Unsupported when there is none.
Result<std::vector<Runner>> make_runners(Workbench& bench, std::span<const std::string_view> names,
                                         std::int64_t count) {
  std::vector<Runner> runners;
  for (const auto& variant : bench.variants()) {
    if (std::ranges::find(names, variant.name) == names.end()) continue;
    MC2_ASSIGN(auto runner, make_runner(bench, variant, count));
    runners.push_back(std::move(runner));
  }
  if (!runners.empty()) return runners;
  return Error{ErrorCode::Unsupported, "backend",
               "no variant " + std::string(names.front()) +
                   " here; it takes --backend mpi and ranks of one node that can read each other's memory"};
}

struct Comparison {
  planner::Variant variant;
  double ours_us = 0, rival_us = 0, ratio = 0; ///< medians; ratio: rival / ours over neighbouring runs
};

/// The fastest of the variants, found in runs that the comparison does not use.
const Runner& fastest_of(const std::vector<Runner>& runners) {
  std::vector<std::vector<double>> times(runners.size());
  for (int trial = 0; trial < kTrials; ++trial)
    for (std::size_t i = 0; i < runners.size(); ++i) times[i].push_back(runners[i].time_us());
  const auto fastest = std::ranges::min_element(times, {}, [](const auto& one) { return median(one); });
  return runners[static_cast<std::size_t>(fastest - times.begin())];
}

Result<Comparison> compare(Workbench& bench, std::int64_t count) {
  MC2_ASSIGN(const auto ours, make_runners(bench, kOurs, count));
  MC2_ASSIGN(const auto rival, make_runners(bench, {&kRival, 1}, count));
  const Runner& chosen = fastest_of(ours);
  const Runner& other = rival.front();
  for (int warmup = 0; warmup < 3; ++warmup) static_cast<void>(other.time_us());
  MC2_ASSIGN(const auto pairs, time_pairs(
                                   kPairs, [&] { return other.time_us(); }, [&] { return chosen.time_us(); }));
  return Comparison{chosen.variant, median(pairs.second_us), median(pairs.first_us), pairs.ratio()};
}

} // namespace

void AllReduceBench::add_to(CLI::App& app) {
  machine.add_to(app);
  app.add_option("--ranks", ranks, "ranks that take part")->capture_default_str();
  app.footer("Example:\n  mpirun -np 2 mc2-bench allreduce --backend mpi --ranks 2");
}

Result<ExitCode> AllReduceBench::run() const {
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(ranks));
  std::vector<std::vector<std::string>> rows{{"message", "ours", "", "MPI_Allreduce", "ratio"}};
  std::vector<double> ratios;
  std::string transports;
  for (std::int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kStep) {
    std::cerr << "mc2: all-reduce of " << bytes_text(bytes) << "\n";
    MC2_ASSIGN(auto bench, Workbench::open(*backend, options, carrier(bytes, ranks), fresh_seed()));
    MC2_ASSIGN(const Comparison one, compare(*bench, count_of(bytes)));
    rows.push_back({bytes_text(bytes), number(one.ours_us, "%.1f us"), one.variant.text(),
                    number(one.rival_us, "%.1f us"), number(one.ratio, "%.2f")});
    ratios.push_back(one.ratio);
    transports = bench->fingerprint().fields.at("transports");
  }
  std::cout << "All-reduce in f32, " << ranks << " ranks, " << backend->availability().reason
            << ", transports: " << transports << "\nthroughput mode: back to back, " << kBackToBack << " but at most "
            << bytes_text(kBytesPerRun)
            << " together, after one of 4 KiB that is not counted; time of one on the slowest rank, medians of "
            << kPairs << " pairs in turn\n"
            << render::table(rows, render::kAnyWidth) << "geometric mean of the ratios "
            << number(geomean(ratios), "%.2f") << ", least " << number(*std::ranges::min_element(ratios), "%.2f")
            << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
