#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <numeric>
#include <regex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "context.hpp"
#include "help.hpp"
#include "mc2/executor/processes.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

/// The option for the field of an error, which the libraries name in their own words.
std::string option_of(const std::string& field) {
  constexpr std::array kOptions{std::pair{"world_size", "--ranks"},
                                std::pair{"virtual_compute", "--virtual-compute"},
                                std::pair{"short block rule", "--short-block"},
                                std::pair{"table_rows", "--table-rows"},
                                std::pair{"top_k", "--top-k"},
                                std::pair{"experts_per_rank", "--experts-per-rank"},
                                std::pair{"alignment", "--align"},
                                std::pair{"min_block_rows", "--min-block"},
                                std::pair{"max_block_count", "--max-blocks"},
                                std::pair{"runner_up_count", "--runners-up"},
                                std::pair{"objective_quantile", "--objective"},
                                std::pair{"formula_contention", "--contention"},
                                std::pair{"block_overhead_us", "--block-overhead"},
                                std::pair{"epilogue", "--bias, --residual, --norm"},
                                std::pair{"unix_socket", "--unix-socket"}};
  constexpr std::array kSameNames{"m",       "n",          "k",        "op",       "dtype",     "ranks",
                                  "backend", "link",       "strategy", "blocks",   "tables",    "pooling",
                                  "norm",    "contention", "device",   "topology", "imbalance", "counts",
                                  "experts", "address",    "port",     "role"};
  for (const auto& [name, option] : kOptions)
    if (field == name) return option;
  return std::find(kSameNames.begin(), kSameNames.end(), field) == kSameNames.end() ? field : "--" + field;
}

/// The innermost command of the command line, and its full name, e.g. "mc2 db import".
std::pair<const CLI::App*, std::string> parsed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

/// The number of letters to insert, delete or replace to turn one word into the other (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

/// "; did you mean --budget?" for a word that is close to a known word; else empty.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const auto distance = [&](const std::string& name) { return edit_distance(word, name); };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  const bool is_near = nearest != known.end() && distance(*nearest) <= std::max<std::size_t>(1, word.size() / 3);
  return is_near ? "; did you mean " + *nearest + "?" : "";
}

/// The message of an error in this program's words; CLI11's messages speak of types and lists.
std::string complaint(const CLI::ParseError& error) {
  static const std::pair<std::regex, const char*> kWords[] = {
      {std::regex("(.*): 1 required .* missing"), "$1: needs a value"},
      {std::regex("(.*): At Most 1 required but received ([0-9]+)"), "$1: is given $2 times; give it once"},
      {std::regex("(.*) was given a disallowed flag override"), "$1: takes no value"},
      {std::regex("(.*) is required"), "$1: is missing"},
      {std::regex("(.*) requires (.*)"), "$1: needs $2, too"}};
  const std::string text = error.what();
  for (const auto& [theirs, ours] : kWords)
    if (std::regex_match(text, theirs)) return std::regex_replace(text, theirs, ours);
  return text;
}

/// Reports environment variables whose value their option refuses. CLI11 2.4 ignores such a value silently; 2.3 reports
/// it. Throws CLI::ParseError.
void refuse_passed_over_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    const char* value = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0' || option->count() > 0) continue;
    option->add_result(value);
    option->run_callback();
  }
  for (CLI::App* command : app.get_subcommands()) refuse_passed_over_variables(*command);
}

/// The option, e.g. "--m", that has taken the next option for its value; empty where none has.
std::string option_without_value(const CLI::App& command) {
  const auto names = long_names(command);
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (std::ranges::find(names, value) != names.end()) return option->get_name();
  return "";
}

/// Ends after a failed or finished parse. CLI11 prints help itself, except for a command that does not exist; usage
/// errors become one line with the documented exit code.
int exit_parse(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, name] = parsed_command(app);
  const auto commands = command_names(*command);
  const auto unknown = app.remaining(true);
  const bool names_no_command = !commands.empty() && !unknown.empty() && !unknown.front().starts_with('-');
  if (error.get_exit_code() == 0 && !names_no_command) return app.exit(error);
  const std::string hint = "; see " + name + " --help";
  if (commands.empty()) {
    if (unknown.empty()) return report(ExitCode::Usage, complaint(error) + hint);
    if (const auto option = option_without_value(*command); !option.empty())
      return report(ExitCode::Usage, option + ": needs a value" + hint);
    const std::string& word = unknown.front();
    const auto known = long_names(*command);
    if (std::ranges::find(known, word) != known.end())
      return report(ExitCode::Usage, word + ": belongs after " + name + hint);
    const std::string wrong = word.starts_with('-') ? "is no option of " + name : "is not expected here";
    return report(ExitCode::Usage, word + ": " + wrong + suggestion(word, known) + hint);
  }
  const std::string wrong = unknown.empty()
                                ? "name a command after '" + name + "'"
                                : "no command '" + unknown.front() + "'" + suggestion(unknown.front(), commands);
  return report(ExitCode::Usage, wrong + "; legal: " + list_text(commands) + hint);
}

