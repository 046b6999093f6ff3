#include "help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "mc2/render/text.hpp"
#include "pages/text.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kTextColumn = 24;

constexpr std::string_view kOperator = "Operator", kMachine = "Machine", kPlanning = "Planning",
                           kMeasuring = "Measuring", kInput = "Input", kOutput = "Output", kService = "Service",
                           kNetwork = "Network", kAccess = "Access", kReplica = "Replica", kLimits = "Limits",
                           kAdvanced = "Advanced", kOther = "Options";
constexpr std::array kGroups{kOperator, kMachine, kPlanning, kMeasuring, kInput,    kNetwork, kAccess,
                             kReplica,  kLimits,  kOutput,   kService,   kAdvanced, kOther};

/// The group in which help shows an option, and the name of its value. A flag has no value.
struct OptionPage {
  std::string_view name;
  std::string_view group;
  std::string_view value = {};
  bool is_most_used = false;     ///< shown in the short help
  std::string_view command = {}; ///< for this command only; must come before the entry for all
};
constexpr bool kMostUsed = true;

constexpr auto kOptions = std::to_array<OptionPage>({
    {"--samples", kOther, "AGE", kMostUsed, "prune"},
    {"--models", kOther, "AGE", kMostUsed, "prune"},
    {"--measurements", kOther, "AGE", kMostUsed, "prune"},
    {"--m", kOperator, "LIST", kMostUsed, "sweep"},
    {"--ranks", kOperator, "LIST", kMostUsed, "sweep"},
    {"--ranks", kOther, "N", kMostUsed, "topology"},
    {"--out", kOutput, "FILE", kMostUsed, "export"},
    {"--rows", kInput, "LIST", {}, "export"},
    {"--format", kOutput, "NAME", kMostUsed, "export"},
    {"--format", kInput, "NAME", kMostUsed, "import"},
    {"--model", kInput, "FILE", kMostUsed},

    {"--op", kOperator, "KIND", kMostUsed},
    {"--m", kOperator, "ROWS|RANGE", kMostUsed, "plan"},
    {"--m", kOperator, "ROWS", kMostUsed},
    {"--n", kOperator, "COLUMNS", kMostUsed},
    {"--k", kOperator, "LENGTH", kMostUsed},
    {"--dtype", kOperator, "TYPE", kMostUsed},
    {"--ranks", kOperator, "N", kMostUsed},
    {"--bias", kOperator},
    {"--residual", kOperator},
    {"--norm", kOperator, "HOW"},
    {"--experts-per-rank", kOperator, "N"},
    {"--experts", kOperator, "N"},
    {"--top-k", kOperator, "N"},
    {"--tables", kOperator, "N"},
    {"--table-rows", kOperator, "ROWS"},
    {"--pooling", kOperator, "HOW"},
    {"--counts", kOperator, "FILE"},
    {"--imbalance", kOperator, "FACTOR"},
    {"--shapes", kOperator, "FILE", kMostUsed},
    {"--models", kOperator, "NAMES", kMostUsed},
    {"--kinds", kOperator, "LIST"},

    {"--backend", kMachine, "NAME", kMostUsed},
    {"--link", kMachine, "LINK", kMostUsed},
    {"--virtual-compute", kMachine, "SPEED"},
    {"--no-pin", kMachine},
    {"--deadline", kMachine, "SECONDS"},
    {"--ranks-per-device", kMachine, "N"},
    {"--device", kMachine, "DEVICE", kMostUsed},
    {"--topology", kMachine, "FILE", kMostUsed},
    {"--accept-other-machine", kMachine},
    {"--store", kMachine, "FILE", kMostUsed},

    {"--strategy", kPlanning, "NAME"},
    {"--align", kPlanning, "ROWS"},
    {"--min-block", kPlanning, "ROWS"},
    {"--max-blocks", kPlanning, "N"},
    {"--runners-up", kPlanning, "N"},
    {"--objective", kPlanning, "SHARE"},
    {"--allow-small-gain", kPlanning},
    {"--blocks", kPlanning, "ROWS,...", kMostUsed},
    {"--variant", kPlanning, "VARIANT", kMostUsed},
    {"--transfer", kPlanning},
    {"--no-transfer", kPlanning},
    {"--anchor", kPlanning},
    {"--plan", kPlanning, "FILE", kMostUsed},
    {"--request", kPlanning, "FILE"},
    {"--contention", kPlanning, "FACTORS"},
    {"--block-overhead", kPlanning, "US"},
    {"--short-block", kAdvanced, "WHICH"},

    {"--budget", kMeasuring, "SECONDS", kMostUsed},
    {"--precision", kMeasuring, "SHARE"},
    {"--max-samples", kMeasuring, "N"},
    {"--seed", kMeasuring, "N"},
    {"--measurements", kMeasuring, "N", kMostUsed},
    {"--fresh", kMeasuring, {}, kMostUsed},
    {"--pairs", kMeasuring, "N", kMostUsed},
    {"--measure", kMeasuring, {}, kMostUsed},
    {"--buffers", kMeasuring, "HOW"},
    {"--threads", kLimits, "N"},

    {"--profile", kInput, "FILE"},
    {"--collective", kInput, "NAME", kMostUsed},
    {"--bytes", kInput, "MEANING"},
    {"--algorithm", kInput, "NAME"},
    {"--protocol", kInput, "NAME"},
    {"--channels", kInput, "N"},
    {"--keep-good", kInput},
    {"--read", kInput},
    {"--calibrate", kInput, "FILE"},
    {"--cuts", kInput, "FILE", kMostUsed},
    {"--dry-run", kInput},

    {"--json", kOutput, {}, kMostUsed},
    {"--csv", kOutput, {}, kMostUsed},
    {"--verbose", kOutput, {}, kMostUsed},
    {"--all", kOutput, {}, kMostUsed},
    {"--out", kOutput, "FILE", kMostUsed},
    {"--shapes-out", kOutput, "FILE", kMostUsed, "model"},
    {"--settings", kOutput, "PROGRAM", kMostUsed, "model"},
    {"--format", kOutput, "NAME", kMostUsed},
    {"--html", kOutput, "FILE", kMostUsed},
    {"--trace", kOutput, "FILE", kMostUsed},
    {"--report", kOutput, "FILE"},

    {"--server", kService, "URL", kMostUsed},
    {"--token-file", kService, "FILE"},
    {"--server-ca", kService, "FILE"},
    {"--server-wait", kService, "SECONDS"},

    {"--config", kOther, "FILE", kMostUsed},
    {"--address", kNetwork, "ADDRESS", kMostUsed},
    {"--port", kNetwork, "PORT", kMostUsed},
    {"--unix-socket", kNetwork, "PATH", kMostUsed},
    {"--tls-certificate", kNetwork, "FILE", kMostUsed},
    {"--tls-key", kNetwork, "FILE", kMostUsed},
    {"--require-tokens", kAccess, {}, kMostUsed},
    {"--public-read", kAccess},
    {"--insecure-network", kAccess},
    {"--follow", kReplica, "URL", kMostUsed},
    {"--follow-token-file", kReplica, "FILE"},
    {"--follow-ca", kReplica, "FILE"},
    {"--forward-writes", kReplica},
    {"--body-bytes", kLimits, "BYTES"},
    {"--body-timeout", kLimits, "SECONDS"},
    {"--cached-answer-bytes", kLimits, "BYTES"},
    {"--cached-answers", kLimits, "N"},
    {"--connections", kLimits, "N"},
    {"--connections-of-address", kLimits, "N"},
    {"--drain-timeout", kLimits, "SECONDS"},
    {"--header-bytes", kLimits, "BYTES"},
    {"--header-timeout", kLimits, "SECONDS"},
    {"--history-interval", kLimits, "SECONDS"},
    {"--idle-timeout", kLimits, "SECONDS"},
    {"--keep-measurements", kLimits, "TIME"},
    {"--keep-models", kLimits, "TIME"},
    {"--keep-samples", kLimits, "TIME"},
    {"--least-free-bytes", kLimits, "BYTES"},
    {"--refused-tokens-per-s", kLimits, "N"},
    {"--requests-per-s", kLimits, "N"},
    {"--upload-bytes", kLimits, "BYTES"},
    {"--uploads", kLimits, "N"},
    {"--watchers", kLimits, "N"},
    {"--access-log", kOutput, "YES"},

    {"--name", kOther, "NAME"},
    {"--role", kOther, "ROLE"},
    {"--expires", kOther, "WHEN"},
    {"--since", kOther, "EPOCH"},
    {"--help", kOther, {}, kMostUsed},
    {"--version", kOther, {}, kMostUsed},
    {"--help-all", kOther, {}, kMostUsed},
});

