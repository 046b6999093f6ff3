#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "machine_load.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/embed/workbench.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/store/codec.hpp"
#include "options/sweep_options.hpp"
#include "options/variant_option.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"
#include "pages/tune_progress.hpp"

namespace mc2::cli {
namespace {

struct ProfileCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  SweepSettings sweep;
  VariantOption variant;
  bool is_fresh = false, is_json = false, is_verbose = false;
  std::string out;

  [[nodiscard]] Result<ExitCode> run() const;
  void print(const planner::Profile& profile, const profiler::SweepSummary& summary, const store::Store& kept) const;
};

void ProfileCommand::print(const planner::Profile& profile, const profiler::SweepSummary& summary,
                           const store::Store& kept) const {
  std::cout << profile.op.text() << "\n"
            << render::hanging("", profile.fingerprint.label(), terminal_width()) << "\n"
            << sweep_page(summary, is_verbose) << "\n";
  // Only a fit gives the fixed cost per block and the slow-down factors. This fit is for the page; `mc2 fit` keeps one.
  const auto fitted = profiler::fit_cost_model(profile);
  if (!fitted) std::cout << notes_text({"no cost model fits these samples yet: " + fitted.error().text()});
  if (fitted && is_verbose) std::cout << model_page(fitted.value().model, terminal_width()) << "\n";
  std::cout << "  kept in " << kept.path().string() << "; next: mc2 fit with the same options\n";
}

Result<ExitCode> ProfileCommand::run() const {
  MC2_TRY(check_output("--out", out, {}));
  MC2_ASSIGN(const auto spec, op.spec());
  MC2_ASSIGN(const auto backend, machine.find());
  MC2_ASSIGN(const auto options, machine.communicator_options(spec.world_size));
  MC2_ASSIGN(auto variants, variant.choose(*backend, options, spec));
  tell_load(backend->name());
  MC2_ASSIGN(auto bench, embed::Workbench::open(*backend, options, spec, sweep.seed, std::move(variants)));
  // opened here, so that a refusal above leaves no empty store behind
  MC2_ASSIGN(auto layers, store.open(StoreUse::Write));
  store::Store& writable = layers.writable();

  embed::StoreKeeper keeper(embed::access_to(writable), *bench, {});
  if (is_fresh) keeper.start_afresh(variant.text.value_or(""));
  TuneProgressLine progress;
  auto settings = sweep.settings();
  if (sweep.alignment) {
    settings.plan = planner::default_options_on(bench->fingerprint());
    settings.plan->alignment = settings.plan->min_block_rows = *sweep.alignment;
  }
  auto summary = profiler::profile(*bench, settings, keeper, progress.hooks());
  progress.clear();
  if (!summary) return summary.error();
  const planner::Profile profile{spec, bench->fingerprint(), summary.value().samples};
  const std::string document = store::pretty(store::encode(profile));
  if (is_json)
    std::cout << document;
  else
    print(profile, summary.value(), writable);
  if (!out.empty()) write_file(out, document);
  return ExitCode::Success;
}

} // namespace

Command add_profile(CLI::App& app) {
  auto command = std::make_shared<ProfileCommand>();
  auto* sub = app.add_subcommand("profile", "measure a matmul and a collective, alone and together");
  command->op.add_to(*sub, true);
  add_all(*sub, command->machine, command->store, command->sweep, command->variant);
  sub->add_flag("--fresh", command->is_fresh,
                "measure this operator again; the samples that are kept for this machine stay until then");
  sub->add_flag("--verbose", command->is_verbose,
                "also print every size, why its measurements ended, and the fitted curves");
  add_json(*sub, command->is_json, "every sample");
  sub->add_option("--out", command->out, "also write the profile to this JSON file");
  sub->footer(
      "Examples:\n  mc2 profile --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us\n"
      "  mc2 profile --measurements 20 --m 1024 --n 1024 --k 1024 --link 2.5Gbit,20us\n"
      "Interrupted work resumes: run the same command again.");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
