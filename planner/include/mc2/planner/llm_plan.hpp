#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/llm.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How the ranks hold what lies between the layers of a model.
enum class LlmForm : std::uint8_t {
  AllReduce = 1,        ///< every rank holds all rows: a layer divided by rows ends with an all-reduce
  SequenceParallel = 2, ///< a rank holds m / ranks rows: gathered before layers divided by columns, scattered after
};
inline constexpr std::array kLlmForms{LlmForm::AllReduce, LlmForm::SequenceParallel};

/// "all_reduce", "sequence_parallel".
[[nodiscard]] std::string_view to_string(LlmForm form) noexcept;
/// Whether a model in that form has such operators. Experts get their rows from all ranks, and send them back, where
/// a rank holds m / ranks rows: in the sequence-parallel form.
[[nodiscard]] bool has_kind(LlmForm form, OpKind kind);

/// One layer's operator in one step.
struct LlmPoint {
  std::int64_t tokens = 0; ///< of the step
  OpSpec op;               ///< m is a step's, or more where the operator can have no such m
  Cut cut;
  Variant variant;
  double serial_us = 0;
  double compute_us = 0; ///< the matmul alone
  Estimate fused;
  std::optional<BenefitInterval> benefit_interval = std::nullopt;
  bool operator==(const LlmPoint&) const = default;
};

/// Tokens of steps in which a layer's rule overlaps anything, and what that is predicted to save.
struct LlmRun {
  std::int64_t first_tokens = 0, last_tokens = 0;
  double least_benefit = 0, most_benefit = 0;
  bool operator==(const LlmRun&) const = default;
};

/// One layer as one operator, planned for all m.
struct LlmSite {
  LayerShape layer;
  OpKind kind = OpKind::MatmulAllReduce;
  std::optional<OpSpec> op = std::nullopt; ///< m is that of the last number of tokens; absent where it is not legal
  std::optional<PlanRanges> ranges = std::nullopt;
  std::vector<LlmRun> fused = {};    ///< ascending; fused_runs()
  std::vector<LlmPoint> points = {}; ///< of the steps that a plan was found for, ascending
  std::string reason = {};           ///< why there are no ranges
  bool operator==(const LlmSite&) const = default;
};

/// Time of all planned layers of the model in one step: of the matmuls with a collective, and in the form AllReduce of
/// those divided by columns, which have none. Attention itself, norms and all else is not in it.
struct LlmStep {
  std::int64_t tokens = 0; ///< m of a step: sequences of a decode step, or tokens of a prefill
  LlmForm form = LlmForm::AllReduce;
  double serial_us = 0;
  /// The layers' intervals added end to end: what makes one slow makes all slow. Provenance: the weakest.
  Estimate fused;
  std::optional<BenefitInterval> benefit_interval = std::nullopt; ///< of serial_us likewise
  std::vector<std::string> missing = {}; ///< layers that have no part in it: without a plan at this m, or in this form

  [[nodiscard]] double saved_us() const noexcept { return serial_us - fused.us; }
  [[nodiscard]] double benefit() const noexcept { return serial_us > 0 ? saved_us() / serial_us : 0; }
  bool operator==(const LlmStep&) const = default;
};

/// What a model has besides, which stays as it is.
struct LlmRest {
  std::string what, why;
  bool operator==(const LlmRest&) const = default;
};

/// Which layers of a model to fuse at which m, and what that saves.
struct LlmPlan {
  std::string name;                               ///< of the model
  std::optional<LlmConfig> config = std::nullopt; ///< absent where its layers were described one by one
  Fingerprint fingerprint;                        ///< of the models that the plans were made from
  int ranks = 0;
  std::int64_t first_tokens = 0, last_tokens = 0;
  std::vector<LlmSite> sites = {};
  std::vector<LlmStep> steps = {}; ///< ascending tokens, each in the forms that any layer was planned in
  std::vector<LlmRest> rest = {};  ///< of a model with a configuration
};

/// Predictions of two operators of one machine are good to about as much.
inline constexpr double kFormTolerance = 0.02;

/// The tokens of steps whose rows are those of a range of a planned site, among those asked for.
[[nodiscard]] LlmRun tokens_of(const LlmSite& site, const PlanRange& range, std::int64_t first_tokens,
                               std::int64_t last_tokens);

/// Of a site with ranges; those that touch are one.
[[nodiscard]] std::vector<LlmRun> fused_runs(const LlmSite& site, std::int64_t first_tokens, std::int64_t last_tokens);

/// Numbers of tokens to show steps of: the first, the powers of two between, and the last; or more of them, in equal
/// ratios, rounded. @param per_doubling  1 to 64
[[nodiscard]] std::vector<std::int64_t> steps_between(std::int64_t first_tokens, std::int64_t last_tokens,
                                                      int per_doubling = 1);

/// Adds up the layers. @param all_tokens ascending
[[nodiscard]] std::vector<LlmStep> steps_of(std::span<const LlmSite> sites, std::span<const std::int64_t> all_tokens);

/// Null where no layer of the form was planned for so many tokens.
[[nodiscard]] const LlmStep* find_step(std::span<const LlmStep> steps, std::int64_t tokens, LlmForm form);

/// The form in which all layers take less time at so many tokens; nothing where a layer of either is missing, or the
/// two are within kFormTolerance of each other.
[[nodiscard]] std::optional<LlmForm> faster_form(std::span<const LlmStep> steps, std::int64_t tokens);

/// The fewest tokens of a step, of those given, from which on all layers fused in the sequence-parallel form take less
/// than those of the other form one after the other, by more than kFormTolerance. Nothing where the largest step does
/// not. Errors: Infeasible where the largest step lacks a form, or a layer of one, which it names.
[[nodiscard]] Result<std::optional<std::int64_t>> sequence_parallel_from(std::span<const LlmStep> steps);

/// Collectives and weights of such a model that are not planned as layers, and why.
[[nodiscard]] std::vector<LlmRest> rest_of(const LlmConfig& config);

} // namespace mc2::planner

#pragma GCC visibility pop
