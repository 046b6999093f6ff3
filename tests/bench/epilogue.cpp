#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "benches.hpp"
#include "collective_rig.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "options/numbers.hpp"
#include "pages/terminal.hpp"
#include "support.hpp"

namespace mc2::cli {
namespace {

constexpr int kEpilogueRounds = 101, kEpilogueWarmups = 5;
constexpr std::array<std::int64_t, 2> kEpilogueColumns{6144, 8192};
constexpr std::array<std::int64_t, 6> kEpilogueRows{1, 6, 64, 256, 1024, 4096};

/// One all-reduce, bare and with residual and RMSNorm.
class EpiloguePair {
 public:
  EpiloguePair(const planner::OpSpec& bare, executor::Communicator& communicator)
      : bare_(bare, communicator), finished_(finished(bare), communicator) {}

  /// Errors: as CollectiveRig::add.
  Result<void> add(const planner::Variant& variant) {
    MC2_TRY(bare_.add(variant, 1));
    return finished_.add(variant, 1);
  }
  double time_us(bool is_finished, std::size_t variant) {
    return to_us((is_finished ? finished_ : bare_).run(variant).makespan);
  }

 private:
  static planner::OpSpec finished(planner::OpSpec op) {
    op.epilogue = {.has_residual = true, .norm = planner::Norm::Rms};
    return op;
  }

  CollectiveRig bare_, finished_;
};

struct EpilogueCase {
  executor::Communicator& communicator;
  planner::OpSpec op;
  std::vector<planner::Variant> variants;

  /// A row with the variant that is the fastest with residual and RMSNorm, its times, and the median difference of the
  /// pairs.
  [[nodiscard]] Result<std::vector<std::string>> measure() const;
};

Result<std::vector<std::string>> EpilogueCase::measure() const {
  EpiloguePair pair(op, communicator);
  for (const auto& variant : variants) MC2_TRY(pair.add(variant));
  std::vector<std::vector<double>> bare(variants.size()), finished(variants.size()), added(variants.size());
  for (int round = -kEpilogueWarmups; round < kEpilogueRounds; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
      const bool is_finished_first = round % 2 == 0;
      const double first = pair.time_us(is_finished_first, i), second = pair.time_us(!is_finished_first, i);
      if (round < 0) continue;
      bare[i].push_back(is_finished_first ? second : first);
      finished[i].push_back(is_finished_first ? first : second);
      added[i].push_back(finished[i].back() - bare[i].back());
    }
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < variants.size(); ++i)
    if (median(finished[i]) < median(finished[best])) best = i;
  return std::vector<std::string>{std::to_string(op.m),
                                  std::to_string(op.n),
                                  std::string(to_string(op.dtype)),
                                  std::to_string(op.world_size),
                                  variants[best].text(),
                                  number(median(bare[best]), "%.1f"),
                                  number(median(finished[best]), "%.1f"),
                                  number(median(added[best]), "%.1f")};
}

} // namespace

void EpilogueBench::add_to(CLI::App& app) { where.add_to(app); }

Result<ExitCode> EpilogueBench::run() const {
  MC2_ASSIGN(const auto site, where.site());
  std::vector<planner::OpSpec> all;
  for (const std::int64_t n : kEpilogueColumns)
    for (const std::int64_t m : kEpilogueRows)
      all.push_back({.kind = planner::OpKind::MatmulAllReduce,
                     .m = m,
                     .n = n,
                     .k = 16,
                     .dtype = site.dtype,
                     .world_size = where.ranks});
  MC2_TRY(site.backend->supports(all.back()));
  MC2_ASSIGN(auto communicator, site.backend->open(site.options));
  return print_rows("what residual and RMSNorm add to an all-reduce, " + communicator->fingerprint().label() +
                        ", medians of " + std::to_string(kEpilogueRounds) + " pairs",
                    {"rows", "columns", "type", "ranks", "variant", "sum us", "with both us", "added us"}, all.size(),
                    [&](std::size_t i) {
                      return EpilogueCase{*communicator, all[i], site.variants(all[i])}.measure();
                    });
}

} // namespace mc2::cli