/// The exit code that a shell reports for a program that SIGPIPE has ended.
constexpr int kBrokenPipe = 128 + SIGPIPE;

/// Whether the stream is a pipe whose reader has ended, e.g. `head`. That is no error, and needs no message.
bool has_lost_its_reader(int stream) {
  pollfd state{stream, POLLOUT, 0};
  return poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

/// Opens standard streams that the caller has closed. Otherwise the next opened file would become e.g. standard output,
/// and receive what is printed.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != stream)
      _exit(static_cast<int>(ExitCode::System));
}

bool uses_processes(std::span<char* const> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument(arguments[i]);
    if (argument == "--backend=mpi" || (argument == "mpi" && std::string_view(arguments[i - 1]) == "--backend"))
      return true;
  }
  return false;
}

/// The value of --deadline, which is read here because the processes of a job meet before they read their options.
/// A value that is none is refused later, when the options are read.
std::chrono::milliseconds deadline_of(std::span<char* const> arguments) {
  constexpr std::string_view kOption = "--deadline";
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::string_view value(arguments[i]);
    if (!value.starts_with(kOption)) continue;
    value.remove_prefix(kOption.size());
    if (value.empty() && i + 1 < arguments.size()) value = arguments[i + 1];
    if (value.starts_with('=')) value.remove_prefix(1);
    const auto seconds = number_in<double>(value);
    if (seconds && *seconds >= kLeastDeadlineS && *seconds <= kMostDeadlineS) return planner::to_ms(*seconds);
  }
  return executor::kOpeningDeadline;
}

int run_action(const Action& action) {
  const auto result = action();
  if (result) return static_cast<int>(result.value());
  Error error = result.error();
  error.field = option_of(error.field);
  return report(to_exit_code(error.code), error.text());
}

/// Warns that Open MPI's mpirun runs a command of another backend as independent copies, one for each process.
void warn_of_copies() {
  const char* count = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (count == nullptr || rank == nullptr || std::string_view(count) == "1" || std::string_view(rank) != "0") return;
  std::cerr << "mc2: note: mpirun has started " + std::string(count) +
                   " copies of this command, each on its own; --backend mpi makes them one job\n";
}

/// Runs the program. With the backend "mpi" every process of the job has the same command line; they run it as one job.
int run_as_one(const std::string& name, int argc, char** argv, int (*run)(int, char**)) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  if (!uses_processes(arguments)) {
    warn_of_copies();
    return run(argc, argv);
  }
  setenv("NO_COLOR", "1", 0); // mpirun gives its processes a terminal even if its own output is none
  std::string request = name + " " MC2_VERSION;
  for (const char* argument : arguments.subspan(1)) request += std::string(" ") + argument;
  try {
    const auto answer = executor::lead_processes(
        request, [&] { return run(argc, argv); }, deadline_of(arguments));
    if (answer) return answer.value();
    const ErrorCode code = answer.error().code;
    return report(code == ErrorCode::Mismatch ? ExitCode::Usage : to_exit_code(code), answer.error().text());
  } catch (const StorageError& error) {
    return report(ExitCode::Store, error.what());
  } catch (const SystemError& error) {
    return report(ExitCode::System, error.what());
  }
}

} // namespace

int report(ExitCode code, std::string text) {
  // Line breaks from paths and library messages become blanks. Those of this program are followed by two blanks.
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    if (text.compare(at + 1, 2, "  ") != 0) text[at] = ' ';
  std::cerr << "mc2: " + text + "\n"; // in one write, as other processes of a job share the stream
  return static_cast<int>(code);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const Action& action) {
  try {
    app.parse(argc, argv);
    refuse_passed_over_variables(app);
  } catch (const CLI::ParseError& error) {
    return exit_parse(app, error);
  }
  install_interrupt_handler();
  // A full disk or a closed pipe must end in an error message, not in a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run_action(action);
    std::cout.flush();
    if (!std::cout && has_lost_its_reader(STDOUT_FILENO)) return kBrokenPipe;
    if (!std::cout) return report(ExitCode::System, "standard output: could not be written completely");
    return code;
  } catch (const StorageError& error) {
    return report(ExitCode::Store, error.what());
  } catch (const SystemError& error) {
    return report(ExitCode::System, error.what());
  } catch (const std::bad_alloc&) {
    return report(ExitCode::System, "out of memory; try a smaller m, n or k");
  } catch (const std::exception& error) {
    return report(ExitCode::System, error.what());
  }
}

int run_main(const std::string& name, int argc, char** argv, int (*run)(int argc, char** argv)) {
  open_standard_streams();
  return run_as_one(name, argc, argv, run);
}

} // namespace mc2::cli
