#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "context.hpp"

namespace mc2::cli {

/// Runs a subcommand once its options are parsed.
using Action = std::function<Result<ExitCode>()>;

/// A subcommand. Each function below adds one to `app`.
struct Command {
  CLI::App* app;
  Action action;
  bool takes_server = false; ///< the command uses --server
};

/// Adds groups of options to a command, in this order.
template <typename... Options>
void add_all(CLI::App& command, Options&... options) {
  (options.add_to(command), ...);
}

/// Adds a subcommand of a command that works on the store, such as `mc2 db check`.
/// @param example  what follows `mc2 db ` in an example
template <typename T>
CLI::App* add_part(CLI::App& whole, const std::shared_ptr<T>& command, const char* name, const char* help,
                   const std::string& example, Result<ExitCode> (T::*member)() const) {
  auto* part = whole.add_subcommand(name, help);
  part->footer("Example:\n  mc2 " + whole.get_name() + " " + example);
  part->callback([raw = command.get(), member] { raw->action = [raw, member] { return (raw->*member)(); }; });
  command->store.add_to(*part);
  return part;
}

inline constexpr const char* kNoTransferHelp = "refuse rather than answer from a model of another n and k";

/// The formats that mc2 export writes.
[[nodiscard]] std::vector<std::string> export_formats();

struct ServerOptions;

[[nodiscard]] Command add_compare(CLI::App& app);
[[nodiscard]] Command add_db(CLI::App& app);
[[nodiscard]] Command add_doctor(CLI::App& app);
[[nodiscard]] Command add_explain(CLI::App& app, ServerOptions& server);
[[nodiscard]] Command add_export(CLI::App& app);
[[nodiscard]] Command add_fit(CLI::App& app);
[[nodiscard]] Command add_import(CLI::App& app);
[[nodiscard]] Command add_model(CLI::App& app);
[[nodiscard]] Command add_plan(CLI::App& app, ServerOptions& server);
[[nodiscard]] Command add_profile(CLI::App& app);
[[nodiscard]] Command add_push(CLI::App& app, ServerOptions& server);
[[nodiscard]] Command add_refine(CLI::App& app);
[[nodiscard]] Command add_run(CLI::App& app, ServerOptions& server);
[[nodiscard]] Command add_serve(CLI::App& app);
[[nodiscard]] Command add_sweep(CLI::App& app);
[[nodiscard]] Command add_token(CLI::App& app);
[[nodiscard]] Command add_topology(CLI::App& app);
[[nodiscard]] Command add_tune(CLI::App& app, ServerOptions& server);

} // namespace mc2::cli
