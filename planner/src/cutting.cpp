#include "mc2/planner/cutting.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace mc2::planner {
namespace {

constexpr std::array<BackendAlignment, 3> kDefaultAlignments{{{"host", 64}, {"cuda", 128}, {"mpi", 64}}};

/// PyTorch's process groups, "torch/gloo" and the like. Blocks are multiples of the tiles of the device's matmuls, and
/// few, because each block is several calls of the framework.
constexpr std::string_view kTorchPrefix = "torch/";
constexpr std::int64_t kTorchGpuAlignment = 128, kTorchCpuAlignment = 32, kTorchMaxBlockCount = 16;

/// The alignment of the plan's backend or, if the plan's blocks are no multiples of it, its largest common divisor with
/// them.
std::int64_t likely_alignment(const Plan& plan) {
  const std::int64_t alignment = default_options_on(plan.fingerprint).alignment;
  if (!plan.is_cut()) return alignment;
  // The first or the last block may be ragged: it takes the rest.
  const auto& rows = plan.cut.block_rows;
  const auto common = [&](std::size_t first, std::size_t last) {
    return std::accumulate(rows.begin() + static_cast<std::ptrdiff_t>(first),
                           rows.begin() + static_cast<std::ptrdiff_t>(last), alignment,
                           [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
  };
  return std::max(common(0, rows.size() - 1), common(1, rows.size()));
}

} // namespace

std::span<const BackendAlignment> default_alignments() noexcept { return kDefaultAlignments; }

PlanOptions default_options_on(const Fingerprint& machine) {
  PlanOptions options;
  const std::string_view backend = machine.field("backend");
  if (backend.starts_with(kTorchPrefix)) {
    const bool has_gpus = machine.fields.contains("gpu_model");
    options.alignment = options.min_block_rows = has_gpus ? kTorchGpuAlignment : kTorchCpuAlignment;
    options.max_block_count = kTorchMaxBlockCount;
    return options;
  }
  const auto* const found = std::ranges::find(kDefaultAlignments, backend, &BackendAlignment::backend);
  if (found != kDefaultAlignments.end()) options.alignment = options.min_block_rows = found->alignment;
  return options;
}

std::string no_legal_cut_text(const OpSpec& op, const PlanOptions& options) {
  const std::string axis(to_string(cut_axis(op)));
  return "blocks of at least " + std::to_string(options.min_block_rows) + " " + axis + ", in steps of " +
         std::to_string(options.alignment) + " and at most " + std::to_string(options.max_block_count) +
         " of them, leave no cut of " + std::to_string(cut_axis_length(op)) + " " + axis;
}

bool takes_counts(const Fingerprint& machine, const OpSpec& op, const Variant& variant) {
  const std::string_view backend = machine.field("backend");
  if (backend == "host") return variant.name == "direct";
  return backend != "cuda" || (variant.name != "nccl_copy_engine" && op.dtype != DType::F8E4m3);
}

PlanOptions likely_limits(const Plan& plan, const CutLimits& said) {
  PlanOptions options = default_options_on(plan.fingerprint);
  options.alignment = said.alignment.value_or(likely_alignment(plan));
  const auto shortest = *std::ranges::min_element(plan.cut.block_rows);
  options.min_block_rows = said.min_block_rows.value_or(std::min(options.alignment, shortest));
  const auto count = std::min<std::int64_t>(std::ssize(plan.cut.block_rows), kMaxBlockCount);
  options.max_block_count = said.max_block_count.value_or(std::max(options.max_block_count, count));
  options.contention = said.contention;
  options.counts = plan.counts;
  options.block_overhead_us = said.block_overhead_us ? said.block_overhead_us : plan.block_overhead_us;
  return options;
}

} // namespace mc2::planner
