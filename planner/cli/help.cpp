#include "help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "mc2/executor/executor.hpp"
#include "mc2/planner/op_spec.hpp"
#include "text.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kTextColumn = 24;

constexpr std::string_view kOperator = "Operator", kMachine = "Machine", kPlanning = "Planning",
                           kMeasuring = "Measuring", kInput = "Input", kOutput = "Output", kService = "Service",
                           kNetwork = "Network", kAccess = "Access", kLimits = "Limits", kAdvanced = "Advanced",
                           kOther = "Options";
constexpr std::array kGroups{kOperator, kMachine, kPlanning, kMeasuring, kInput,    kNetwork,
                             kAccess,   kLimits,  kOutput,   kService,   kAdvanced, kOther};

/// Where help shows an option, and what its value is called; flags have none.
struct OptionPage {
  std::string_view name;
  std::string_view group;
  std::string_view value = {};
  std::string_view command = {}; ///< only there, in front of the entry for all
};

constexpr auto kOptions = std::to_array<OptionPage>({
    {"--m", kOperator, "LIST", "sweep"},
    {"--ranks", kOperator, "LIST", "sweep"},
    {"--ranks", kOther, "N", "topology"},
    {"--out", kOutput, "DIR", "export"},
    {"--format", kOutput, "NAME", "export"},
    {"--format", kInput, "NAME", "import"},
    {"--model", kInput, "FILE"},
    {"--fresh", kInput, {}, "import"},

    {"--op", kOperator, "KIND"},
    {"--m", kOperator, "ROWS"},
    {"--n", kOperator, "COLUMNS"},
    {"--k", kOperator, "LENGTH"},
    {"--dtype", kOperator, "TYPE"},
    {"--ranks", kOperator, "N"},
    {"--bias", kOperator},
    {"--residual", kOperator},
    {"--tables", kOperator, "N"},
    {"--table-rows", kOperator, "ROWS"},
    {"--pooling", kOperator, "HOW"},
    {"--counts", kOperator, "FILE"},
    {"--shapes", kOperator, "FILE"},
    {"--models", kOperator, "NAMES"},
    {"--kinds", kOperator, "LIST"},

    {"--backend", kMachine, "NAME"},
    {"--link", kMachine, "LINK"},
    {"--virtual-compute", kMachine, "SPEED"},
    {"--no-pin", kMachine},
    {"--deadline", kMachine, "SECONDS"},
    {"--device", kMachine, "DEVICE"},
    {"--topology", kMachine, "FILE"},
    {"--accept-other-machine", kMachine},
    {"--store", kMachine, "FILE"},

    {"--strategy", kPlanning, "NAME"},
    {"--align", kPlanning, "ROWS"},
    {"--min-block", kPlanning, "ROWS"},
    {"--max-blocks", kPlanning, "N"},
    {"--runners-up", kPlanning, "N"},
    {"--objective", kPlanning, "SHARE"},
    {"--allow-small-gain", kPlanning},
    {"--blocks", kPlanning, "ROWS,..."},
    {"--variant", kPlanning, "VARIANT"},
    {"--transfer", kPlanning},
    {"--no-transfer", kPlanning},
    {"--plan", kPlanning, "FILE"},
    {"--request", kPlanning, "FILE"},
    {"--contention", kAdvanced, "FACTOR"},
    {"--short-block", kAdvanced, "WHICH"},

    {"--budget", kMeasuring, "SECONDS"},
    {"--precision", kMeasuring, "SHARE"},
    {"--max-samples", kMeasuring, "N"},
    {"--seed", kMeasuring, "N"},
    {"--active", kMeasuring},
    {"--measurements", kMeasuring, "N"},
    {"--regret", kMeasuring, "PERCENT"},
    {"--fresh", kMeasuring},
    {"--pairs", kMeasuring, "N"},
    {"--measure", kMeasuring},
    {"--buffers", kMeasuring, "HOW"},
    {"--threads", kMeasuring, "N"},

    {"--profile", kInput, "FILE"},
    {"--collective", kInput, "NAME"},
    {"--bytes", kInput, "MEANING"},
    {"--rows", kInput, "MEANING"},
    {"--algorithm", kInput, "NAME"},
    {"--protocol", kInput, "NAME"},
    {"--keep-good", kInput},
    {"--read", kInput},
    {"--calibrate", kInput, "FILE"},
    {"--dry-run", kInput},

    {"--json", kOutput},
    {"--verbose", kOutput},
    {"--all", kOutput},
    {"--out", kOutput, "FILE"},
    {"--format", kOutput, "NAME"},
    {"--html", kOutput, "FILE"},
    {"--trace", kOutput, "FILE"},
    {"--report", kOutput, "FILE"},

    {"--server", kService, "URL"},
    {"--token-file", kService, "FILE"},
    {"--server-ca", kService, "FILE"},
    {"--server-wait", kService, "SECONDS"},

    {"--config", kOther, "FILE"},
    {"--address", kNetwork, "ADDRESS"},
    {"--port", kNetwork, "PORT"},
    {"--unix-socket", kNetwork, "PATH"},
    {"--tls-certificate", kNetwork, "FILE"},
    {"--tls-key", kNetwork, "FILE"},
    {"--require-tokens", kAccess},
    {"--public-read", kAccess},
    {"--insecure-network", kAccess},
    {"--allowed-host", kAccess, "NAME"},
    {"--body-bytes", kLimits, "BYTES"},
    {"--body-timeout", kLimits, "SECONDS"},
    {"--cached-answer-bytes", kLimits, "BYTES"},
    {"--cached-answers", kLimits, "N"},
    {"--connections", kLimits, "N"},
    {"--drain-timeout", kLimits, "SECONDS"},
    {"--header-bytes", kLimits, "BYTES"},
    {"--header-timeout", kLimits, "SECONDS"},
    {"--idle-timeout", kLimits, "SECONDS"},
    {"--refused-tokens-per-s", kLimits, "N"},
    {"--requests-per-s", kLimits, "N"},
    {"--upload-bytes", kLimits, "BYTES"},
    {"--uploads", kLimits, "N"},
    {"--access-log", kOutput, "YES"},

    {"--name", kOther, "NAME"},
    {"--role", kOther, "ROLE"},
    {"--expires", kOther, "WHEN"},
    {"--help", kOther},
    {"--version", kOther},
    {"--help-all", kOther},
});

