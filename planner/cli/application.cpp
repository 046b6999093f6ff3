#include "application.hpp"

#include "help.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kStartAndExitCodes = R"(
Start with:
  mc2 tune --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us
  mc2 plan --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us

Exit codes:
  0  success                           4  this build or machine cannot do it
  1  a check failed (wrong result,     5  the store cannot be read or written
     damaged store)                    6  a library, device or file failed
  2  an argument or input is wrong     130  interrupted; nothing kept is lost
  3  no plan, model or sample answers)";

/// Adds the hidden --server to a command and its subcommands, so that a command that asks no service can say so
/// wherever the option is given.
void hide_server_option(CLI::App& command, ServerOptions& server) {
  server.add_hidden_to(command);
  for (CLI::App* below : command.get_subcommands(nullptr)) hide_server_option(*below, server);
}

} // namespace

Application::Application()
    : app("mc2: cut a fused matmul + collective into blocks so that compute and communication overlap", "mc2") {
  app.set_version_flag("--version", "mc2 " MC2_VERSION);
  app.set_help_flag("-h,--help", "show the most used options and exit");
  app.set_help_all_flag("--help-all", "show every option and exit");
  app.require_subcommand(1);
  app.footer(kStartAndExitCodes);
  server.add_to(app);
  commands = {add_tune(app, server), add_profile(app),         add_fit(app),    add_plan(app, server),
              add_run(app, server),  add_explain(app, server), add_sweep(app),  add_model(app),
              add_db(app),           add_doctor(app),          add_import(app), add_refine(app),
              add_export(app),       add_compare(app),         add_serve(app),  add_token(app),
              add_topology(app),     add_push(app, server)};
  for (const auto& command : commands)
    if (!command.takes_server) hide_server_option(*command.app, server);
  set_help_format(app);
}

} // namespace mc2::cli
