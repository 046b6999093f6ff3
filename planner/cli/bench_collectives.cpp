#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "benches.hpp"
#include "bench_support.hpp"
#include "mc2/planner/units.hpp"
#include "render.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

using executor::RunMode;

/// Collectives of one run, so that starting and ending it weigh little.
constexpr int kBackToBack = 8;
constexpr int kWarmups = 3;
constexpr int kRounds = 21;
constexpr std::int64_t kColumns = 1024;
constexpr std::int64_t kFirstBytes = std::int64_t{8} << 10U;
constexpr std::int64_t kLastBytes = std::int64_t{64} << 20U;

/// All-reduces of `message_bytes`, back to back; the matmul is there for its buffers only.
planner::OpSpec carrier(std::int64_t message_bytes, planner::DType dtype, int ranks) {
  const std::int64_t rows = message_bytes / (kColumns * planner::size_bytes(dtype));
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = kBackToBack * rows,
          .n = kColumns,
          .k = 16,
          .dtype = dtype,
          .world_size = ranks};
}

/// Median time of one collective of each variant, in us; the variants take turns.
Result<std::vector<double>> time_variants(Workbench& bench) {
  const planner::Cut cut{std::vector<std::int64_t>(kBackToBack, bench.op().m / kBackToBack)};
  std::vector<executor::Prepared*> prepared;
  for (const auto& variant : bench.variants()) {
    if (auto right = bench.verify(cut, variant); !right) return right.error();
    prepared.push_back(bench.prepare(cut, variant).value());
  }
  std::vector<std::vector<double>> times(prepared.size());
  for (int round = -kWarmups; round < kRounds; ++round)
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
      const auto& record = prepared[i]->run(RunMode::CommunicationOnly, executor::RunDetail::Makespan);
      if (round >= 0) times[i].push_back(to_us(record.makespan) / kBackToBack);
    }
  std::vector<double> medians;
  for (const auto& one : times) medians.push_back(median(one));
  return medians;
}

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string size_text(std::int64_t bytes) {
  return bytes < (1 << 20) ? std::to_string(bytes >> 10U) + " KiB" : std::to_string(bytes >> 20U) + " MiB";
}

} // namespace

void CollectivesBench::add_to(CLI::App& app) {
  machine.add_to(app);
  app.add_option("--dtype", dtype, "element type: f32, f16, bf16")->capture_default_str();
  app.add_option("--ranks", ranks, "ranks that take part")->capture_default_str();
}

Result<ExitCode> CollectivesBench::run() const {
  const auto backend = machine.find();
  if (!backend) return backend.error();
  const auto options = machine.communicator_options(ranks);
  if (!options) return options.error();
  const auto type = planner::parse_dtype(dtype);
  if (!type) return type.error();
  std::vector<std::vector<std::string>> rows;
  for (std::int64_t bytes = kFirstBytes; bytes <= kLastBytes; bytes *= 2) {
    std::cerr << "mc2: all-reduce of " << size_text(bytes) << "\n";
    auto bench = Workbench::open(*backend.value(), options.value(), carrier(bytes, type.value(), ranks), fresh_seed());
    if (!bench) return bench.error();
    const auto times = time_variants(*bench.value());
    if (!times) return times.error();
    if (rows.empty()) {
      rows.push_back({"message"});
      for (const auto& variant : bench.value()->variants()) rows.front().push_back(variant.text());
      rows.front().insert(rows.front().end(), {"fastest", "busbw"});
    }
    auto& row = rows.emplace_back(std::vector<std::string>{size_text(bytes)});
    for (const double us : times.value()) row.push_back(number(us, "%.1f us"));
    const auto fastest = std::ranges::min_element(times.value());
    const double bus_factor = 2.0 * (ranks - 1) / ranks;
    row.push_back(bench.value()->variants()[static_cast<std::size_t>(fastest - times.value().begin())].text());
    row.push_back(number(static_cast<double>(bytes) * bus_factor / *fastest / 1e3, "%.1f GB/s"));
  }
  std::cout << "All-reduce in " << dtype << ", " << ranks << " ranks, " << backend.value()->availability().reason << "\n"
            << "throughput mode: " << kBackToBack << " back to back, time of one, median of " << kRounds
            << " runs in turn, slowest rank\n"
            << table(rows) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
