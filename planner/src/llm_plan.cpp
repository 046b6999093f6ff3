#include "mc2/planner/llm_plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu_matmul.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kFormNames{Name<LlmForm>{LlmForm::AllReduce, "all_reduce"},
                                Name<LlmForm>{LlmForm::SequenceParallel, "sequence_parallel"}};

const LlmPoint* point_at(const LlmSite& site, std::int64_t tokens) {
  const auto found = std::ranges::find(site.points, tokens, &LlmPoint::tokens);
  return found == site.points.end() ? nullptr : &*found;
}

/// Adds layers up to a step.
class Sum {
 public:
  Sum(std::int64_t tokens, LlmForm form) {
    step_.tokens = tokens;
    step_.form = form;
    step_.fused.provenance = Provenance::Measured;
  }

  void add(const LlmSite& site) {
    const LlmPoint* point = point_at(site, step_.tokens);
    if (point == nullptr) return miss(site);
    has_any_ = true;
    const auto count = static_cast<double>(site.layer.count);
    step_.serial_us += count * point->serial_us;
    add(count, point->fused);
    const auto& interval = point->benefit_interval;
    has_interval_ = has_interval_ && interval.has_value();
    if (!interval) return;
    saved_low_us_ += count * point->serial_us * interval->low;
    saved_high_us_ += count * point->serial_us * interval->high;
  }
  /// Adds a matmul that has no collective in this form, so that no time is saved. Its relative interval is that of the
  /// whole operator.
  void add_matmul(const LlmSite& site) {
    const LlmPoint* point = point_at(site, step_.tokens);
    if (point == nullptr) return miss(site);
    const auto count = static_cast<double>(site.layer.count);
    const double share = point->fused.us > 0 ? point->compute_us / point->fused.us : 0;
    step_.serial_us += count * point->compute_us;
    Estimate matmul = point->fused;
    matmul.us = point->compute_us;
    matmul.low_us *= share;
    matmul.high_us *= share;
    add(count, matmul);
  }
  void miss(const LlmSite& site) { step_.missing.push_back(site.layer.layer); }
  /// The sum; nothing if no layer of the form was planned.
  std::optional<LlmStep> step() && {
    if (!has_any_) return std::nullopt;
    if (has_interval_)
      step_.benefit_interval = BenefitInterval{saved_low_us_ / step_.serial_us, saved_high_us_ / step_.serial_us};
    return std::move(step_);
  }

 private:
  void add(double count, const Estimate& one) {
    Estimate& all = step_.fused;
    all.us += count * one.us;
    all.low_us += count * one.low_us;
    all.high_us += count * one.high_us;
    all.provenance = std::max(all.provenance, one.provenance);
  }

  LlmStep step_;
  double saved_low_us_ = 0, saved_high_us_ = 0;
  bool has_any_ = false, has_interval_ = true;
};

std::optional<LlmStep> step_of(std::span<const LlmSite> sites, std::int64_t tokens, LlmForm form) {
  Sum sum(tokens, form);
  for (const LlmSite& site : sites) {
    if (has_kind(form, site.kind))
      sum.add(site);
    else if (site.layer.parallelism == Parallelism::Column) // its only kind belongs to the other form
      sum.add_matmul(site);
    else if (!divides_an_axis(site.layer.parallelism))
      sum.miss(site);
  }
  return std::move(sum).step();
}

/// The step if it has all layers, otherwise null.
const LlmStep* whole_step(std::span<const LlmStep> steps, std::int64_t tokens, LlmForm form) {
  const LlmStep* step = find_step(steps, tokens, form);
  return step != nullptr && step->missing.empty() ? step : nullptr;
}

/// Only methods that multiply 8-bit floats have an element type of mc2's. Others, such as awq and gptq, unpack the
/// weights and multiply 16-bit numbers.
std::string why_not_quantized(const LlmConfig& config) {
  const std::string names = "quantization_config names " + config.quantization + ", which is not planned";
  if (config.quantization.find("fp8") != std::string::npos)
    return names + "; with models that were measured of f8e4m3, --dtype f8e4m3 plans its 8-bit floats";
  return names + "; all times are those of whole weights";
}

Result<void> check_whole(std::span<const LlmStep> steps, std::int64_t tokens, LlmForm form) {
  const LlmStep* step = find_step(steps, tokens, form);
  if (step != nullptr && step->missing.empty()) return {};
  const std::string where = " in the form " + std::string(to_string(form)) + " at m=" + std::to_string(tokens) +
                            ", so that the two forms do not compare";
  if (step == nullptr) return Error{ErrorCode::Infeasible, "", "no layer has a plan" + where};
  return Error{ErrorCode::Infeasible, step->missing.front(), "has no plan" + where};
}

} // namespace

std::string_view to_string(LlmForm form) noexcept { return name_of(std::span<const Name<LlmForm>>(kFormNames), form); }

bool has_kind(LlmForm form, OpKind kind) {
  return (traits_of(kind).collective == Collective::AllReduce) == (form == LlmForm::AllReduce);
}

