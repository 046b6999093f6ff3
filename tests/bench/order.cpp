#include <array>
#include <iostream>

#include "benches.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using executor::Prepared;
using executor::RunMode;

constexpr const char* kLink = "500Mbit,20us";
constexpr const char* kVirtualCompute = "20Gflops,10us";
constexpr int kRanks = 8;
constexpr int kPairCount = 9;
constexpr std::array kKinds{planner::OpKind::MatmulReduceScatter, planner::OpKind::AllGatherMatmul,
                            planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul};

planner::Variant variant_of(const char* order) { return {"direct", {{"order", order}}}; }

/// Medians of runs that take turns.
struct OrderTimes {
  double rank_us = 0;
  double staggered_us = 0;
  double ratio = 0; ///< median of the paired staggered / rank
};

OrderTimes time_orders(Prepared& by_rank, Prepared& staggered, RunMode mode) {
  std::vector<double> rank_us, staggered_us, ratios;
  const auto run_us = [mode](Prepared& prepared) { return wall_us(prepared, mode); };
  for (int pair = 0; pair < kPairCount; ++pair) {
    const bool starts_with_rank = pair % 2 == 0;
    if (starts_with_rank) rank_us.push_back(run_us(by_rank));
    staggered_us.push_back(run_us(staggered));
    if (!starts_with_rank) rank_us.push_back(run_us(by_rank));
    ratios.push_back(staggered_us.back() / rank_us.back());
  }
  return {median(rank_us), median(staggered_us), median(ratios)};
}

std::string times_text(double ratio) { return number(1 / ratio, "x%.2f"); }

/// Errors: as open_bench, Workbench::prepare and Workbench::verify.
Result<std::vector<std::string>> row_of(planner::OpKind kind) {
  const planner::OpSpec op{kind, 4096, 512, 512, planner::DType::F32, kRanks};
  const planner::Cut cut{{128, 128, 128, 128}};
  MC2_ASSIGN(auto bench, open_bench(op, kLink, kVirtualCompute));
  std::array<Prepared*, 2> prepared{};
  for (const bool is_staggered : {false, true}) {
    const auto variant = variant_of(is_staggered ? "staggered" : "rank");
    MC2_TRY(bench->check(cut, variant));
    MC2_ASSIGN(const auto ready, bench->ready(cut, variant));
    prepared[is_staggered ? 1 : 0] = ready;
  }
  const auto alone = time_orders(*prepared[0], *prepared[1], RunMode::CommunicationOnly);
  const auto fused = time_orders(*prepared[0], *prepared[1], RunMode::Fused);
  return std::vector<std::string>{op.text(),
                                  time_text(alone.rank_us),
                                  time_text(alone.staggered_us),
                                  times_text(alone.ratio),
                                  time_text(fused.rank_us),
                                  time_text(fused.staggered_us),
                                  times_text(fused.ratio)};
}

} // namespace

Result<ExitCode> bench_order() {
  std::vector<std::vector<std::string>> rows{{"operator, 4 blocks", "collective: all start at rank 0", "staggered",
                                              "faster", "fused: all start at rank 0", "staggered", "faster"}};
  for (const planner::OpKind kind : kKinds) {
    MC2_ASSIGN(auto row, row_of(kind));
    rows.push_back(std::move(row));
  }
  std::cout << "Order in which ranks turn to their peers, EMULATED: link " << kLink << " in each direction of each of "
            << kRanks << " ranks, virtual compute " << kVirtualCompute << "\n"
            << render::table(rows, render::kAnyWidth) << "\n";
  return ExitCode::Success;
}

} // namespace mc2::cli
