#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <vector>

#include "commands.hpp"
#include "mc2/planner/error.hpp"
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

int report(ExitCode code, const std::string& text) {
  std::cerr << "mc2: " << text << "\n";
  return static_cast<int>(code);
}

int run(const std::vector<Command>& commands) {
  for (const auto& command : commands) {
    if (!command.app->parsed()) continue;
    const auto result = command.action();
    if (result) return static_cast<int>(result.value());
    return report(mc2::cli::to_exit_code(result.error().code), result.error().text());
  }
  return static_cast<int>(ExitCode::Usage);
}

/// CLI11 prints help and usage errors itself; only its exit codes are replaced by the documented ones.
int exit_parse(const CLI::App& app, const CLI::ParseError& error) {
  return app.exit(error) == 0 ? static_cast<int>(ExitCode::Success) : static_cast<int>(ExitCode::Usage);
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"mc2: cut a fused matmul + collective into blocks so that compute and communication overlap", "mc2"};
  app.set_version_flag("--version", "mc2 " MC2_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  const std::vector<Command> commands{
      mc2::cli::add_tune(app), mc2::cli::add_profile(app), mc2::cli::add_fit(app),   mc2::cli::add_plan(app),
      mc2::cli::add_run(app),  mc2::cli::add_db(app),      mc2::cli::add_bench(app), mc2::cli::add_doctor(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_parse(app, error);
  }
  mc2::cli::install_interrupt_handler();
  // A full disk or a closed pipe must end in an error message, not in a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(commands);
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