double plain_matmul_us(const OpSpec& op, const CostModel& model, std::int64_t rows, double uncut_us) {
  const auto all_rows = static_cast<double>(rows);
  if (const auto rates = gpu_rates(model.fingerprint, op)) {
    const BlockWaves waves(*rates, op, {});
    return uncut_us * waves.at_once_us(all_rows) / waves.at_once_us(static_cast<double>(op.m));
  }
  double us = uncut_us;
  for (const VariantCost& cost : model.variants) // x rows of the cut axis are those of all other ranks' shards
    us = std::min(us, cost.compute.curve.time_us(all_rows / (op.world_size - 1)));
  return us;
}

LlmRun tokens_of(const LlmSite& site, const PlanRange& range, std::int64_t first_tokens, std::int64_t last_tokens) {
  const std::int64_t ranks = site.op->world_size, step = m_step(*site.op);
  // A token gives a rank per_token / ranks rows.
  const std::int64_t per_token = site.layer.experts ? site.layer.experts->per_token : ranks;
  const std::int64_t first = (range.first_m - step) * ranks / per_token + 1, last = range.last_m * ranks / per_token;
  return {std::clamp(first, first_tokens, last_tokens), std::clamp(last, first_tokens, last_tokens),
          range.least_benefit, range.most_benefit};
}

std::vector<LlmRun> fused_runs(const LlmSite& site, std::int64_t first_tokens, std::int64_t last_tokens) {
  std::vector<LlmRun> runs;
  for (const PlanRange& range : site.ranges->ranges) {
    if (!range.rule.is_cut() && range.rule.schedule == Schedule::Serial) continue;
    const LlmRun run = tokens_of(site, range, first_tokens, last_tokens);
    if (runs.empty() || run.first_tokens > runs.back().last_tokens + 1) {
      runs.push_back(run);
      continue;
    }
    LlmRun& last = runs.back();
    last.last_tokens = run.last_tokens;
    last.least_benefit = std::min(last.least_benefit, run.least_benefit);
    last.most_benefit = std::max(last.most_benefit, run.most_benefit);
  }
  return runs;
}

std::vector<std::int64_t> steps_between(std::int64_t first_tokens, std::int64_t last_tokens, int per_doubling) {
  std::vector<std::int64_t> result{first_tokens};
  for (int i = 0;; ++i) {
    const std::int64_t tokens = std::llround(std::exp2(i / static_cast<double>(per_doubling)));
    if (tokens >= last_tokens) break;
    if (tokens > result.back()) result.push_back(tokens);
  }
  if (last_tokens > first_tokens) result.push_back(last_tokens);
  return result;
}

std::vector<LlmStep> steps_of(std::span<const LlmSite> sites, std::span<const std::int64_t> all_tokens) {
  std::vector<LlmStep> result;
  for (const std::int64_t tokens : all_tokens)
    for (const LlmForm form : kLlmForms)
      if (auto step = step_of(sites, tokens, form)) result.push_back(std::move(*step));
  return result;
}

const LlmStep* find_step(std::span<const LlmStep> steps, std::int64_t tokens, LlmForm form) {
  const auto found =
      std::ranges::find_if(steps, [&](const LlmStep& step) { return step.tokens == tokens && step.form == form; });
  return found == steps.end() ? nullptr : &*found;
}

std::optional<LlmForm> faster_form(std::span<const LlmStep> steps, std::int64_t tokens) {
  const LlmStep* one = whole_step(steps, tokens, LlmForm::AllReduce);
  const LlmStep* other = whole_step(steps, tokens, LlmForm::SequenceParallel);
  if (one == nullptr || other == nullptr) return std::nullopt;
  const LlmStep& faster = one->fused.us < other->fused.us ? *one : *other;
  const LlmStep& slower = &faster == one ? *other : *one;
  if (slower.fused.us <= faster.fused.us * (1 + kFormTolerance)) return std::nullopt;
  return faster.form;
}

Result<std::optional<std::int64_t>> sequence_parallel_from(std::span<const LlmStep> steps) {
  if (steps.empty()) return Error{ErrorCode::Infeasible, "", "no step of the model has a plan"};
  const std::int64_t last = steps.back().tokens;
  for (const LlmForm form : kLlmForms) MC2_TRY(check_whole(steps, last, form));
  std::optional<std::int64_t> result;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const LlmStep* one = whole_step(steps, step->tokens, LlmForm::AllReduce);
    const LlmStep* other = whole_step(steps, step->tokens, LlmForm::SequenceParallel);
    if (one == nullptr || other == nullptr || other->fused.us * (1 + kFormTolerance) >= one->serial_us) break;
    result = step->tokens;
  }
  return result;
}

std::vector<LlmRest> rest_of(const LlmConfig& config) {
  std::vector<LlmRest> result{{"embedding", "rows of a table, then an all-reduce: no matmul to hide it behind"},
                              {"logits", "a matmul, then an all-gather: none of mc2's operators, and once in a step"}};
  if (!config.quantization.empty()) result.push_back({"quantized weights", why_not_quantized(config)});
  if (config.latent) result.push_back({"projections to latent vectors", "every rank holds them whole: no collective"});
  if (config.latent) result.push_back({"rotated columns of keys", "gathered beside the latent vectors: no matmul"});
  if (!config.experts) return result;
  result.push_back({"router of experts", "every rank holds it whole: no collective"});
  result.push_back({"experts with all-reduces",
                    "a part of each expert on every rank, not planned here; mc2 tune --op grouped_matmul_all_reduce "
                    "measures it"});
  return result;
}

} // namespace mc2::planner
