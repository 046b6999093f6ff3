#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace mc2::cli {

/// The words that an option of the command takes, or that may stand where its argument does; empty where they are not a
/// few that the program has a list of. Of one that takes a file, too, the names of what is built in.
[[nodiscard]] std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option);

} // namespace mc2::cli
