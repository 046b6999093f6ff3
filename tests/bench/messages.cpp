#include <algorithm>
#include <array>
#include <iostream>

#include "benches.hpp"
#include "mc2/planner/text.hpp"
#include "message_rate.hpp"
#include "pages/render.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using executor::MessagePath;
using executor::MessageTimes;

constexpr std::array kPaths{MessagePath::Pull, MessagePath::Push, MessagePath::PushByProxy};
constexpr std::array<std::int64_t, 7> kSizes{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20};
constexpr std::int64_t kBytesOfATrial = std::int64_t{32} << 20U;
constexpr std::int64_t kMostMessages = 5000, kFewestMessages = 32;
constexpr int kRounds = 9;

/// Times of one size: medians over rounds in which the paths take turns. Errors: Cancelled.
Result<std::array<MessageTimes, kPaths.size()>> time_size(std::int64_t bytes) {
  const int count = static_cast<int>(std::clamp(kBytesOfATrial / bytes, kFewestMessages, kMostMessages));
  std::array<std::array<std::vector<double>, 3>, kPaths.size()> trials;
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < kPaths.size(); ++i) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
      const MessageTimes times = executor::time_messages(kPaths[i], static_cast<std::size_t>(bytes), count);
      trials[i][0].push_back(times.lane_us);
      trials[i][1].push_back(times.throughput_us);
      trials[i][2].push_back(times.latency_us);
    }
  std::array<MessageTimes, kPaths.size()> medians;
  for (std::size_t i = 0; i < kPaths.size(); ++i)
    medians[i] = {median(trials[i][0]), median(trials[i][1]), median(trials[i][2])};
  return medians;
}

} // namespace

Result<ExitCode> bench_messages() {
  std::vector<std::vector<std::string>> rows{{"message", "path", "throughput", "bandwidth", "latency", "lane time"}};
  for (const std::int64_t bytes : kSizes) {
    MC2_ASSIGN(const auto times, time_size(bytes));
    for (std::size_t i = 0; i < kPaths.size(); ++i) {
      const MessageTimes& one = times[i];
      rows.push_back({bytes_text(bytes), std::string(to_string(kPaths[i])),
                      number(1e3 / one.throughput_us, "%.1f thousand/s"),
                      number(static_cast<double>(bytes) / one.throughput_us / 1e3, "%.3f GB/s"),
                      number(one.latency_us, "%.2f us"), number(one.lane_us, "%.2f us")});
    }
  }
  std::cout << "Messages between two threads that share memory, medians of " << kRounds << " trials in turn\n"
            << "throughput: back to back; latency: half a round trip, waiting each time; lane time: what the sender's "
               "own thread spends on a message\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
