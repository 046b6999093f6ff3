#include "mc2/profiler/importer.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::profiler {
namespace {

Result<const Importer*> find_importer(LogReader& reader, std::string_view format) {
  const auto table = importer_registry();
  if (!format.empty()) return find_named(table, format, &Importer::name, "--format", "format");
  std::string head(reader.head());
  head.resize(remove_colours(head.data(), head.size()));
  const auto found = std::ranges::find_if(table, [&](const Importer& importer) { return importer.detect(head); });
  if (found != table.end()) return &*found;
  if (head.empty()) return Error{ErrorCode::Malformed, "", reader.fault().empty() ? "is empty" : reader.fault()};
  return Error{ErrorCode::Malformed, "",
               "is no log that mc2 knows; name its format with --format: " + list_text(table, &Importer::name)};
}

/// Reports progress to the caller's hooks and ends the source when the caller cancels.
class WatchedSource : public ByteSource {
 public:
  WatchedSource(ByteSource& source, const ImportHooks& hooks) : source_(source), hooks_(hooks) {}

  [[nodiscard]] std::size_t read(std::span<char> into) override {
    do {
      if (is_cancelled()) return 0;
    } while (!source_.is_ready());
    const std::size_t got = source_.read(into);
    bytes_read_ += static_cast<std::int64_t>(got);
    if (hooks_.on_progress) hooks_.on_progress(bytes_read_, source_.total_bytes());
    return got;
  }
  [[nodiscard]] std::filesystem::path path() const override { return source_.path(); }
  [[nodiscard]] std::int64_t total_bytes() const override { return source_.total_bytes(); }
  [[nodiscard]] bool is_cancelled() override {
    is_cancelled_ = is_cancelled_ || (hooks_.is_cancelled && hooks_.is_cancelled());
    return is_cancelled_;
  }

 private:
  ByteSource& source_;
  const ImportHooks& hooks_;
  std::int64_t bytes_read_ = 0;
  bool is_cancelled_ = false;
};

/// A file's text, decompressed and in UTF-8. That of a pipe is empty here: it can be read only once.
class LogText {
 public:
  explicit LogText(const std::string& file) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(file, failed)) return;
    auto opened = open_log(file);
    if (!opened) return; // whoever imports it says why
    source_ = std::move(opened.value());
    reader_.emplace(*source_);
  }

  [[nodiscard]] std::string_view head() { return reader_ ? reader_->head() : std::string_view(); }
  [[nodiscard]] bool is_same_as(LogText& other) {
    if (!reader_ || !other.reader_) return false; // a file that has vanished meanwhile
    std::string_view here, there;
    while (true) {
      const bool is_here = !here.empty() || reader_->next_piece(here);
      const bool is_there = !there.empty() || other.reader_->next_piece(there);
      if (!is_here || !is_there) return is_here == is_there;
      const std::size_t size = std::min(here.size(), there.size());
      if (here.substr(0, size) != there.substr(0, size)) return false;
      here.remove_prefix(size);
      there.remove_prefix(size);
    }
  }

 private:
  std::unique_ptr<ByteSource> source_;
  std::optional<LogReader> reader_;
};

bool have_same_text(const std::string& left, const std::string& right) {
  LogText one(left), other(right);
  return one.is_same_as(other);
}

} // namespace

Result<LogSummary> import_log(ByteSource& source, std::string_view format, const ImportAnswers& answers,
                              TimingSet& into, const ImportHooks& hooks) {
  WatchedSource watched(source, hooks);
  LogReader reader(watched);
  const auto cancelled = [] { return Error{ErrorCode::Cancelled, "", "interrupted; nothing was kept"}; };
  const auto importer = find_importer(reader, format);
  if (watched.is_cancelled()) return cancelled();
  if (!importer) return importer.error();
  LogSummary summary;
  summary.format = std::string(importer.value()->name);
  LogSink sink(into, hooks, summary, answers);
  into.next_round();
  const auto read = importer.value()->read(reader, answers, sink);
  if (watched.is_cancelled()) return cancelled();
  if (!reader.fault().empty()) sink.bad(reader.line_number() + 1, reader.fault());
  if (!read) return read.error();
  return summary;
}

Result<void> require_different(std::span<const std::string> files) {
  if (files.size() < 2) return {};
  std::vector<std::size_t> heads; // 0 where there is none
  for (const auto& file : files) {
    LogText text(file);
    const std::string_view head = text.head();
    heads.push_back(head.empty() ? 0 : std::hash<std::string_view>()(head));
  }
  for (std::size_t i = 1; i < files.size(); ++i)
    for (std::size_t known = 0; known < i; ++known)
      if (heads[i] != 0 && heads[i] == heads[known] && have_same_text(files[i], files[known]))
        return Error{
            ErrorCode::InvalidSpec, "files",
            files[i] + " is the same log as " + files[known] + ", whose timings would count twice; name one of them"};
  return {};
}

} // namespace mc2::profiler
