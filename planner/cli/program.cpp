#include "program.hpp"

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
#include <string_view>
#include <utility>

#include "mc2/executor/processes.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

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

/// Without this a file could be opened as the standard output that the caller closed, and receive what is printed.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != stream)
      _exit(static_cast<int>(ExitCode::System));
}

bool uses_processes(std::span<char* const> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument(arguments[i]);
    if (argument == "--backend=mpi" || (argument == "mpi" && std::string_view(arguments[i - 1]) == "--backend"))
      return true;
  }
  return false;
}

int run_action(const Action& action) {
  const auto result = action();
  if (result) return static_cast<int>(result.value());
  Error error = result.error();
  error.field = option_of(error.field);
  return report(to_exit_code(error.code), error.text());
}

/// With the backend "mpi" every process of the job is started with the same request.
int run_as_one(const std::string& name, int argc, char** argv, int (*run)(int, char**)) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  if (!uses_processes(arguments)) return run(argc, argv);
  setenv("NO_COLOR", "1", 0); // mpirun gives its processes a terminal, whatever its own output goes to
  std::string request = name + " " MC2_VERSION;
  for (const char* argument : arguments.subspan(1)) request += std::string(" ") + argument;
  try {
    const auto answer = executor::lead_processes(request, [&] { return run(argc, argv); });
    return answer ? answer.value() : report(ExitCode::Usage, answer.error().text());
  } catch (const planner::SystemError& error) {
    return report(ExitCode::System, error.what());
  }
}

} // namespace

int report(ExitCode code, std::string text) {
  // A path may hold a line break, and a library's message may too; scripts read one line.
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::cerr << "mc2: " + text + "\n"; // in one write: other processes of a job share the stream
  return static_cast<int>(code);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const Action& action) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_parse(app, error);
  }
  install_interrupt_handler();
  // A full disk or a closed pipe must end in an error message, not in a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run_action(action);
    std::cout.flush();
    if (!std::cout) return report(ExitCode::System, "standard output: could not be written completely");
    return code;
  } catch (const planner::SystemError& error) {
    return report(ExitCode::System, error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::System, "out of memory; try a smaller m, n or k");
  } catch (const std::exception& error) {
    return report(ExitCode::System, error.what());
  }
}

int run_main(const std::string& name, int argc, char** argv, int (*run)(int argc, char** argv)) {
  open_standard_streams();
  return run_as_one(name, argc, argv, run);
}

} // namespace mc2::cli
