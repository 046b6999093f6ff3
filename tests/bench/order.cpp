#include <array>

#include "benches.hpp"
#include "mc2/planner/text.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using executor::Prepared;
using executor::RunMode;

constexpr const char* kLink = "500Mbit,20us";
constexpr const char* kVirtualCompute = "20Gflops,10us";
constexpr int kRanks = 8;
constexpr std::size_t kPairCount = 9;
constexpr std::array kKinds{planner::OpKind::MatmulReduceScatter, planner::OpKind::AllGatherMatmul,
                            planner::OpKind::MatmulAllToAll, planner::OpKind::AllToAllMatmul};

planner::Variant variant_of(const char* order) { return {"direct", {{"order", order}}}; }

/// Times pairs of two orders: all ranks beginning with rank 0, and staggered. Errors: Cancelled.
Result<Pairs> time_orders(const std::array<Prepared*, 2>& prepared, RunMode mode) {
  return time_pairs(
      kPairCount, [&] { return wall_us(*prepared[0], mode); }, [&] { return wall_us(*prepared[1], mode); });
}

std::string times_text(double ratio) { return number(ratio, "x%.2f"); }

/// Errors: as open_bench, Workbench::prepare and Workbench::verify; Cancelled.
Result<std::vector<std::string>> row_of(planner::OpKind kind) {
  const planner::OpSpec op{kind, 4096, 512, 512, planner::DType::F32, kRanks};
  const planner::Cut cut{{128, 128, 128, 128}};
  MC2_ASSIGN(auto bench, open_bench(op, kLink, kVirtualCompute));
  std::array<Prepared*, 2> prepared{};
  for (const bool is_staggered : {false, true}) {
    const auto variant = variant_of(is_staggered ? "staggered" : "rank");
    MC2_ASSIGN(const auto plan, planner::unpredicted_plan(op, bench->fingerprint(), variant, cut));
    MC2_TRY(bench->check(plan));
    MC2_ASSIGN(const auto ready, bench->ready(plan));
    prepared[is_staggered ? 1 : 0] = ready;
  }
  MC2_ASSIGN(const auto alone, time_orders(prepared, RunMode::CommunicationOnly));
  MC2_ASSIGN(const auto fused, time_orders(prepared, RunMode::Fused));
  return std::vector<std::string>{op.text(),
                                  time_text(median(alone.first_us)),
                                  time_text(median(alone.second_us)),
                                  times_text(alone.ratio()),
                                  time_text(median(fused.first_us)),
                                  time_text(median(fused.second_us)),
                                  times_text(fused.ratio())};
}

} // namespace

Result<ExitCode> bench_order() {
  return print_rows(std::string("Order in which ranks turn to their peers, EMULATED: link ") + kLink +
                        " in each direction of each of " + std::to_string(kRanks) + " ranks, virtual compute " +
                        kVirtualCompute,
                    {"operator, 4 blocks", "collective: all start at rank 0", "staggered", "faster",
                     "fused: all start at rank 0", "staggered", "faster"},
                    kKinds.size(), [](std::size_t i) { return row_of(kKinds[i]); });
}

} // namespace mc2::cli
