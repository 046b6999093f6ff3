#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mc2::cli {

/// Makes a command and its subcommands print their help in groups of options, at most 80 columns wide, with names for
/// values (ROWS, SECONDS, FILE). The table in help.cpp says the group and value of every option; man pages and
/// completions use the same groups and values.
void set_help_format(CLI::App& app);

/// The immediate subcommands that are shown, and their names.
[[nodiscard]] std::vector<const CLI::App*> commands_below(const CLI::App& command);
[[nodiscard]] std::vector<std::string> command_names(const CLI::App& command);
/// Long names of a command's options that are shown: "--m".
[[nodiscard]] std::vector<std::string> long_names(const CLI::App& command);

/// Names of the groups of options, in the order in which they are shown.
[[nodiscard]] std::span<const std::string_view> option_groups() noexcept;

/// The shown options of a group, without positional arguments, in the command's order; then the positional arguments.
[[nodiscard]] std::vector<const CLI::Option*> options_of(const CLI::App& command, std::string_view group);
[[nodiscard]] std::vector<const CLI::Option*> arguments_of(const CLI::App& command);

/// "-h, --help" or "--m ROWS"; "FILE..." for positional arguments.
[[nodiscard]] std::string option_syntax(const CLI::Option& option);
/// What an option does, then in brackets its default, the options it needs and its environment variable.
[[nodiscard]] std::string option_description(const CLI::Option& option);
/// What follows the command's name in its usage, e.g. "[OPTIONS] FILE".
[[nodiscard]] std::string usage_of(const CLI::App& command);

} // namespace mc2::cli
