#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace mc2::cli {

/// The files that are installed with the program, by path: man pages (man1/mc2-tune.1) and shell completions
/// (completions/mc2.bash, mc2.zsh, mc2.fish). They are made from the same table as `--help`.
[[nodiscard]] std::map<std::string, std::string> manual_files(const CLI::App& app);

} // namespace mc2::cli
