#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "document_file.hpp"
#include "imported.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/store/codec.hpp"
#include "render.hpp"

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
  const auto layers = store.open(StoreUse::Read);
  if (!layers) return layers.error();
  const auto imported = find_imported(layers.value(), device);
  if (!imported) return imported.error();
  auto profile = imported.value().profile_for(spec);
  if (!profile.samples.empty()) return profile;
  return nothing_imported(spec, device);
}

Result<planner::Profile> FitCommand::load() const {
  if (!profile_file.empty()) {
    if (auto legal = op.given.none_beside("--profile", "operator"); !legal) return legal.error();
    return read_document(profile_file, store::decode_profile);
  }
  if (!op.is_given())
    return Error{ErrorCode::InvalidSpec, "--m, --n, --k",
                 "name the operator whose kept samples to fit, or give --profile FILE"};
  const auto spec = op.spec();
  if (!spec) return spec.error();
  if (!device.empty()) return load_imported(spec.value());
  const auto fingerprint = machine.fingerprint(spec.value().world_size);
  if (!fingerprint) return fingerprint.error();
  auto layers = store.open(StoreUse::Read);
  if (!layers) return layers.error();
  return layers.value().writable().find_profile(spec.value(), fingerprint.value());
}

Result<ExitCode> FitCommand::run() const {
  if (auto kept = check_output("--out", out, {profile_file}); !kept) return kept.error();
  const auto profile = load();
  if (!profile) return profile.error();
  const auto fitted = profiler::fit_cost_model(profile.value());
  if (!fitted) return fitted.error();
  auto layers = store.open(StoreUse::Write);
  if (!layers) return layers.error();
  const auto kept = layers.value().writable().put_model(fitted.value().model, utc_now());
  if (!kept) return kept.error();
  const std::string document = store::pretty(store::encode(fitted.value().model));
  if (!out.empty()) write_file(out, document);
  if (is_json) {
    std::cout << document;
    return ExitCode::Success;
  }
  std::cout << model_page(fitted.value().model);
  for (const auto& note : fitted.value().notes) std::cout << "  note: " << note << "\n";
  std::cout << "  kept as model " << kept.value().substr(0, 12) << " in " << layers.value().writable().path().string()
            << "\n";
  return ExitCode::Success;
}

} // namespace

Command add_fit(CLI::App& app) {
  auto command = std::make_shared<FitCommand>();
  auto* sub = app.add_subcommand("fit", "fit CostMM, CostComm and the slow-down factors to kept samples");
  command->op.add_to(*sub, false);
  command->machine.add_to(*sub);
  command->store.add_to(*sub);
  sub->add_option("--profile", command->profile_file, "fit this profile document instead of kept samples");
  sub->add_option("--device", command->device, "fit what was imported for this machine (mc2 import --device)");
  sub->add_option("--out", command->out, "also write the model to this JSON file");
  sub->add_flag("--json", command->is_json, "print the model as JSON");
  sub->footer("Example:\n  mc2 fit --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us");
  return {sub, [command] { return command->run(); }};
}

} // namespace mc2::cli
