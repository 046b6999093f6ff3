#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace mc2::cli {

/// What an installation has beside the program, by path: man pages (man1/mc2-tune.1) and what completes commands in
/// shells (completions/mc2.bash, mc2.zsh, mc2.fish), made of the same table as `--help`.
[[nodiscard]] std::map<std::string, std::string> manual_files(const CLI::App& app);

} // namespace mc2::cli
