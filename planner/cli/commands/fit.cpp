#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands/commands.hpp"
#include "imported_store.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/store/codec.hpp"
#include "options/document_file.hpp"
#include "pages/render.hpp"
#include "pages/report.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

struct FitCommand {
  OpOptions op;
  MachineOptions machine;
  StoreOptions store;
  std::string profile_file, device;
  std::string out;
  bool is_json = false;

  [[nodiscard]] Result<planner::Profile> load() const;
  [[nodiscard]] Result<planner::Profile> load_imported(const planner::OpSpec& spec) const;
  [[nodiscard]] Result<ExitCode> run() const;
};

Result<planner::Profile> FitCommand::load_imported(const planner::OpSpec& spec) const {
  MC2_ASSIGN(const auto layers, store.open(StoreUse::Read));
  MC2_ASSIGN(const auto imported, find_imported(layers, device));
  auto profile = imported.profile_for(spec);
  if (!profile.samples.empty()) return profile;
  return store::nothing_imported(spec, device);
}

Result<planner::Profile> FitCommand::load() const {
  if (!profile_file.empty()) {
    MC2_TRY(op.given.none_beside("--profile", "operator"));
    return read_document(profile_file, store::decode_profile);
  }
  if (!op.is_given())
    return Error{ErrorCode::InvalidSpec, "--m, --n, --k",
                 "name the operator whose kept samples to fit, or give --profile FILE"};
  MC2_ASSIGN(const auto spec, op.spec());
  if (!device.empty()) return load_imported(spec);
  MC2_ASSIGN(const auto fingerprint, machine.fingerprint(spec.world_size));
  MC2_ASSIGN(auto layers, store.open(StoreUse::Read));
  return layers.writable().find_profile(spec, fingerprint);
}

Result<ExitCode> FitCommand::run() const {
  MC2_TRY(check_output("--out", out, {profile_file}));
  for (const auto& [is_given, option] : {std::pair(!profile_file.empty(), "--profile"), {!device.empty(), "--device"}})
    if (is_given) MC2_TRY(machine.given.none_beside(option, "machine"));
  MC2_ASSIGN(const auto profile, load());
  MC2_ASSIGN(const auto fitted, profiler::fit_cost_model(profile));
  MC2_ASSIGN(auto layers, store.open(StoreUse::Write));
  MC2_ASSIGN(const auto kept, layers.writable().put_model(fitted.model, utc_now()));
  const std::string document = store::pretty(store::encode(fitted.model));
  if (is_json) {
    std::cout << document;
  } else {
    std::cout << model_page(fitted.model, terminal_width());
    std::cout << notes_text(fitted.notes);
    std::cout << "  kept as model " << kept.substr(0, 12) << " in " << layers.writable().path().string() << "\n";
  }
  if (!out.empty()) write_file(out, document);
  return ExitCode::Success;
}

} // namespace

Command add_fit(CLI::App& app) {
  auto command = std::make_shared<FitCommand>();
  auto* sub = app.add_subcommand("fit", "fit a cost model to kept samples");
  command->op.add_to(*sub, false);
  command->machine.add_names_to(*sub);
  command->store.add_to(*sub);
  sub->add_option("--profile", command->profile_file, "fit this profile document instead of kept samples");
  sub->add_option("--device", command->device, "fit what was imported for this machine (mc2 import --device)");
  sub->add_option("--out", command->out, "also write the model to this JSON file");
  add_json(*sub, command->is_json, "the model");
  sub->footer("Example:\n  mc2 fit --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
