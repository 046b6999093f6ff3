#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <iostream>
#include <sstream>
#include <thread>

#include "benches.hpp"
#include "collective_rig.hpp"
#include "collective_times.hpp"
#include "mc2/planner/collective.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/store/csv.hpp"
#include "options/numbers.hpp"
#include "pages/image_file.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Most collectives of one run in throughput mode: several, so that starting and ending the run weigh little. Large
/// messages get fewer, because their buffers would not fit, and so do slow ones.
constexpr std::int64_t kMostBackToBack = 16;
constexpr std::int64_t kBackToBackBytes = std::int64_t{32} << 20U;
constexpr double kBackToBackUs = 50e3; ///< limit of a run's time
constexpr int kWarmups = 3;
constexpr int kMostRounds = 21, kFewestRounds = 5;
constexpr std::int64_t kMostColumns = 1024;
constexpr std::int64_t kFirstBytes = std::int64_t{1} << 10U;
constexpr std::int64_t kFewestRows = 65; // fewer would be cut along n

/// Whether a message is cut into a piece for each rank.
bool has_pieces(planner::OpKind kind) { return planner::collective_of(kind) != planner::Collective::AllReduce; }

/// An operator with `count` collectives back to back. Its matmul only provides the buffers.
/// @param message_bytes  of one collective, all pieces together
planner::OpSpec carrier(const CollectiveSite& site, std::int64_t message_bytes, std::int64_t count) {
  planner::OpSpec op{
      .kind = site.kind, .m = 0, .n = 16, .k = 16, .dtype = site.dtype, .world_size = site.options.world_size};
  const std::int64_t pieces = has_pieces(site.kind) ? op.world_size : 1;
  const std::int64_t elements =
      std::max<std::int64_t>(1, message_bytes / pieces / planner::size_bytes(planner::exchange_type(op)));
  const std::int64_t fewest_rows = has_pieces(site.kind) ? 1 : kFewestRows;
  std::int64_t& columns = planner::traits_of(site.kind).communicates_first() ? op.k : op.n;
  columns = std::min(kMostColumns, elements);
  while (columns > 1 && count * (elements / columns) < fewest_rows) columns /= 2;
  op.m = count * (elements / columns) * pieces;
  return op;
}

/// Number of messages in a run in throughput mode.
std::int64_t back_to_back(std::int64_t message_bytes) {
  return std::clamp<std::int64_t>(kBackToBackBytes / message_bytes, 1, kMostBackToBack);
}

/// Median time in us in which `ranks` threads at once copy `message_bytes` each; the slowest thread counts. There are
/// twenty rounds, each with enough copies to take 20 us or more.
double copy_us(std::int64_t message_bytes, int ranks) {
  constexpr int kCopyRounds = 20;
  constexpr std::int64_t kBytesOfARound = std::int64_t{256} << 10U;
  const auto size = static_cast<std::size_t>(message_bytes);
  const std::int64_t repeats = std::max<std::int64_t>(1, kBytesOfARound / message_bytes);
  std::vector<std::vector<double>> times(kCopyRounds, std::vector<double>(static_cast<std::size_t>(ranks)));
  std::barrier together(ranks);
  const auto copy = [&](std::size_t rank) {
    std::vector<std::byte> from(size, std::byte{1}), to(size, std::byte{2});
    for (auto& round : times) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      for (std::int64_t i = 0; i < repeats; ++i) {
        std::memcpy(to.data(), from.data(), size);
        asm volatile("" : : "r"(to.data()) : "memory"); // keeps the compiler from removing copies
      }
      round[rank] = to_us(Clock::now() - start) / static_cast<double>(repeats);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) threads.emplace_back(copy, rank);
  }
  std::vector<double> slowest;
  for (const auto& round : times) slowest.push_back(*std::ranges::max_element(round));
  return median(slowest);
}

/// Times all variants at one size. In each round the variants take turns, each with one collective and with several
/// back to back.
struct SizeBench {
  executor::Communicator& communicator;
  const CollectiveSite& site;
  const std::vector<planner::Variant>& variants;
  double budget_s;

  [[nodiscard]] Result<CollectiveTimes> run(std::int64_t message_bytes) const;
};

