#include <unistd.h>

#include <atomic>

#include "http/upload_file.hpp"
#include "mc2/store/backup.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

/// In the store's own folder, whose disk has room for large files; without a name as soon as it is whole.
Result<Response> answer_backup(Context& context, const Call& call) {
  static std::atomic<std::uint64_t> count{0};
  MC2_TRY(call.query.require_all_known());
  const auto& store = context.config.store;
  const auto copy = store.parent_path() / (".mc2-backup-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  MC2_TRY(store::back_up(store, copy));
  const std::string name = "mc2-" + context.surroundings.utc_now().substr(0, 10) + ".db";
  return Response{
      .content_type = "application/vnd.sqlite3",
      .body = nullptr,
      .etag = {},
      .headers = {{"Content-Disposition", "attachment; filename=\"" + name + "\""}, {"Cache-Control", "no-store"}},
      .file = take_file(copy)};
}

} // namespace mc2::server
