#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// The alignment of block lengths on one backend.
struct BackendAlignment {
  std::string_view backend; ///< Fingerprint's field `backend`
  std::int64_t alignment;   ///< rows or columns of the cut axis
};

/// A row for every backend of mc2, including those that this build lacks.
[[nodiscard]] std::span<const BackendAlignment> default_alignments() noexcept;

/// The options for planning on a machine where the user has chosen none. Alignment and shortest block are the backend's
/// default alignment. For PyTorch's process groups ("torch/...") they are 128 rows on GPUs and 32 elsewhere, with at
/// most 16 blocks. PlanOptions' defaults for an unknown backend.
[[nodiscard]] PlanOptions default_options_on(const Fingerprint& machine);

/// Says that these options leave no cut of the operator: "blocks of at least 64 rows, in steps of 64 and at most 64 of
/// them, leave no cut of 100 rows".
[[nodiscard]] std::string no_legal_cut_text(const OpSpec& op, const PlanOptions& options);

/// Whether a variant of the machine's backend can exchange unequal splits of an operator. True for unknown backends.
[[nodiscard]] bool takes_counts(const Fingerprint& machine, const OpSpec& op, const Variant& variant);

/// What the caller knows of the limits within which a plan was chosen, and of its assumptions.
struct CutLimits {
  std::optional<std::int64_t> alignment, min_block_rows, max_block_count;
  std::optional<LaneContention> contention = std::nullopt; ///< slow-downs that the plan assumed
  std::optional<double> block_overhead_us = std::nullopt;  ///< overhead that it assumed; unset: as the plan says
};

/// The options that a plan was probably made with. A limit that `said` leaves unset gets its default, relaxed until the
/// plan's own blocks are legal; the default alignment is that of the plan's backend.
[[nodiscard]] PlanOptions likely_limits(const Plan& plan, const CutLimits& said = {});

} // namespace mc2::planner

#pragma GCC visibility pop
