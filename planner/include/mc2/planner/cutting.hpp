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

/// What blocks on one kind of machine should be multiples of.
struct BackendAlignment {
  std::string_view backend; ///< Fingerprint's field `backend`
  std::int64_t alignment;   ///< rows or columns of the cut axis
};

/// Every backend of mc2, whether or not a build has it.
[[nodiscard]] std::span<const BackendAlignment> default_alignments() noexcept;

/// Planning starts from it unless the user says otherwise. PlanOptions' own for a backend that is not in the table.
[[nodiscard]] std::int64_t default_alignment(std::string_view backend);

/// The options for planning on the machine of a fingerprint where nobody has chosen: blocks of its backend's default
/// alignment; of PyTorch's process groups ("torch/..."), of 128 rows on GPUs and 32 elsewhere, 16 at most. PlanOptions'
/// own for a fingerprint without a backend that is known.
[[nodiscard]] PlanOptions default_options_on(const Fingerprint& machine);

/// Whether a variant of a machine's backend exchanges unequal splits of an operator; of one that is not known: yes.
[[nodiscard]] bool takes_counts(const Fingerprint& machine, const OpSpec& op, const Variant& variant);

/// What somebody says of the cuts that a plan was chosen from.
struct CutLimits {
  std::optional<std::int64_t> alignment, min_block_rows, max_block_count;
  std::optional<LaneContention> contention = std::nullopt; ///< that it assumed
  std::optional<double> block_overhead_us = std::nullopt;  ///< likewise; the plan says it where it did
};

/// The cuts that a plan was probably chosen from: as said, else as its own backend cuts, else as its blocks show.
[[nodiscard]] PlanOptions likely_limits(const Plan& plan, const CutLimits& said = {});

} // namespace mc2::planner

#pragma GCC visibility pop
