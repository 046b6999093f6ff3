#include "mc2/embed/environment.hpp"

#include <cstdio>
#include <cstdlib>

#include "mc2/planner/text.hpp"

namespace mc2::embed {
namespace {

constexpr Name<LogLevel> kLevelNames[]{{LogLevel::Off, "off"},
                                       {LogLevel::Error, "error"},
                                       {LogLevel::Warning, "warning"},
                                       {LogLevel::Info, "info"},
                                       {LogLevel::Debug, "debug"}};

std::string value_of(const Variables& variables, const char* name) { return variables(name).value_or(std::string()); }

/// Reads a variable that is "0" or "1"; `otherwise` if it is unset.
/// @param meaning  the legal values for an error, with what they do
Result<bool> read_switch(const Variables& variables, const char* name, bool otherwise, const std::string& meaning) {
  const std::string value = value_of(variables, name);
  if (value.empty()) return otherwise;
  if (value == "0" || value == "1") return value == "1";
  return Error{ErrorCode::InvalidSpec, name, "is '" + value + "'; legal: " + meaning};
}

} // namespace

std::string_view to_string(LogLevel level) noexcept { return name_of<LogLevel>(kLevelNames, level); }
Result<LogLevel> parse_log_level(std::string_view text) { return parse_name<LogLevel>(kLevelNames, text, "log level"); }

LogSink stderr_log(LogLevel level) {
  return [level](LogLevel of_line, const std::string& line) {
    if (of_line > level || of_line == LogLevel::Off) return;
    const std::string whole = "mc2: " + std::string(to_string(of_line)) + ": " + line + "\n";
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  };
}

Variables process_variables() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::filesystem::path store_path(const Variables& variables) {
  if (const std::string named = value_of(variables, "MC2_STORE"); !named.empty()) return named;
  // A relative XDG_DATA_HOME counts as unset (XDG Base Directory Specification).
  if (const std::string data_home = value_of(variables, "XDG_DATA_HOME"); data_home.starts_with('/'))
    return std::filesystem::path(data_home) / "mc2" / "store.db";
  if (const std::string home = value_of(variables, "HOME"); !home.empty())
    return std::filesystem::path(home) / ".local" / "share" / "mc2" / "store.db";
  return {};
}

std::vector<std::filesystem::path> system_stores() { return {"/usr/share/mc2/store.db", "/etc/mc2/store.db"}; }

Result<Environment> read_environment(const Variables& variables) {
  Environment environment;
  environment.store = store_path(variables);
  environment.server_url = value_of(variables, "MC2_SERVER");
  environment.server_token = value_of(variables, "MC2_SERVER_TOKEN");
  environment.server_ca = value_of(variables, "MC2_SERVER_CA");
  if (const std::string level = value_of(variables, "MC2_LOG"); !level.empty()) {
    const auto parsed = parse_log_level(level);
    if (!parsed) return Error{parsed.error().code, "MC2_LOG", parsed.error().message};
    environment.log = parsed.value();
  }
  MC2_ASSIGN(environment.is_disabled,
             read_switch(variables, "MC2_DISABLE", false, "1 (everything runs unfused) and 0"));
  MC2_ASSIGN(environment.may_transfer,
             read_switch(variables, "MC2_TRANSFER", true, "0 (no plan from a model of another n and k) and 1"));
  return environment;
}

Result<Environment> read_environment() { return read_environment(process_variables()); }

} // namespace mc2::embed
