#include "pages/image_file.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "output_file.hpp"

namespace mc2::cli {
namespace {

constexpr const char* kConverter = "rsvg-convert";

/// Runs the converter without its output. Returns its exit status, or -errno when it did not start.
int run_converter(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kConverter);
  std::vector<char*> words;
  for (auto& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, kConverter, &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return -failure;
  int status = 0;
  while (waitpid(child, &status, 0) == -1)
    if (errno != EINTR) return -errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Removes a file when this object is destroyed.
class Temporary {
 public:
  explicit Temporary(std::filesystem::path path) : path_(std::move(path)) {}
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

} // namespace

Result<ImageFile> ImageFile::open(const std::string& file, const char* option) {
  const std::filesystem::path extension = std::filesystem::path(file).extension();
  const bool is_png = extension == ".png";
  if (!is_png && extension != ".svg")
    return Error{ErrorCode::InvalidSpec, option, "'" + file + "' does not end in .svg or .png"};
  const std::filesystem::path path = std::filesystem::absolute(file);
  if (!std::filesystem::is_directory(path.parent_path()))
    return Error{ErrorCode::InvalidSpec, option, "'" + path.parent_path().string() + "' is no directory"};
  if (std::filesystem::is_directory(path))
    return Error{ErrorCode::InvalidSpec, option, "'" + file + "' is a directory; name a file"};
  if (is_png && run_converter({"--version"}) != 0)
    return Error{ErrorCode::Unsupported, option,
                 "PNG needs the program rsvg-convert (Debian package librsvg2-bin); SVG (.svg) does not"};
  return ImageFile(path, is_png);
}

void ImageFile::write(const std::string& svg) const {
  if (!is_png_) {
    write_file(path_, svg);
    return;
  }
  const Temporary drawing(path_.string() + ".svg.part"), picture(path_.string() + ".png.part");
  write_file(drawing.path(), svg);
  const int status = run_converter({"--zoom", "2", "--output", picture.path().string(), drawing.path().string()});
  if (status != 0)
    throw SystemError("rsvg-convert to " + path_.string(), status,
                      status < 0 ? std::system_category().message(-status) : "it failed; nothing was changed");
  OutputFile file(path_);
  std::ifstream drawn(picture.path(), std::ios::binary);
  file.write(std::string{std::istreambuf_iterator<char>(drawn), {}});
  file.keep();
}

} // namespace mc2::cli
