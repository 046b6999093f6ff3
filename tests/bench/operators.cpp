#include <iostream>
#include <thread>

#include "benches.hpp"
#include "mc2/planner/text.hpp"
#include "pages/render.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

using planner::OpKind;

struct OperatorCase {
  planner::OpSpec op;
  const char* link;
  const char* virtual_compute = ""; ///< empty: the real matmul
};

/// Operators of every kind, with blocks of rows and of columns, on links that take about as long as the compute lane.
std::vector<OperatorCase> operator_cases(int world_size, bool is_virtual) {
  const auto matmul = [&](OpKind kind, std::int64_t m, std::int64_t n, const char* link) {
    return OperatorCase{{kind, m, n, 1024, planner::DType::F32, world_size}, link, is_virtual ? "100Gflops,10us" : ""};
  };
  const char* slow = is_virtual ? "2.5Gbit,20us" : "1Gbit,20us";
  const std::int64_t sharded_m = 1024 * world_size;
  OperatorCase pooling{{OpKind::EmbeddingAllToAll, sharded_m, 512, 20, planner::DType::F32, world_size},
                       is_virtual ? "2.5Gbit,20us" : "500Mbit,20us",
                       is_virtual ? "2Gflops,10us" : ""};
  pooling.op.tables = {.table_count = 8, .row_count = 100'000, .pooling = planner::Pooling::Sum};
  const auto grouped = [&](OpKind kind) { // half the tokens, each twice: as many products
    OperatorCase one = matmul(kind, sharded_m / 2, 1024, is_virtual ? "1Gbit,20us" : "500Mbit,20us");
    one.op.experts = {.count = 8, .top_k = 2};
    return one;
  };
  return {matmul(OpKind::MatmulAllReduce, 1024, 1024, "2.5Gbit,20us"),
          matmul(OpKind::MatmulAllReduce, 32, 16384, "2.5Gbit,20us"),
          matmul(OpKind::MatmulReduceScatter, sharded_m, 1024, slow),
          matmul(OpKind::AllGatherMatmul, sharded_m, 1024, slow),
          matmul(OpKind::MatmulAllToAll, sharded_m, 1024, slow),
          matmul(OpKind::AllToAllMatmul, sharded_m, 1024, slow),
          pooling,
          grouped(OpKind::AllGatherGroupedMatmul),
          grouped(OpKind::GroupedMatmulReduceScatter)};
}

/// Tunes, and measures the kept plan in a race of its own, because the winner of a race of many is too good by chance.
/// Errors: as open_bench, tune_operator and race.
Result<std::vector<std::string>> row_of(const OperatorCase& asked, const TuneSettings& settings) {
  ScratchStore scratch;
  MC2_ASSIGN(auto store, scratch.open());
  MC2_ASSIGN(auto bench, open_bench(asked.op, asked.link, asked.virtual_compute));
  MC2_ASSIGN(const auto tuned, tune_operator(*bench, settings, store));
  const planner::Plan& plan = tuned.plan;
  MC2_ASSIGN(const auto raced, shown_race(*bench, {plan}, settings.race, "race the kept plan"));
  const Contender& contender = raced.contenders.front();
  const planner::Validation found = contender.validation();
  const profiler::Interval efficiency = raced.overlap_efficiency(contender);
  return std::vector<std::string>{asked.op.text(),
                                  *asked.virtual_compute == '\0' ? "real" : asked.virtual_compute,
                                  asked.link,
                                  percent_text(ideal_benefit(raced)),
                                  plan.cut.text(),
                                  plan.variant.text(),
                                  percent_text(found.benefit) + " (" + percent_text(found.benefit_low) + " to " +
                                      percent_text(found.benefit_high) + ")",
                                  percent_text(efficiency.value) + " (" + percent_text(efficiency.low) + " to " +
                                      percent_text(efficiency.high) + ")"};
}

} // namespace

Result<ExitCode> bench_operators(const TuneSettings& settings) {
  constexpr int kLanesPerRank = 2;
  const bool lanes_fit = std::thread::hardware_concurrency() >= 4 * kLanesPerRank;
  std::vector<OperatorCase> cases = operator_cases(lanes_fit ? 4 : 2, false);
  for (const OperatorCase& emulated : operator_cases(4, true)) cases.push_back(emulated);
  return print_rows("Every operator, tuned, on EMULATED links (medians of paired runs, 95 % intervals)",
                    {"operator", "compute", "link", "ideal", "kept plan", "variant", "benefit", "efficiency"},
                    cases.size(), [&](std::size_t i) {
                      auto row = row_of(cases[i], settings);
                      if (row)
                        std::cerr << "mc2: " << row.value().front() << ": efficiency " << row.value().back() << "\n";
                      return row;
                    });
}

} // namespace mc2::cli