constexpr std::ptrdiff_t kMostLines = 40;

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

const OptionPage* page_of(const CLI::App& command, const CLI::Option& option) {
  const std::string name = long_name(option);
  const auto found = std::ranges::find_if(kOptions, [&](const OptionPage& page) {
    return page.name == name && (page.command.empty() || page.command == command.get_name());
  });
  return found == kOptions.end() ? nullptr : &*found;
}

/// Sets the groups and names of values of a command and its subcommands.
void set_groups(CLI::App& command, const std::shared_ptr<CLI::FormatterBase>& format) {
  command.formatter(format);
  for (CLI::Option* option : command.get_options()) {
    const OptionPage* page = page_of(command, *option);
    if (page == nullptr) continue;
    if (!option->get_group().empty()) option->group(std::string(page->group));
    if (!page->value.empty()) option->type_name(std::string(page->value));
  }
  for (CLI::App* below : command.get_subcommands(nullptr)) set_groups(*below, format);
}

/// "  name            text", with the text wrapped in its column.
std::string entry(const std::string& name, const std::string& text) {
  std::string first = "  " + name;
  if (first.size() + 2 > kTextColumn) {
    first += '\n';
    first.append(kTextColumn, ' ');
  } else {
    first.resize(kTextColumn, ' ');
  }
  std::string result;
  for (const std::string& line : render::wrapped(text, kPageColumns - kTextColumn))
    result += (result.empty() ? first : std::string(kTextColumn, ' ')) + line + "\n";
  return result;
}

