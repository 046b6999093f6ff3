#pragma once

#include <functional>

#include "context.hpp"

namespace CLI {
class App;
}

namespace mc2::cli {

/// What a subcommand does once its options are parsed.
using Action = std::function<Result<ExitCode>()>;

/// Each adds one subcommand to `app` and returns its action.
struct Command {
  CLI::App* app;
  Action action;
  bool takes_server = false; ///< --server means something to it
};

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
