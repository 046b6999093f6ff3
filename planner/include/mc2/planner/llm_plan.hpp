#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/llm.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How the ranks hold the activations between the layers of a model.
enum class LlmForm : std::uint8_t {
  AllReduce = 1,        ///< every rank holds all rows: a layer divided by rows ends with an all-reduce
  SequenceParallel = 2, ///< a rank holds m / ranks rows: an all-gather precedes layers divided by columns, and a
                        ///< reduce-scatter ends layers divided by rows
};
inline constexpr std::array kLlmForms{LlmForm::AllReduce, LlmForm::SequenceParallel};

/// "all_reduce", "sequence_parallel".
[[nodiscard]] std::string_view to_string(LlmForm form) noexcept;
/// Whether a model in this form has operators of this kind. Dispatch and combine of experts belong to the
/// sequence-parallel form, in which a rank holds m / ranks rows.
[[nodiscard]] bool has_kind(LlmForm form, OpKind kind);

/// One layer's operator in one step.
struct LlmPoint {
  std::int64_t tokens = 0; ///< tokens of the step
  OpSpec op;               ///< its m is LayerShape::rows_of(tokens, ...)
  Cut cut;
  Variant variant;
  double serial_us = 0;
  double compute_us = 0; ///< the matmul alone; of a layer divided by columns, plain_matmul_us() of the step's tokens
  Estimate fused;
  std::optional<BenefitInterval> benefit_interval = std::nullopt;
  bool operator==(const LlmPoint&) const = default;
};

/// A range of tokens of a step in which a layer's rule overlaps the lanes, and the predicted benefit in it.
struct LlmRun {
  std::int64_t first_tokens = 0, last_tokens = 0;
  double least_benefit = 0, most_benefit = 0;
  bool operator==(const LlmRun&) const = default;
};

/// One layer with one of its operator kinds, planned for all m.
struct LlmSite {
  LayerShape layer;
  OpKind kind = OpKind::MatmulAllReduce;
  std::optional<OpSpec> op = std::nullopt; ///< m belongs to the last number of tokens; absent if not legal
  std::optional<PlanRanges> ranges = std::nullopt;
  std::vector<LlmRun> fused = {};    ///< ascending; fused_runs()
  std::vector<LlmPoint> points = {}; ///< the steps for which a plan was found, ascending
  std::string reason = {};           ///< why there are no ranges
  bool operator==(const LlmSite&) const = default;
};

/// Time of all planned layers of the model in one step. It includes the matmuls with a collective and, in the form
/// AllReduce, those divided by columns, which have no collective there. It leaves out attention itself, norms and
/// everything else.
struct LlmStep {
  std::int64_t tokens = 0; ///< m of a step: sequences of a decode step, or tokens of a prefill
  LlmForm form = LlmForm::AllReduce;
  double serial_us = 0;
  /// Each end of the interval is the sum of the layers' ends, because what slows one layer slows all. The provenance is
  /// the weakest of all layers.
  Estimate fused;
  std::optional<BenefitInterval> benefit_interval = std::nullopt; ///< also from sums; absent if a layer has none
  std::vector<std::string> missing = {}; ///< layers that are left out: they have no plan at this m or in this form

  [[nodiscard]] double saved_us() const noexcept { return serial_us - fused.us; }
  [[nodiscard]] double benefit() const noexcept { return serial_us > 0 ? saved_us() / serial_us : 0; }
  bool operator==(const LlmStep&) const = default;
};

/// A part of a model that is not planned and stays as it is.
struct LlmRest {
  std::string what, why;
  bool operator==(const LlmRest&) const = default;
};

/// Which layers of a model to fuse at which m, and what that saves.
struct LlmPlan {
  std::string name;                               ///< of the model
  std::optional<LlmConfig> config = std::nullopt; ///< absent if its layers were described one by one
  Fingerprint fingerprint;                        ///< of the models that the plans were made from
  int ranks = 0;
  std::int64_t first_tokens = 0, last_tokens = 0;
  std::vector<LlmSite> sites = {};
  std::vector<LlmStep> steps = {}; ///< by ascending tokens, then by form, where any layer was planned
  std::vector<LlmRest> rest = {};  ///< empty without a configuration
};

/// Relative difference up to which two forms count as equally fast: about the accuracy with which the predictions of
/// two operators on one machine compare.
inline constexpr double kFormTolerance = 0.02;

/// Time of one matmul of `rows` rows by the operator's n and k on a rank that has all of these rows: what a layer
/// divided by columns is in the form AllReduce. Without a gather there is no own shard to multiply first, and the rows
/// are not padded to a multiple of the ranks. On a GPU whose rates are known, it is `uncut_us` times the ratio of the
/// two matmuls' waves. Elsewhere it is the compute curve's time of as many rows, by the variant that multiplies
/// fastest, since others keep a part of the device back for communication; but at most uncut_us.
/// @param op        of a kind with a local part
/// @param model     answers for `op`, and has the speed that the machine has now
/// @param uncut_us  Plan::compute_us of op, which has at least `rows` rows
[[nodiscard]] double plain_matmul_us(const OpSpec& op, const CostModel& model, std::int64_t rows, double uncut_us);

/// The tokens of a step for which the rows of a planned site lie in `range`, clamped to first_tokens..last_tokens.
[[nodiscard]] LlmRun tokens_of(const LlmSite& site, const PlanRange& range, std::int64_t first_tokens,
                               std::int64_t last_tokens);

/// The runs of a site that has ranges. Runs that touch are merged.
[[nodiscard]] std::vector<LlmRun> fused_runs(const LlmSite& site, std::int64_t first_tokens, std::int64_t last_tokens);

/// Numbers of tokens at which to show steps: the first, the powers of two between, and the last.
/// @param per_doubling  1 to 64; above 1, numbers at as many equal ratios in each doubling, rounded
[[nodiscard]] std::vector<std::int64_t> steps_between(std::int64_t first_tokens, std::int64_t last_tokens,
                                                      int per_doubling = 1);

/// Adds up the layers for each number of tokens and each form in which any layer was planned.
/// @param all_tokens ascending
[[nodiscard]] std::vector<LlmStep> steps_of(std::span<const LlmSite> sites, std::span<const std::int64_t> all_tokens);

/// The step of that many tokens in that form; null if no layer was planned there.
[[nodiscard]] const LlmStep* find_step(std::span<const LlmStep> steps, std::int64_t tokens, LlmForm form);

/// The form in which all layers together take less time in a step of that many tokens. Nothing if either form lacks a
/// layer, or if the two times are within kFormTolerance of each other.
[[nodiscard]] std::optional<LlmForm> faster_form(std::span<const LlmStep> steps, std::int64_t tokens);

/// Compares the fused time of all layers in the sequence-parallel form with their serial time in the form AllReduce. It
/// returns the fewest tokens among `steps` such that the former is shorter by more than kFormTolerance at these and at
/// all larger numbers of tokens. Nothing if it is not at the largest. Errors: Infeasible if there are no steps, or if
/// the largest step lacks a form or a layer of a form, naming the layer.
[[nodiscard]] Result<std::optional<std::int64_t>> sequence_parallel_from(std::span<const LlmStep> steps);

/// Collectives and weights of a model that are not planned as layers, and why.
[[nodiscard]] std::vector<LlmRest> rest_of(const LlmConfig& config);

} // namespace mc2::planner

#pragma GCC visibility pop
