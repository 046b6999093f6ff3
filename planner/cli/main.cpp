#include <CLI/CLI.hpp>
#include <iostream>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "program.hpp"
#include "server_options.hpp"

namespace {

using mc2::cli::Command;
using mc2::cli::ExitCode;

constexpr const char* kFooter = R"(
Start with:
  mc2 tune --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us
  mc2 plan --m 1024 --n 1024 --k 1024 --ranks 2 --link 2.5Gbit,20us

Exit codes:
  0  success                           4    this build or machine cannot do it
  1  a check failed (wrong result,     5    the store cannot be read or written
     damaged store)                    6    a library, device or file failed
  2  an argument or input is wrong     130  interrupted; what was kept stays kept
  3  no plan, model or sample answers)";

/// What a bare `mc2` says.
constexpr const char* kStart =
    R"(mc2 cuts a matmul and the collective after (or before) it into blocks, so that the two overlap.

  mc2 tune --m 1024 --n 1024 --k 1024    measure here, race the best cuts, keep the fastest
  mc2 plan --m 2048 --n 1024 --k 1024    another m, from the same measurements, at once
  mc2 run  --m 1024 --n 1024 --k 1024    check a kept plan's result, and time it

mc2 --help lists every command; mc2 help COMMAND explains one.
)";

/// `mc2 help plan` is `mc2 plan --help`.
std::vector<char*> without_help(int argc, char** argv) {
  static char option[] = "--help";
  std::vector<char*> arguments{argv[0]};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  arguments.push_back(option);
  return arguments;
}

/// Lets a command that asks no service say so, wherever the option stands.
void hide_server_option(CLI::App& command, mc2::cli::ServerOptions& server) {
  server.add_hidden_to(command);
  for (auto* nested : command.get_subcommands([](const CLI::App*) { return true; }))
    hide_server_option(*nested, server);
}

mc2::Result<ExitCode> run_command(const std::vector<Command>& commands, const mc2::cli::ServerOptions& server) {
  for (const auto& command : commands) {
    if (!command.app->parsed()) continue;
    MC2_TRY(mc2::cli::check_server_use(server, command));
    return command.action();
  }
  return ExitCode::Usage;
}

int run(int argc, char** argv) {
  if (argc == 1) {
    std::cout << kStart;
    return static_cast<int>(ExitCode::Usage);
  }
  if (std::string_view(argv[1]) == "help") {
    auto arguments = without_help(argc, argv);
    return run(static_cast<int>(arguments.size()), arguments.data());
  }
  if (argc > 1 && std::string_view(argv[1]) == "bench")
    return mc2::cli::report(ExitCode::Usage,
                            "bench: is a program of its own, mc2-bench; build it with "
                            "`cmake --build --preset release --target mc2-bench`");
  CLI::App app{"mc2: cut a fused matmul + collective into blocks so that compute and communication overlap", "mc2"};
  app.set_version_flag("--version", "mc2 " MC2_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  mc2::cli::ServerOptions server;
  server.add_to(app);
  const std::vector<Command> commands{
      mc2::cli::add_tune(app, server), mc2::cli::add_profile(app),     mc2::cli::add_fit(app),
      mc2::cli::add_plan(app, server), mc2::cli::add_run(app, server), mc2::cli::add_explain(app, server),
      mc2::cli::add_sweep(app),        mc2::cli::add_db(app),          mc2::cli::add_doctor(app),
      mc2::cli::add_import(app),       mc2::cli::add_export(app),      mc2::cli::add_compare(app),
      mc2::cli::add_serve(app),        mc2::cli::add_token(app),       mc2::cli::add_topology(app),
      mc2::cli::add_push(app, server)};
  for (const auto& command : commands)
    if (!command.takes_server) hide_server_option(*command.app, server);
  return mc2::cli::parse_and_run(app, argc, argv, [&] {
    server.take_environment();
    return run_command(commands, server);
  });
}

} // namespace

int main(int argc, char** argv) { return mc2::cli::run_main("mc2", argc, argv, run); }
