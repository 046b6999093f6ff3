#include "plan_grid.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "mc2/planner/cutting.hpp"
#include "pages/terminal.hpp"
#include "parallel.hpp"

namespace mc2::cli {
namespace {

using finder::FoundPlan;
using planner::Plan;

/// Rows that a thread takes at a time: few enough to divide a small grid between threads, many enough to reuse a model.
constexpr std::size_t kChunkRows = 128;

std::vector<planner::OpKind> wanted_kinds(const LayerShape& layer, const std::vector<planner::OpKind>& wanted) {
  std::vector<planner::OpKind> kinds = layer.kinds();
  std::erase_if(kinds,
                [&](planner::OpKind kind) { return std::find(wanted.begin(), wanted.end(), kind) == wanted.end(); });
  return kinds;
}

/// Rows that a thread has planned at a time.
struct Chunk {
  std::string text;
  std::vector<GridCell> cells;
  std::map<ErrorCode, Refusals> refusals;
  PlanCounts counts;

  void add(const Result<Plan>& plan) {
    if (!plan) {
      Refusals& alike = refusals[plan.error().code];
      if (++alike.count == 1) alike.example = plan.error().text();
      ++counts.refused;
      cells.emplace_back();
      return;
    }
    cells.push_back(cell_of(plan.value()));
    ++(plan.value().is_cut() ? counts.cut : counts.uncut);
  }

