#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "commands/commands.hpp"
#include "options/server_options.hpp"

namespace mc2::cli {

/// The command line of `mc2`: names, options and actions of its commands. Help, man pages and completions are made from
/// it.
struct Application {
  Application();

  CLI::App app;
  ServerOptions server;
  std::vector<Command> commands;
};

} // namespace mc2::cli
