#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "measure.hpp"
#include "tuner.hpp"

namespace mc2::cli {

/// A store that disappears with the benchmark.
class ScratchStore {
 public:
  ScratchStore();
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  [[nodiscard]] Result<store::Store> open() const;

 private:
  std::filesystem::path path_;
};

/// f32 on two ranks, the operator that every host benchmark runs.
[[nodiscard]] planner::OpSpec bench_op(std::int64_t m, std::int64_t n, std::int64_t k);

/// A workbench of the host backend on a link. Errors: as Workbench::open.
[[nodiscard]] Result<std::unique_ptr<Workbench>> open_bench(const planner::OpSpec& op, const std::string& link,
                                                            const std::string& virtual_compute = "");

/// @param race_budget_s for each race
[[nodiscard]] TuneSettings bench_settings(double race_budget_s);

/// Median of the paired fused / serial ratios.
[[nodiscard]] double fused_to_serial(const Contender& contender);

/// Every plan runs; the fastest run again, longer, and those that must stay with them. The best of many noisy medians is
/// too good by chance, and the last heat, in which few cuts run often, takes that out.
/// Errors: as race.
[[nodiscard]] Result<Race> race_heats(Workbench& bench, std::vector<planner::Plan> plans,
                                      const std::vector<planner::Cut>& staying);

} // namespace mc2::cli
