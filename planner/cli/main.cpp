#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "mc2/executor/processes.hpp"
#include "mc2/planner/error.hpp"
#include "server_options.hpp"
#include "terminal.hpp"

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

/// The option behind a field that the other rooms name in their own words.
std::string option_of(const std::string& field) {
  constexpr std::array kOptions{std::pair{"world_size", "--ranks"},
                                std::pair{"virtual_compute", "--virtual-compute"},
                                std::pair{"short block rule", "--short-block"},
                                std::pair{"table_rows", "--table-rows"},
                                std::pair{"alignment", "--align"},
                                std::pair{"min_block_rows", "--min-block"},
                                std::pair{"max_block_count", "--max-blocks"},
                                std::pair{"runner_up_count", "--runners-up"},
                                std::pair{"objective_quantile", "--objective"},
                                std::pair{"formula_contention", "--contention"}};
  constexpr std::array kSameNames{"m",       "n",    "k",        "op",     "dtype",  "ranks",
                                  "backend", "link", "strategy", "blocks", "tables", "pooling"};
  for (const auto& [name, option] : kOptions)
    if (field == name) return option;
  return std::find(kSameNames.begin(), kSameNames.end(), field) == kSameNames.end() ? field : "--" + field;
}

int report(ExitCode code, std::string text) {
  // A path may hold a line break, and a library's message may too; scripts read one line.
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cerr << "mc2: " + text + "\n"; // in one write: other processes of a job share the stream
  return static_cast<int>(code);
}

int run(const std::vector<Command>& commands, const mc2::cli::ServerOptions& server) {
  for (const auto& command : commands) {
    if (!command.app->parsed()) continue;
    const auto may_use = mc2::cli::check_server_use(server, command);
    const auto result = may_use ? command.action() : may_use.error();
    if (result) return static_cast<int>(result.value());
    mc2::planner::Error error = result.error();
    error.field = option_of(error.field);
    return report(mc2::cli::to_exit_code(error.code), error.text());
  }
  return static_cast<int>(ExitCode::Usage);
}

/// The innermost command that was named, and its full name, e.g. "mc2 db import".
std::pair<const CLI::App*, std::string> parsed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const auto* command : app.get_subcommands(nullptr)) names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

/// CLI11 prints help itself; its usage errors become one line with the documented exit code.
int exit_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const auto [command, name] = parsed_command(app);
  const std::string hint = "; see " + name + " --help";
  const std::string commands = command_names(*command);
  if (commands.empty()) return report(ExitCode::Usage, error.what() + hint);
  const auto unknown = app.remaining(true);
  const std::string wrong =
      unknown.empty() ? "name a command after '" + name + "'" : "no command '" + unknown.front() + "'";
  return report(ExitCode::Usage, wrong + "; legal: " + commands + hint);
}

/// Lets a command that asks no service say so, wherever the option stands.
void hide_server_option(CLI::App& command, mc2::cli::ServerOptions& server) {
  server.add_hidden_to(command);
  for (auto* nested : command.get_subcommands([](const CLI::App*) { return true; }))
    hide_server_option(*nested, server);
}

/// Without this a file could be opened as the standard output that the caller closed, and receive what is printed.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != stream)
      _exit(static_cast<int>(ExitCode::System));
}

int run_program(int argc, char** argv) {
  CLI::App app{"mc2: cut a fused matmul + collective into blocks so that compute and communication overlap", "mc2"};
  app.set_version_flag("--version", "mc2 " MC2_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  mc2::cli::ServerOptions server;
  server.add_to(app);
  const std::vector<Command> commands{
      mc2::cli::add_tune(app, server), mc2::cli::add_profile(app),     mc2::cli::add_fit(app),
      mc2::cli::add_plan(app, server), mc2::cli::add_run(app, server), mc2::cli::add_explain(app, server),
      mc2::cli::add_sweep(app),        mc2::cli::add_db(app),          mc2::cli::add_bench(app),
      mc2::cli::add_doctor(app),       mc2::cli::add_import(app),      mc2::cli::add_export(app),
      mc2::cli::add_compare(app),      mc2::cli::add_serve(app),       mc2::cli::add_token(app),
      mc2::cli::add_topology(app),     mc2::cli::add_push(app, server)};
  for (const auto& command : commands)
    if (!command.takes_server) hide_server_option(*command.app, server);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_parse(app, error);
  }
  server.take_environment();
  mc2::cli::install_interrupt_handler();
  // A full disk or a closed pipe must end in an error message, not in a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(commands, server);
    std::cout.flush();
    if (!std::cout) return report(ExitCode::System, "standard output: could not be written completely");
    return code;
  } catch (const mc2::planner::SystemError& error) {
    return report(ExitCode::System, error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::System, "out of memory; try a smaller m, n or k");
  } catch (const std::exception& error) {
    return report(ExitCode::System, error.what());
  }
}

bool uses_processes(std::span<char* const> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument(arguments[i]);
    if (argument == "--backend=mpi" || (argument == "mpi" && std::string_view(arguments[i - 1]) == "--backend"))
      return true;
  }
  return false;
}

/// With the backend "mpi" rank 0 runs the program, on behalf of every process of the job.
int run_as_one(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  if (!uses_processes(arguments)) return run_program(argc, argv);
  setenv("NO_COLOR", "1", 0); // mpirun gives its processes a terminal, whatever its own output goes to
  std::string request = "mc2 " MC2_VERSION;
  for (const char* argument : arguments.subspan(1)) request += std::string(" ") + argument;
  try {
    const auto answer = mc2::executor::lead_processes(request, [&] { return run_program(argc, argv); });
    return answer ? answer.value() : report(ExitCode::Usage, answer.error().text());
  } catch (const mc2::planner::SystemError& error) {
    return report(ExitCode::System, error.what());
  }
}

} // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  return run_as_one(argc, argv);
}