Result<CollectiveTimes> SizeBench::run(std::int64_t message_bytes) const {
  const int ranks = communicator.world_size();
  CollectiveRig single(carrier(site, message_bytes, 1), communicator);
  double longest_us = 1;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    MC2_TRY(single.add(variants[i], 1));
    single.run(i);
    longest_us = std::max(longest_us, to_us(single.run(i).makespan));
  }
  const auto count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kBackToBackUs / longest_us), 1, back_to_back(message_bytes));
  CollectiveRig many(carrier(site, message_bytes, count), communicator);
  for (const auto& variant : variants) MC2_TRY(many.add(variant, count));
  std::vector<std::array<std::vector<double>, 3>> times(variants.size());
  const auto start = Clock::now();
  for (int round = -kWarmups; round < kMostRounds; ++round) {
    if (round >= kFewestRounds && seconds_since(start) > budget_s) break;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
      const auto called = Clock::now(); // the record's times may not include the caller's part
      const double lane_us = to_us(single.run(i).makespan);
      const double latency_us = to_us(Clock::now() - called);
      const double throughput_us = to_us(many.run(i).makespan) / static_cast<double>(count);
      if (round < 0) continue;
      times[i][0].push_back(lane_us);
      times[i][1].push_back(throughput_us);
      times[i][2].push_back(latency_us);
    }
  }
  CollectiveTimes result{.message_bytes = message_bytes, .lane_us = {}, .throughput_us = {}, .latency_us = {}};
  for (const auto& one : times) {
    result.lane_us.push_back(median(one[0]));
    result.throughput_us.push_back(median(one[1]));
    result.latency_us.push_back(median(one[2]));
  }
  if (communicator.uses_host_memory()) result.copy_us = copy_us(message_bytes, ranks);
  return result;
}

/// The variants that are proposed for every message, alone and back to back, so that every row has a time of each.
/// Errors: Unsupported where there is none.
Result<std::vector<planner::Variant>> variants_of_all_sizes(const CollectiveSite& site, std::int64_t first_bytes,
                                                            std::int64_t last_bytes) {
  auto variants = site.variants(carrier(site, last_bytes, 1));
  for (std::int64_t bytes = first_bytes; bytes <= last_bytes; bytes *= 2)
    for (const std::int64_t count : {std::int64_t{1}, back_to_back(bytes)}) {
      const auto proposed = site.variants(carrier(site, bytes, count));
      std::erase_if(variants,
                    [&](const auto& variant) { return std::ranges::find(proposed, variant) == proposed.end(); });
    }
  if (variants.empty())
    return Error{ErrorCode::Unsupported, "--to", "no variant takes messages of every size up to it; try a smaller one"};
  return variants;
}

/// A table with one row per size: the time of every variant and the winner. In throughput mode, each time also shows
/// its share of the copy's bandwidth.
std::string mode_table(std::span<const CollectiveTimes> sizes, std::span<const std::string> variants, TimingMode mode,
                       double bus_factor) {
  const bool is_throughput = mode == TimingMode::Throughput;
  const bool has_copy = is_throughput && sizes.front().copy_us > 0;
  std::vector<std::vector<std::string>> rows{{"message"}};
  rows.front().insert(rows.front().end(), variants.begin(), variants.end());
  rows.front().push_back("fastest");
  if (is_throughput) rows.front().push_back("busbw");
  if (has_copy) rows.front().push_back("copy");
  for (const CollectiveTimes& size : sizes) {
    auto& row = rows.emplace_back(std::vector<std::string>{bytes_text(size.message_bytes)});
    for (const double us : size.of(mode))
      row.push_back(number(us, "%.1f us") + (has_copy ? number(100 * size.copy_us / us, ", %.0f %%") : ""));
    const std::size_t winner = size.fastest(mode);
    row.push_back(variants[winner]);
    const double bytes = static_cast<double>(size.message_bytes);
    if (is_throughput) row.push_back(number(bytes * bus_factor / size.of(mode)[winner] / 1e3, "%.2f GB/s"));
    if (has_copy) row.push_back(number(size.copy_us, "%.2f us") + number(bytes / size.copy_us / 1e3, ", %.2f GB/s"));
  }
  return render::table(rows, render::kAnyWidth);
}

void write_csv(const std::string& path, const std::string& kind, std::span<const CollectiveTimes> sizes,
               std::span<const std::string> variants) {
  std::ostringstream file;
  file << "kind,message_bytes,variant,lane_us,back_to_back_us,latency_us\n";
  const auto us = [](double value) { return "," + number(value, "%.5g"); };
  for (const CollectiveTimes& size : sizes)
    for (std::size_t i = 0; i < variants.size(); ++i)
      file << kind << "," << size.message_bytes << "," << store::csv_cell(variants[i]) << us(size.lane_us[i])
           << us(size.throughput_us[i]) << us(size.latency_us[i]) << "\n";
  write_file(path, file.str());
}

} // namespace

