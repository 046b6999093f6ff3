#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mc2::cli {

/// The words that an option or positional argument of the command takes. Empty where the program has no list of them.
/// For one that takes a file or a built-in name, the built-in names.
[[nodiscard]] std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option);

} // namespace mc2::cli
