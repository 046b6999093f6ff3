#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/profiler/import_report.hpp"
#include "mc2/store/codec.hpp"
#include "options/model_file.hpp"
#include "pages/refine_page.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

struct RefineCommand {
  OpOptions op;
  StoreOptions store;
  PlanningOptions planning;
  std::string device, model_file, cuts_file, out;
  bool is_json = false;

  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] planner::PlanOptions limits(const store::PlanRequest& request) const;
  /// Refines from the model document and the table of cuts. Keeps nothing.
  [[nodiscard]] Result<profiler::Refinement> refine_files(const planner::CostModel& model,
                                                          const store::PlanRequest& request) const;
  /// Refines from the timings that were imported for the device.
  [[nodiscard]] Result<profiler::Refinement> refine_device(const store::PlanRequest& request,
                                                           std::string& machine) const;
  [[nodiscard]] Result<std::vector<planner::MeasuredCut>> read_cuts(const planner::CostModel& model,
                                                                    const planner::OpSpec& spec) const;
  /// What to do with the times of the cuts to run next.
  [[nodiscard]] std::string next_step() const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<void> RefineCommand::check() const {
  MC2_TRY(check_output("--out", out, {model_file, cuts_file}));
  if (device.empty() == model_file.empty())
    return Error{ErrorCode::InvalidSpec, device.empty() ? "--device" : "--model",
                 device.empty() ? "is missing: name the machine that cuts were imported for, or give --model FILE and "
                                  "--cuts FILE"
                                : "cannot be combined with --device; give one of them"};
  if (!device.empty() && !cuts_file.empty())
    return Error{ErrorCode::InvalidSpec, "--cuts",
                 "goes with --model; import it for the device: mc2 import " + cuts_file + " --device " + device};
  if (!planning.values.require_significant_gain)
    return Error{ErrorCode::InvalidSpec, "--allow-small-gain",
                 "has no effect: cuts of small predicted gain are measured anyway; leave it out"};
  if (planning.given.has("--runners-up"))
    return Error{ErrorCode::InvalidSpec, "--runners-up",
                 "has no effect: what was measured and what to run next is all shown; leave it out"};
  return {};
}

planner::PlanOptions RefineCommand::limits(const store::PlanRequest& request) const {
  planner::PlanOptions options = request.options_with({});
  options.require_significant_gain = false; // measurements decide later
  return options;
}

Result<std::vector<planner::MeasuredCut>> RefineCommand::read_cuts(const planner::CostModel& model,
                                                                   const planner::OpSpec& spec) const {
  std::vector<planner::MeasuredCut> measured;
  if (cuts_file.empty()) return measured;
  MC2_ASSIGN(const auto source, profiler::open_log(cuts_file));
  profiler::ImportedLogs logs;
  auto read = profiler::import_log(*source, "cuts", {}, logs.timings,
                                   {.on_line = {}, .on_progress = {}, .is_cancelled = is_interrupted});
  if (!read) return Error{read.error().code, cuts_file, read.error().message};
  MC2_TRY(logs.add(cuts_file, read.value()));
  if (!logs.first_bad.empty()) return Error{ErrorCode::Malformed, "", logs.first_bad};
  const auto assembled = profiler::assemble_profile(
      logs.timings, {}, {spec.kind, spec.dtype, spec.world_size, spec.m, spec.n, spec.k, std::string("cuts")});
  if (!assembled) return Error{assembled.error().code, cuts_file, assembled.error().message};
  if (model.variants.size() > 1)
    return Error{ErrorCode::InvalidSpec, "--model",
                 "has " + std::to_string(model.variants.size()) +
                     " variants, and a table of cuts does not say which ran; leave one in the document"};
  for (const auto& runs : assembled.value().cuts) {
    auto cut = planner::parse_cut(runs.blocks);
    if (!cut)
      return Error{ErrorCode::InvalidSpec, cuts_file,
                   "'" + runs.blocks + "' is the digest of a kept plan; name its blocks, or import the file"};
    measured.push_back({runs, model.variants.front().variant, std::move(cut).value()});
    if (const auto fits = planner::validate_measured_cut(spec, measured.back()); !fits)
      return Error{ErrorCode::InvalidSpec, cuts_file, "'" + runs.blocks + "': " + fits.error().message};
  }
  return measured;
}

Result<profiler::Refinement> RefineCommand::refine_files(const planner::CostModel& model,
                                                         const store::PlanRequest& request) const {
  MC2_ASSIGN(const auto measured, read_cuts(model, request.op));
  return profiler::refine(request.op, model, measured, {limits(request)});
}

Result<profiler::Refinement> RefineCommand::refine_device(const store::PlanRequest& request,
                                                          std::string& machine) const {
  MC2_ASSIGN(const auto imported, ImportedStore::open(store));
  MC2_ASSIGN(auto costs, imported.costs(device, request.op, limits(request)));
  machine = costs.model.fingerprint.label();
  for (const auto& note : costs.notes) std::cerr << "mc2: note: " << note << "\n";
  if (costs.refinement) return *std::move(costs.refinement);
  return profiler::refine(request.op, costs.model, {}, {limits(request)});
}

std::string RefineCommand::next_step() const {
  if (!device.empty()) return "import their times (mc2 import cuts.csv), then run mc2 refine again";
  if (cuts_file.empty()) return "write their times to a CSV file, and run this again with --cuts FILE";
  return "add their times to the file of --cuts, and run this again";
}

Result<ExitCode> RefineCommand::run() const {
  MC2_TRY(check());
  OpOptions asked = op;
  MC2_ASSIGN(const auto model, read_model_if_named(model_file));
  if (model) asked.complete_with(model->op);
  MC2_ASSIGN(auto spec, asked.spec());
  MC2_ASSIGN(const auto request, planning.request(std::move(spec)));
  std::string machine = model ? model->fingerprint.label() : "";
  MC2_ASSIGN(const auto refinement, model ? refine_files(*model, request) : refine_device(request, machine));
  if (is_json)
    print_report("mc2.refinement/1", refine_report(request.op, refinement));
  else
    std::cout << refine_page(request.op, machine, refinement, next_step(), terminal_width());
  if (!out.empty()) write_file(out, store::pretty(store::encode(refinement.plan)));
  return ExitCode::Success;
}

} // namespace

Command add_refine(CLI::App& app) {
  auto command = std::make_shared<RefineCommand>();
  auto* sub = app.add_subcommand("refine", "improve a plan with cuts that another program timed");
  command->op.add_to(*sub, false);
  add_all(*sub, command->store, command->planning);
  sub->add_option("--device", command->device, "machine whose matmul, collective and cuts were imported (mc2 import)");
  sub->add_option("--model", command->model_file,
                  "use this model document and --cuts instead of imported timings; nothing is kept");
  sub->add_option("--cuts", command->cuts_file, "measured cuts: a CSV file with blocks,fused_us[,serial_us,...]");
  sub->add_option("--out", command->out, "also write the plan to use to this JSON file");
  add_json(*sub, command->is_json, "what was learnt");
  sub->footer(
      "Examples:\n"
      "  mc2 import op_summary.csv all_reduce.log cuts.csv --device my-npu \\\n"
      "             --op matmul_all_reduce --m 4096 --n 8192 --k 3072 --ranks 8\n"
      "  mc2 refine --device my-npu --m 4096 --n 8192 --k 3072 --dtype f16 --ranks 8\n"
      "  mc2 refine --model model.json --cuts cuts.csv");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
