#include "mc2/profiler/importer.hpp"

#include <algorithm>

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

} // namespace mc2::profiler
