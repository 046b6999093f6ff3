#pragma once

#include <string>

#include "commands/commands.hpp"
#include "context.hpp"

namespace mc2::cli {

// What `mc2` and `mc2-bench` do around their commands.

/// Prints one line on standard error. @return the exit code as a number
int report(ExitCode code, std::string text);

/// Parses the command line, then does what it asks for. Help, usage errors, errors of `action` and what it throws end
/// as `mc2 --help` says. @return the exit code
[[nodiscard]] int parse_and_run(CLI::App& app, int argc, char** argv, const Action& action);

/// The main() of a program: with the backend "mpi" rank 0 runs it, on behalf of every process of the job.
/// @param name of the program. @param run what parses the command line and returns the exit code
[[nodiscard]] int run_main(const std::string& name, int argc, char** argv, int (*run)(int argc, char** argv));

} // namespace mc2::cli