void CollectivesBench::add_to(CLI::App& app) {
  where.add_to(app);
  app.add_option("--op", kind, "operator kind, one of a matmul, whose collective is timed")->capture_default_str();
  const auto bytes = whole_number(kFirstBytes, std::int64_t{1} << 30U);
  app.add_option("--from", first_bytes, "smallest message in bytes: of all ranks' pieces, where it has pieces")
      ->capture_default_str()
      ->check(bytes);
  app.add_option("--to", last_bytes, "largest message; sizes double from the smallest")
      ->capture_default_str()
      ->check(bytes);
  app.add_option("--budget", budget_s, "seconds for each size after which no new round starts")
      ->capture_default_str()
      ->check(real_number(0.001, 3600));
  app.add_option("--chart", chart_file, "also draw bus bandwidth over size to this .svg or .png file");
  app.add_option("--csv", csv_file, "also write a row of each size and variant to this file");
}

Result<ExitCode> CollectivesBench::run() const {
  MC2_ASSIGN(auto site, where.site());
  MC2_ASSIGN(site.kind, planner::parse_op_kind(kind));
  if (planner::traits_of(site.kind).work != planner::Work::Matmul)
    return Error{ErrorCode::InvalidSpec, "--op", kind + " has no plain matmul, which carries the collective here"};
  if (last_bytes < first_bytes) return Error{ErrorCode::InvalidSpec, "--to", "it is smaller than --from"};
  const planner::OpSpec largest = carrier(site, last_bytes, 1);
  MC2_TRY(largest.validate());
  MC2_TRY(site.backend->supports(largest));
  std::optional<ImageFile> chart;
  if (!chart_file.empty()) {
    MC2_ASSIGN(chart, ImageFile::open(chart_file, "--chart"));
  }
  MC2_ASSIGN(auto communicator, site.backend->open(site.options));
  MC2_ASSIGN(const auto variants, variants_of_all_sizes(site, first_bytes, last_bytes));
  std::vector<std::string> names;
  for (const auto& variant : variants) names.push_back(variant.text());
  std::vector<CollectiveTimes> sizes;
  if (!csv_file.empty()) write_csv(csv_file, kind, sizes, names); // early, so that a bad path is reported first
  for (std::int64_t bytes = first_bytes; bytes <= last_bytes; bytes *= 2) {
    std::cerr << "mc2: " << kind << " of " << bytes_text(bytes) << "\n";
    MC2_ASSIGN(auto times, SizeBench{*communicator, site, variants, budget_s}.run(bytes));
    sizes.push_back(std::move(times));
  }
  const double bus_factor = planner::bus_factor(planner::collective_of(site.kind), where.ranks);
  print(sizes, names, bus_factor, communicator->fingerprint().label());
  if (!csv_file.empty()) write_csv(csv_file, kind, sizes, names);
  if (chart)
    chart->write(collectives_chart(
        sizes, names, bus_factor,
        "Collective of " + kind + " in " + where.dtype + ", " + std::to_string(where.ranks) + " ranks"));
  return ExitCode::Success;
}

void CollectivesBench::print(const std::vector<CollectiveTimes>& sizes, const std::vector<std::string>& variants,
                             double bus_factor, const std::string& machine_label) const {
  std::cout << "Collective of " << kind << " in " << where.dtype << ", " << where.ranks << " ranks, " << machine_label
            << "; medians of up to " << kMostRounds << " rounds in turn, slowest rank\n";
  if (sizes.front().copy_us > 0)
    std::cout
        << "direct reads what lies there from the start; the others also wait for what their peers do in the run\n";
  const std::array explanations{
      std::pair{TimingMode::LaneTime, "first start to last end on the communication lanes, of one"},
      std::pair{TimingMode::Throughput,
                "back to back, time of one, and its share of the speed of light: as many bytes copied by "
                "every rank at once (column copy)"},
      std::pair{TimingMode::Latency, "one at a time, waiting for each, from the caller's call to its return"}};
  for (const auto& [mode, explanation] : explanations)
    std::cout << "\n"
              << to_string(mode) << ": " << explanation << "\n"
              << mode_table(sizes, variants, mode, bus_factor) << "fastest by " << to_string(mode) << ": "
              << switch_overs(sizes, variants, mode) << "\n";
}

} // namespace mc2::cli