/// What the short help of a command shows of its options.
constexpr auto kMostUsed = std::to_array<std::string_view>({"--op",
                                                            "--m",
                                                            "--n",
                                                            "--k",
                                                            "--dtype",
                                                            "--ranks",
                                                            "--shapes",
                                                            "--models",
                                                            "--link",
                                                            "--backend",
                                                            "--store",
                                                            "--device",
                                                            "--topology",
                                                            "--blocks",
                                                            "--plan",
                                                            "--variant",
                                                            "--budget",
                                                            "--active",
                                                            "--pairs",
                                                            "--measure",
                                                            "--fresh",
                                                            "--model",
                                                            "--format",
                                                            "--collective",
                                                            "--json",
                                                            "--verbose",
                                                            "--all",
                                                            "--out",
                                                            "--html",
                                                            "--trace",
                                                            "--server",
                                                            "--help",
                                                            "--help-all",
                                                            "--version",
                                                            "--port",
                                                            "--address",
                                                            "--config",
                                                            "--require-tokens",
                                                            "--tls-certificate",
                                                            "--tls-key",
                                                            "--unix-socket"});
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

std::vector<CLI::App*> commands_below(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

void set_groups(CLI::App& command) {
  for (CLI::Option* option : command.get_options([](CLI::Option*) { return true; })) {
    const OptionPage* page = page_of(command, *option);
    if (page == nullptr) continue;
    if (!option->get_group().empty()) option->group(std::string(page->group));
    if (!page->value.empty()) option->type_name(std::string(page->value));
  }
  for (CLI::App* below : commands_below(command)) set_groups(*below);
}

/// "  name            text", the text wrapped in its column.
std::string entry(const std::string& name, const std::string& text) {
  std::string first = "  " + name;
  if (first.size() + 2 > kTextColumn) {
    first += '\n';
    first.append(kTextColumn, ' ');
  } else {
    first.resize(kTextColumn, ' ');
  }
  std::string result;
  for (const std::string& line : wrapped(text, kPageColumns - kTextColumn))
    result += (result.empty() ? first : std::string(kTextColumn, ' ')) + line + "\n";
  return result;
}

std::string paragraph(const std::string& text) {
  std::string result;
  for (const std::string& line : wrapped(text, kPageColumns)) result += line + "\n";
  return result;
}

/// The first clause of what an option does, on one line.
std::string brief(const CLI::Option& option) {
  const std::string text = option.get_description();
  const std::string clause =
      text.substr(0, std::min({text.find("; "), text.find(": "), text.find(" ("), text.find(", e.g.")}));
  const auto lines = wrapped(clause, kPageColumns - kTextColumn - std::string_view(" ...").size());
  return lines.size() == 1 ? clause : lines.front() + " ...";
}

std::string option_entries(const CLI::App& command, bool is_whole) {
  std::string text;
  for (const std::string_view group : option_groups()) {
    if (!is_whole && (group == kAdvanced || group == kLimits || group == kService)) continue;
    std::string entries;
    for (const CLI::Option* option : options_of(command, group))
      if (is_whole || std::ranges::find(kMostUsed, long_name(*option)) != kMostUsed.end())
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
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!below->get_group().empty()) commands += entry(below->get_name(), below->get_description());
  if (!commands.empty()) page += "\nCommands:\n" + commands;
  page += option_entries(app, is_whole);
  const std::string footer = app.get_footer();
  return footer.empty() ? page : page + (footer.front() == '\n' ? "" : "\n") + footer + "\n";
}

/// Everything where it fits a screen or is asked for, else what is used most.
class HelpFormat : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string page = help_page(*app, name, true);
    const bool is_short = std::ranges::count(page, '\n') <= kMostLines;
    return is_short || mode == CLI::AppFormatMode::All ? page : help_page(*app, name, false);
  }
};

} // namespace

