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

/// Prints the help of a command and of those below it in groups of options, at most 80 columns wide, each value named
/// by what it is (ROWS, SECONDS, FILE). Every option is in the table of help.cpp, which man pages and completions read,
/// too.
void set_help_format(CLI::App& app);

/// Commands right below it that are shown, and their names.
[[nodiscard]] std::vector<const CLI::App*> commands_below(const CLI::App& command);
[[nodiscard]] std::vector<std::string> command_names(const CLI::App& command);
/// Of its options that are shown: "--m".
[[nodiscard]] std::vector<std::string> long_names(const CLI::App& command);

/// Names of the groups of options, in the order in which they are shown.
[[nodiscard]] std::span<const std::string_view> option_groups() noexcept;

/// Options of a group that are shown, in the order of their command; positional arguments are none.
[[nodiscard]] std::vector<const CLI::Option*> options_of(const CLI::App& command, std::string_view group);
[[nodiscard]] std::vector<const CLI::Option*> arguments_of(const CLI::App& command);

/// "-h, --help" or "--m ROWS"; "FILE..." for positional arguments.
[[nodiscard]] std::string option_syntax(const CLI::Option& option);
/// What it does, then its default, what it belongs to and its environment variable, in brackets.
[[nodiscard]] std::string option_description(const CLI::Option& option);
/// "[OPTIONS] FILE" and the like: what follows the command's name.
[[nodiscard]] std::string usage_of(const CLI::App& command);

} // namespace mc2::cli