std::string paragraph(const std::string& text) {
  std::string result;
  for (const std::string& line : render::wrapped(text, kPageColumns)) result += line + "\n";
  return result;
}

/// The first clause of what an option does, on one line.
std::string brief(const CLI::Option& option) {
  const std::string text = option.get_description();
  const std::string clause =
      text.substr(0, std::min({text.find("; "), text.find(": "), text.find(" ("), text.find(", e.g.")}));
  const auto lines = render::wrapped(clause, kPageColumns - kTextColumn - std::string_view(" ...").size());
  return lines.size() == 1 ? clause : lines.front() + " ...";
}

std::string option_entries(const CLI::App& command, bool is_whole) {
  std::string text;
  for (const std::string_view group : option_groups()) {
    if (!is_whole && (group == kAdvanced || group == kLimits || group == kService)) continue;
    std::string entries;
    for (const CLI::Option* option : options_of(command, group))
      if (const OptionPage* page = page_of(command, *option); is_whole || (page != nullptr && page->is_most_used))
        entries += entry(option_syntax(*option), is_whole ? option_description(*option) : brief(*option));
    if (!entries.empty()) text += "\n" + std::string(group) + ":\n" + entries;
  }
  return text;
}

std::string help_page(const CLI::App& app, const std::string& name, bool is_whole) {
  std::string page = paragraph(app.get_description());
  page += "\n" + paragraph("usage: " + name + " " + usage_of(app));
  std::string arguments;
  for (const CLI::Option* option : arguments_of(app))
    arguments += entry(option_syntax(*option), option_description(*option));
  if (!arguments.empty()) page += "\nArguments:\n" + arguments;
  std::string commands;
  for (const CLI::App* below : commands_below(app)) commands += entry(below->get_name(), below->get_description());
  if (!commands.empty()) page += "\nCommands:\n" + commands;
  page += option_entries(app, is_whole);
  const std::string footer = app.get_footer();
  return footer.empty() ? page : page + (footer.front() == '\n' ? "" : "\n") + footer + "\n";
}

/// Shows all options if they fit on a screen or --help-all asks for them, else those that are used most.
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string page = help_page(*app, name, true);
    const bool is_short = std::ranges::count(page, '\n') <= kMostLines;
    return is_short || mode == CLI::AppFormatMode::All ? page : help_page(*app, name, false);
  }
};

} // namespace

void set_help_format(CLI::App& app) { set_groups(app, std::make_shared<HelpFormat>()); }

std::vector<const CLI::App*> commands_below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* below) { return !below->get_group().empty(); });
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : commands_below(command)) names.push_back(below->get_name());
  return names;
}

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); }))
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::span<const std::string_view> option_groups() noexcept { return kGroups; }

std::vector<const CLI::Option*> options_of(const CLI::App& command, std::string_view group) {
  return command.get_options(
      [&](const CLI::Option* option) { return option->nonpositional() && option->get_group() == group; });
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string option_syntax(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name() + (option.get_expected_max() > 1 ? "..." : "");
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  return option.get_type_size() == 0 || option.get_type_name().empty() ? text : text + " " + option.get_type_name();
}

std::string option_description(const CLI::Option& option) {
  std::string text = option.get_description();
  const bool has_value = option.get_type_size() != 0;
  if (has_value && !option.get_default_str().empty() && text.find("default") == std::string::npos)
    text += " (default: " + option.get_default_str() + ")";
  for (const CLI::Option* needed : option.get_needs()) text += " (with " + needed->get_name() + ")";
  if (!option.get_envname().empty()) text += " (or " + option.get_envname() + ")";
  if (option.get_required() && !option.get_positional()) text += " (required)";
  return text;
}

std::string usage_of(const CLI::App& command) {
  std::string text = "[OPTIONS]";
  if (!commands_below(command).empty()) text += " COMMAND";
  for (const CLI::Option* option : arguments_of(command))
    text += option->get_required() ? " " + option_syntax(*option) : " [" + option_syntax(*option) + "]";
  return text;
}

} // namespace mc2::cli
