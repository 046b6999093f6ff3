#include "child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "pages/terminal.hpp"

namespace mc2::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxLineBytes = 1 << 20;
constexpr milliseconds kFarewell{2000};

[[noreturn]] void fail(const char* call) {
  const int code = errno;
  throw SystemError(call, code, std::strerror(code));
}

struct Pipe {
  int read_end = -1, write_end = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    for (const int end : {read_end, write_end})
      if (end >= 0) close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// Turns an end of the pipe into a stream, which then owns it.
  static std::FILE* take(int& end, const char* mode) {
    std::FILE* file = fdopen(end, mode);
    if (file == nullptr) fail("fdopen");
    end = -1;
    return file;
  }
};

/// Settings for posix_spawn; the destructor releases them.
struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};

  SpawnSettings(int input, int output, int errors) {
    if (posix_spawn_file_actions_init(&files) != 0 || posix_spawnattr_init(&attributes) != 0)
      fail("posix_spawn settings");
    posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
    sigset_t ignored_here; // an ignored signal would stay ignored in the child
    sigemptyset(&ignored_here);
    sigaddset(&ignored_here, SIGPIPE);
    sigaddset(&ignored_here, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &ignored_here);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

} // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& command) {
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->errors_.reset(std::tmpfile());
  if (!child->errors_) fail("tmpfile");
  fcntl(fileno(child->errors_.get()), F_SETFD, FD_CLOEXEC);
  Pipe input, output;
  SpawnSettings settings(input.read_end, output.write_end, fileno(child->errors_.get()));
  std::vector<char*> arguments;
  for (const auto& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int code =
      posix_spawnp(&child->process_, arguments[0], &settings.files, &settings.attributes, arguments.data(), environ);
  if (code != 0) {
    child->process_ = -1;
    return Error{ErrorCode::NotFound, command[0], std::string("cannot be started: ") + std::strerror(code)};
  }
  child->input_.reset(Pipe::take(input.write_end, "w"));
  child->output_.reset(Pipe::take(output.read_end, "r"));
  return child;
}

ChildProcess::~ChildProcess() {
  if (process_ < 0) return;
  input_.reset();
  wait_for_end(kFarewell);
  kill(-process_, SIGKILL); // the child or the processes that it left behind
  waitpid(process_, nullptr, 0);
}

void ChildProcess::wait_for_end(milliseconds patience) const noexcept {
  const auto deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    siginfo_t found{}; // WNOWAIT keeps the zombie, so that its process number is not reused before the group is killed
    if (waitid(P_PID, static_cast<id_t>(process_), &found, WEXITED | WNOHANG | WNOWAIT) != 0 || found.si_pid != 0)
      return;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

Result<void> ChildProcess::write_line(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), input_.get()) == text.size() && std::fflush(input_.get()) == 0)
    return {};
  return Error{ErrorCode::NotFound, "child", std::string("takes no input: ") + std::strerror(errno)};
}

Result<std::string> ChildProcess::read_line(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const int descriptor = fileno(output_.get());
  while (true) {
    if (const auto end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kMaxLineBytes) return Error{ErrorCode::Malformed, "child", "answered a line above 1 MiB"};
    if (is_interrupted()) return Error{ErrorCode::Cancelled, "child", "interrupted"};
    if (Clock::now() >= deadline)
      return Error{ErrorCode::OutOfRange, "child",
                   "gave no answer within " + std::to_string(patience.count() / 1000) + " s"};
    pollfd waiting{descriptor, POLLIN, 0};
    if (poll(&waiting, 1, 100) <= 0) continue; // short, so that interrupts are noticed
    char chunk[4096];
    const ssize_t count = read(descriptor, chunk, sizeof chunk);
    if (count > 0) received_.append(chunk, static_cast<std::size_t>(count));
    if (count == 0) return Error{ErrorCode::NotFound, "child", "ended without an answer"};
  }
}

std::string ChildProcess::error_tail(std::size_t byte_count) const {
  const int descriptor = fileno(errors_.get());
  const off_t size = lseek(descriptor, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - static_cast<off_t>(byte_count));
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t count = pread(descriptor, text.data(), text.size(), start);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  if (start > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

} // namespace mc2::cli
