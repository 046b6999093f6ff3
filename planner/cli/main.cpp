#include <iostream>
#include <string_view>
#include <vector>

#include "application.hpp"
#include "program.hpp"

namespace {

using mc2::cli::ExitCode;

/// What `mc2` without arguments prints.
constexpr const char* kStart =
    R"(mc2 cuts a matmul and the collective after (or before) it into blocks, so that the two overlap.

  mc2 tune --m 1024 --n 1024 --k 1024    measure here, race the best cuts, keep the fastest
  mc2 plan --m 2048 --n 1024 --k 1024    another m, from the same measurements, at once
  mc2 run  --m 1024 --n 1024 --k 1024    check a kept plan's result, and time it

mc2 --help lists every command; mc2 help COMMAND explains one.
)";

/// Turns `mc2 help plan` into `mc2 plan --help`.
std::vector<char*> without_help(int argc, char** argv) {
  static char option[] = "--help";
  std::vector<char*> arguments{argv[0]};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  arguments.push_back(option);
  return arguments;
}

mc2::Result<ExitCode> run_command(const mc2::cli::Application& program) {
  for (const auto& command : program.commands) {
    if (!command.app->parsed()) continue;
    MC2_TRY(mc2::cli::check_server_use(program.server, command));
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
  mc2::cli::Application program;
  return mc2::cli::parse_and_run(program.app, argc, argv, [&] {
    program.server.take_environment();
    return run_command(program);
  });
}

} // namespace

int main(int argc, char** argv) { return mc2::cli::run_main("mc2", argc, argv, run); }
