#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::embed {

/// How much is logged: each level includes those before it.
enum class LogLevel : std::uint8_t { Off = 0, Error = 1, Warning = 2, Info = 3, Debug = 4 };

/// "off", "error", "warning", "info" or "debug".
[[nodiscard]] std::string_view to_string(LogLevel level) noexcept;
/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

/// Receives one line of key=value pairs, without a newline. Threads: several may call it at once.
using LogSink = std::function<void(LogLevel level, const std::string& line)>;

/// A sink that writes lines up to `level` to standard error, each as "mc2: LEVEL: LINE" in one write.
[[nodiscard]] LogSink stderr_log(LogLevel level);

/// The values of the environment variables MC2_* for a program that uses mc2. The program reads them once and passes
/// them on; nothing else in mc2::embed reads the environment.
struct Environment {
  std::filesystem::path store;      ///< store_path(); empty: there is none
  std::string server_url;           ///< MC2_SERVER; empty: none
  std::string server_token;         ///< MC2_SERVER_TOKEN
  std::filesystem::path server_ca;  ///< MC2_SERVER_CA
  LogLevel log = LogLevel::Warning; ///< MC2_LOG
  bool is_disabled = false;         ///< MC2_DISABLE=1: everything runs uncut and unfused
  bool may_transfer = true;         ///< MC2_TRANSFER=0: models fitted for another n and k make no plans
};

/// The value of a variable, or nothing where it is unset. An empty value counts as unset.
using Variables = std::function<std::optional<std::string>(const char* name)>;

/// Reads the variables of this process. Threads: not while another thread changes the environment.
[[nodiscard]] Variables process_variables();

/// The path of the store: MC2_STORE, else $XDG_DATA_HOME/mc2/store.db, else ~/.local/share/mc2/store.db; empty if the
/// home directory is unknown, too.
[[nodiscard]] std::filesystem::path store_path(const Variables& variables);
/// The read-only stores of the system, weakest first. Those that are missing count as empty.
[[nodiscard]] std::vector<std::filesystem::path> system_stores();

/// Errors: UnknownName for MC2_LOG; InvalidSpec for an MC2_DISABLE or MC2_TRANSFER that is neither 0 nor 1.
[[nodiscard]] Result<Environment> read_environment(const Variables& variables);

/// As above, with process_variables().
[[nodiscard]] Result<Environment> read_environment();

} // namespace mc2::embed

#pragma GCC visibility pop