  static GridCell cell_of(const Plan& plan) {
    if (!plan.is_cut() && !plan.overlaps()) return {GridCell::Status::Serial, basis_of(plan)};
    return {plan.is_cut() ? GridCell::Status::Cut : GridCell::Status::OneBlock, basis_of(plan),
            static_cast<float>(benefit_of(plan))};
  }
  static GridCell::Basis basis_of(const Plan& plan) {
    if (plan.validation) return GridCell::Basis::Measured;
    return plan.makespan.provenance == planner::Provenance::Extrapolated ? GridCell::Basis::Extrapolated
                                                                         : GridCell::Basis::Predicted;
  }
  /// The benefit: measured if the plan was raced, else predicted.
  static double benefit_of(const Plan& plan) { return plan.validation ? plan.validation->benefit : plan.benefit(); }
};

/// Plans one cell and adds it to the chunk.
void append(const DividedLayer& divided, std::int64_t m, std::span<const finder::PlanSource> places, TableFormat format,
            Chunk& chunk) {
  const auto op = divided.layer->op(divided.kind, m, divided.ranks);
  auto found = op ? finder::find_plan(places, {.op = op.value(), .machine = {}}) : Result<FoundPlan>(op.error());
  const std::string source = found ? found.value().source : "";
  const auto plan = found ? Result<Plan>(std::move(found).value().stored.plan) : Result<Plan>(found.error());
  append_row(format, {*divided.layer, divided.kind, m, divided.ranks, op, plan, source}, chunk.text);
  chunk.add(plan);
}

} // namespace

Result<std::int64_t> PlanGrid::row_count() const {
  std::int64_t layer_kinds = 0;
  for (const LayerShape& layer : layers) layer_kinds += std::ssize(wanted_kinds(layer, kinds));
  const std::int64_t count = layer_kinds * std::ssize(ranks) * std::ssize(all_m);
  if (count == 0)
    return Error{ErrorCode::InvalidSpec, "--kinds", "leaves no row: none of the layers can be any of these kinds"};
  if (count > kMaxGridRows)
    return Error{ErrorCode::InvalidSpec, "--m, --ranks",
                 "make " + std::to_string(count) + " rows with the " + std::to_string(layers.size()) +
                     " layers; at most " + std::to_string(kMaxGridRows) + ", so ask in parts"};
  return count;
}

std::vector<DividedLayer> PlanGrid::divided_layers() const {
  std::vector<DividedLayer> result;
  for (const LayerShape& layer : layers)
    for (const planner::OpKind kind : wanted_kinds(layer, kinds))
      for (const int count : ranks) result.push_back({&layer, kind, count});
  return result;
}

std::vector<OpFamily> PlanGrid::families() const {
  std::vector<OpFamily> result;
  for (const DividedLayer& divided : divided_layers()) {
    OpFamily family;
    for (const std::int64_t m : all_m)
      if (const auto op = divided.layer->op(divided.kind, m, divided.ranks)) {
        family.op = op.value();
        family.all_m.push_back(m);
      }
    result.push_back(std::move(family));
  }
  return result;
}

namespace {

void append(Chunk chunk, PlannedGrid& grid) {
  grid.rows.push_back(std::move(chunk.text));
  grid.cells.insert(grid.cells.end(), chunk.cells.begin(), chunk.cells.end());
  for (auto& [code, alike] : chunk.refusals) {
    Refusals& all = grid.refusals[code];
    if (all.count == 0) all.example = std::move(alike.example);
    all.count += alike.count;
  }
  grid.counts.add(chunk.counts);
}

} // namespace

finder::PlanSource planner_with(std::string name, std::vector<finder::AnswerOverM> models, store::PlanRequest asked,
                                std::function<std::string(const finder::FoundModel&)> origin) {
  const auto find = [models = std::move(models), asked = std::move(asked),
                     origin = std::move(origin)](finder::PlanQuestion question) -> Result<FoundPlan> {
    const auto& [first_m, last_m, found] =
        *std::ranges::lower_bound(models, question.op.m, {}, &finder::AnswerOverM::last_m);
    if (!found) {
      // One of several machines may not have these ranks; others may.
      const ErrorCode code = found.error().code == ErrorCode::InvalidSpec ? ErrorCode::NotFound : found.error().code;
      const std::string which = question.op.m == first_m ? "" : "as for m=" + std::to_string(first_m) + ": ";
      return Error{code, "", which + found.error().text()};
    }
    const finder::FoundModel& model = found.value();
    question.options = asked.options_with(planner::default_options_on(model.model.fingerprint));
    FoundPlan made;
    MC2_ASSIGN(made.stored.plan, finder::plan_with(model, question));
    made.source = origin(model) + " (" + model.model.fingerprint.label() + ")";
    made.origin = finder::Origin::Model;
    made.is_stopgap = finder::is_stopgap(made.stored.plan);
    return made;
  };
  return {std::move(name), find};
}

Result<PlannedGrid> plan_grid(const PlanGrid& grid, const FindPlaces& find_places, const GridRun& run) {
  MC2_TRY(grid.row_count());
  const std::vector<DividedLayer> divided = grid.divided_layers();
  const std::vector<OpFamily> families = grid.families();
  std::vector<std::vector<finder::PlanSource>> places(divided.size());
  const auto find_for = [&](std::size_t i) {
    if (!families[i].all_m.empty()) places[i] = find_places(families[i]);
  };
  for_each_index(divided.size(), run.thread_count, find_for, is_interrupted, [](std::size_t) {});
  const std::size_t chunks_each = (grid.all_m.size() + kChunkRows - 1) / kChunkRows;
  const std::size_t chunk_count = divided.size() * chunks_each;
  std::vector<Chunk> chunks(chunk_count);
  const auto plan_chunk = [&](std::size_t i) {
    const std::span<const std::int64_t> all_m(grid.all_m);
    const std::size_t first = i % chunks_each * kChunkRows;
    const std::size_t layer = i / chunks_each;
    for (const std::int64_t m : all_m.subspan(first, std::min(kChunkRows, all_m.size() - first))) {
      if (is_interrupted()) return;
      append(divided[layer], m, places[layer], run.format, chunks[i]);
    }
    chunks[i].text.shrink_to_fit();
  };
  ProgressLine progress("sweep");
  const auto watch = [&](std::size_t done_count) {
    if (run.has_progress) progress.update(static_cast<double>(done_count) / static_cast<double>(chunk_count), "");
  };
  for_each_index(chunk_count, run.thread_count, plan_chunk, is_interrupted, watch);
  PlannedGrid result;
  for (Chunk& chunk : chunks) append(std::move(chunk), result);
  if (is_interrupted())
    return Error{ErrorCode::Cancelled, "",
                 "interrupted after " + std::to_string(result.counts.total()) + " of " +
                     std::to_string(grid.row_count().value()) + " rows; nothing was written"};
  return result;
}

} // namespace mc2::cli
