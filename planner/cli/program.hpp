#pragma once

#include <string>

#include "commands/commands.hpp"
#include "context.hpp"

namespace mc2::cli {

// What `mc2` and `mc2-bench` have in common outside of their commands.

/// Prints a message on standard error.
/// @return the exit code as a number
int report(ExitCode code, std::string text);

/// Parses the command line and runs `action`. Prints help, usage errors, and the errors and exceptions of `action`.
/// @return the exit code, as `mc2 --help` says
[[nodiscard]] int parse_and_run(CLI::App& app, int argc, char** argv, const Action& action);

/// The main() of a program. With the backend "mpi", rank 0 runs it on behalf of every process of the job.
/// @param name  of the program
/// @param run  parses the command line, runs the command and returns the exit code
[[nodiscard]] int run_main(const std::string& name, int argc, char** argv, int (*run)(int argc, char** argv));

} // namespace mc2::cli