void set_help_format(CLI::App& app) {
  set_groups(app);
  const auto format = std::make_shared<HelpFormat>();
  std::vector<CLI::App*> open{&app};
  while (!open.empty()) {
    CLI::App* command = open.back();
    open.pop_back();
    command->formatter(format);
    const auto below = commands_below(*command);
    open.insert(open.end(), below.begin(), below.end());
  }
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
  if (option.get_positional()) {
    std::string name = option.get_name();
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name + (option.get_expected_max() > 1 ? "..." : "");
  }
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
  if (!command.get_subcommands([](const CLI::App*) { return true; }).empty()) text += " COMMAND";
  for (const CLI::Option* option : arguments_of(command))
    text += option->get_required() ? " " + option_syntax(*option) : " [" + option_syntax(*option) + "]";
  return text;
}

std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string value = option.get_type_name(), name = long_name(option);
  std::vector<std::string> values;
  if (value == "KIND")
    for (const auto& traits : planner::op_registry()) values.emplace_back(traits.name);
  if (value == "TYPE") values = {"f32", "f16", "bf16", "i8", "f8e4m3"};
  if (name == "--backend") values = {"host", "mpi", "cuda"};
  if (name == "--pooling") values = {"sum", "mean"};
  if (name == "--strategy") values = {"search", "free", "formula", "wave_groups"};
  return values;
}

} // namespace mc2::cli
