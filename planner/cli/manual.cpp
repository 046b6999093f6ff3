#include "manual.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "help.hpp"
#include "mc2/planner/text.hpp"
#include "option_values.hpp"

namespace mc2::cli {
namespace {

constexpr std::string_view kFileValues[] = {"FILE", "PATH", "DOCUMENT"};

/// A command and the words that name it after "mc2": "db list"; empty for the program itself.
struct NamedCommand {
  std::string words;
  const CLI::App* app;
};

/// The program and all its subcommands, parents first.
std::vector<NamedCommand> all_commands(const CLI::App& app, const std::string& words = "") {
  std::vector<NamedCommand> result{{words, &app}};
  for (const CLI::App* below : commands_below(app)) {
    const auto nested = all_commands(*below, (words.empty() ? "" : words + " ") + below->get_name());
    result.insert(result.end(), nested.begin(), nested.end());
  }
  return result;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  std::vector<const CLI::Option*> result;
  for (const std::string_view group : option_groups()) {
    const auto options = options_of(app, group);
    result.insert(result.end(), options.begin(), options.end());
  }
  return result;
}

bool takes_value(const CLI::Option& option) { return option.get_type_size() != 0; }

bool takes_file(const CLI::Option& option) {
  return std::ranges::find(kFileValues, option.get_type_name()) != std::end(kFileValues);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Man pages (man-pages(7), groff_man(7)).

/// Escapes text so that no line is taken for a roff request, and hyphens and backslashes stay.
std::string roff(const std::string& text) {
  std::string result = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  result = replaced(result, "\n.", "\n\\&.");
  result = replaced(result, "\n'", "\n\\&'");
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string man_option(const CLI::Option& option) {
  return ".TP\n.B " + roff(option_syntax(option)) + "\n" + roff(option_description(option)) + "\n";
}

std::string file_name(const std::string& words) {
  return "mc2" + (words.empty() ? "" : "-" + replaced(words, " ", "-"));
}

std::string man_references(const NamedCommand& command) {
  std::vector<std::string> pages;
  if (!command.words.empty()) pages.push_back(".BR mc2 (1)");
  for (const std::string& below : command_names(*command.app))
    pages.push_back(".BR " + roff(file_name((command.words.empty() ? "" : command.words + " ") + below)) + " (1)");
  return list_text(pages, ",\n");
}

std::string man_page(const NamedCommand& command) {
  const CLI::App& app = *command.app;
  const std::string name = "mc2" + (command.words.empty() ? "" : " " + command.words), file = file_name(command.words);
  std::string title = file;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string page = ".TH " + roff(title) + " 1 \"\" \"mc2 " MC2_VERSION "\" \"mc2\"\n.SH NAME\n" + roff(file) +
                     " \\- " + roff(app.get_description()) + "\n.SH SYNOPSIS\n.B " + roff(name) + "\n" +
                     roff(usage_of(app)) + "\n";
  if (const auto below = commands_below(app); !below.empty()) {
    page += ".SH COMMANDS\n";
    for (const CLI::App* one : below)
      page += ".TP\n.B " + roff(one->get_name()) + "\n" + roff(one->get_description()) + "\n";
  }
  if (const auto arguments = arguments_of(app); !arguments.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const CLI::Option* option : arguments) page += man_option(*option);
  }
  page += ".SH OPTIONS\n";
  for (const std::string_view group : option_groups()) {
    const auto options = options_of(app, group);
    if (options.empty()) continue;
    page += ".SS " + std::string(group) + "\n";
    for (const CLI::Option* option : options) page += man_option(*option);
  }
  if (const std::string footer = app.get_footer(); !footer.empty())
    page += ".SH NOTES\n.nf\n" + roff(footer.substr(footer.find_first_not_of('\n'))) + "\n.fi\n";
  return page + ".SH SEE ALSO\n" + man_references(command) + "\n";
}

// Completions.

std::string shell_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

/// The words that the command's positional arguments take.
std::vector<std::string> values_of_arguments(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* argument : arguments_of(command))
    for (const std::string& value : values_of(command, *argument)) words.push_back(value);
  return words;
}

/// The words that bash completes.
struct BashWords {
  std::vector<std::string> names;      ///< of commands
  std::set<std::string> files, others; ///< options that take a file; options that take another value
  std::map<std::string, std::vector<std::string>> options_of_a_value; ///< 'plan --op', by the value's words
  std::string words_of_commands;                                      ///< cases of a `case` statement
};

void add_value(const NamedCommand& command, const CLI::Option& option, BashWords& result) {
  const std::string name = "--" + option.get_lnames().front();
  (takes_file(option) ? result.files : result.others).insert(name);
  if (const auto values = values_of(*command.app, option); !values.empty())
    result.options_of_a_value[list_text(values, " ")].push_back(shell_quoted(command.words + " " + name));
}

BashWords bash_words(const std::vector<NamedCommand>& commands) {
  BashWords result;
  for (const NamedCommand& command : commands) {
    if (!command.words.empty()) result.names.push_back(shell_quoted(command.words));
    std::vector<std::string> words_here = command_names(*command.app);
    for (const auto& more : {values_of_arguments(*command.app), long_names(*command.app)})
      words_here.insert(words_here.end(), more.begin(), more.end());
    result.words_of_commands +=
        "    " + shell_quoted(command.words) + ") words=" + shell_quoted(list_text(words_here, " ")) + " ;;\n";
    for (const CLI::Option* option : shown_options(*command.app))
      if (takes_value(*option)) add_value(command, *option, result);
  }
  return result;
}

std::string bash_completion(const std::vector<NamedCommand>& commands) {
  const BashWords words = bash_words(commands);
  std::string words_of_options;
  for (const auto& [values, options] : words.options_of_a_value)
    words_of_options += "    " + list_text(options, "|") + ") words=" + shell_quoted(values) + " ;;\n";
  return "# Completes mc2 in bash.\n_mc2() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' words='' word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"${command:+$command }$word\" in\n      " +
         list_text(words.names, "|") +
         ") command=${command:+$command }$word ;;\n    esac\n  done\n"
         "  case \"$command $previous\" in\n" +
         words_of_options +
         "  esac\n"
         "  case \"$previous\" in\n    " +
         list_text(words.files, "|") +
         ")\n      compopt -o filenames 2>/dev/null\n"
         "      COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))\n      return ;;\n"
         "    " +
         list_text(words.others, "|") +
         ")\n      COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n      return ;;\n"
         "  esac\n"
         "  case \"$command\" in\n" +
         words.words_of_commands +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  if [ ${#COMPREPLY[@]} = 0 ] && [ \"${current#-}\" = \"$current\" ]; then\n"
         "    compopt -o filenames 2>/dev/null\n    COMPREPLY=($(compgen -f -- \"$current\"))\n  fi\n"
         "}\ncomplete -F _mc2 mc2\n";
}

/// The action of zsh's _arguments for a value: completes files and words, or nothing.
std::string zsh_action(bool is_file, const std::vector<std::string>& values) {
  if (values.empty()) return is_file ? "_files" : "";
  return is_file ? "{_files; compadd " + list_text(values, " ") + "}" : "(" + list_text(values, " ") + ")";
}

/// An option for zsh's _arguments: '--m[rows of ...]:ROWS:'.
std::string zsh_option(const CLI::App& command, const CLI::Option& option) {
  std::string text = replaced(replaced(option_description(option), "[", "("), "]", ")");
  std::string spec = "--" + option.get_lnames().front() + "[" + replaced(text, ":", "\\:") + "]";
  if (takes_value(option))
    spec += ":" + option.get_type_name() + ":" + zsh_action(takes_file(option), values_of(command, option));
  return shell_quoted(spec);
}

std::string zsh_completion(const std::vector<NamedCommand>& commands) {
  std::string cases;
  for (const auto& [words, app] : commands) {
    std::vector<std::string> lines;
    for (const CLI::Option* option : shown_options(*app)) lines.push_back(zsh_option(*app, *option));
    if (const auto below = command_names(*app); !below.empty())
      lines.push_back(shell_quoted("*:command:(" + list_text(below, " ") + ")"));
    else
      lines.push_back(shell_quoted("*:file:" + zsh_action(true, values_of_arguments(*app))));
    cases += "    " + shell_quoted(words) + ")\n      _arguments " + list_text(lines, " \\\n        ") + " ;;\n";
  }
  std::vector<std::string> names;
  for (const auto& [words, app] : commands)
    if (!words.empty()) names.push_back(shell_quoted(words));
  return "#compdef mc2\n# Completes mc2 in zsh.\n_mc2() {\n  local command='' word\n"
         "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n    case \"${command:+$command }$word\" in\n      " +
         list_text(names, "|") +
         ") command=\"${command:+$command }$word\" ;;\n    esac\n  done\n  case \"$command\" in\n" + cases +
         "  esac\n}\n_mc2 \"$@\"\n";
}

std::string fish_condition(const std::string& words) {
  return "__fish_seen_subcommand_from " + replaced(words, " ", "; and __fish_seen_subcommand_from ");
}

std::string fish_completion(const std::vector<NamedCommand>& commands) {
  std::string text = "# Completes mc2 in fish.\n";
  for (const auto& [words, app] : commands) {
    const std::string parent = words.empty() ? "__fish_use_subcommand" : fish_condition(words);
    for (const CLI::App* below : commands_below(*app))
      text += "complete -c mc2 -f -n " +
              shell_quoted(parent + (words.empty() ? ""
                                                   : "; and not __fish_seen_subcommand_from " +
                                                         list_text(command_names(*app), " "))) +
              " -a " + below->get_name() + " -d " + shell_quoted(below->get_description()) + "\n";
    if (const auto values = values_of_arguments(*app); !values.empty())
      text += "complete -c mc2 -n " + shell_quoted(parent) + " -a " + shell_quoted(list_text(values, " ")) + "\n";
    for (const CLI::Option* option : shown_options(*app)) {
      text += "complete -c mc2 -n " + shell_quoted(parent) + " -l " + option->get_lnames().front();
      if (takes_value(*option)) text += takes_file(*option) ? " -r -F" : " -x";
      if (const auto values = values_of(*app, *option); !values.empty())
        text += " -a " + shell_quoted(list_text(values, " "));
      text += " -d " + shell_quoted(option_description(*option)) + "\n";
    }
  }
  return text;
}

} // namespace

std::map<std::string, std::string> manual_files(const CLI::App& app) {
  const auto commands = all_commands(app);
  std::map<std::string, std::string> files;
  for (const NamedCommand& command : commands) files["man1/" + file_name(command.words) + ".1"] = man_page(command);
  files["completions/mc2.bash"] = bash_completion(commands);
  files["completions/mc2.zsh"] = zsh_completion(commands);
  files["completions/mc2.fish"] = fish_completion(commands);
  return files;
}

} // namespace mc2::cli
