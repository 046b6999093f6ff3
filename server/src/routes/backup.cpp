#include <atomic>
#include <memory>

#include "copy_name.hpp"
#include "http/upload_file.hpp"
#include "mc2/client/plan_service.hpp"
#include "mc2/server/service.hpp"
#include "mc2/store/backup.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr int kMostCopies = 2; ///< of each kind at a time: a copy is as large as the store

/// Separate counts, so that snapshots of readers take no place from backups of admins.
std::atomic<int> backup_count{0}, snapshot_count{0};

/// A place, taken as long as the value lives; null where kMostCopies are taken.
std::shared_ptr<void> take_place(std::atomic<int>& count) {
  if (count.fetch_add(1) >= kMostCopies) {
    --count;
    return nullptr;
  }
  return {&count, [&count](void*) { --count; }};
}

Response come_again(std::string_view why, const Call& call) {
  return problem(503, why, call.request.id, {{"Retry-After", "10"}});
}

using CopyFunction = Result<void> (*)(const std::filesystem::path& from, const std::filesystem::path& to);

/// Answers with a copy of the store. The copy is made in the store's folder, as its disk is meant for large files, and
/// loses its name as soon as it is complete.
Result<Response> answer_copy(Context& context, const Call& call, CopyFunction copy_store, std::atomic<int>& count) {
  MC2_TRY(call.query.require_all_known());
  MC2_TRY(context.store.require_own_file());
  const auto& store = context.config.store;
  const auto place = take_place(count);
  if (!place) return come_again("two copies are being sent already; ask again when they are complete", call);
  std::error_code failed;
  const auto room = std::filesystem::space(store.parent_path(), failed);
  const auto store_bytes = failed ? 0 : std::filesystem::file_size(store, failed);
  if (!failed && room.available < store_bytes + context.config.limits.least_free_bytes)
    return come_again("the store's disk has no room for a copy of it", call);
  const CopyName copy(store.parent_path());
  MC2_TRY(copy_store(store, copy.path()));
  const std::string name = "mc2-" + context.surroundings.utc_now().substr(0, 10) + ".db";
  return Response{
      .content_type = "application/vnd.sqlite3",
      .headers = {{"Content-Disposition", "attachment; filename=\"" + name + "\""}, {"Cache-Control", "no-store"}},
      .file = map_file(copy.path(), place)};
}

} // namespace

Result<void> require_same_mc2(const Query& query, bool is_replica) {
  const auto version = query.text("version");
  if (!is_replica || version == MC2_VERSION) return {};
  return Error{ErrorCode::InvalidSpec, "version",
               (version ? "is " + version->substr(0, 32) : std::string("is missing")) +
                   "; this is " MC2_VERSION ", and a replica must have the same version"};
}

Result<Response> answer_backup(Context& context, const Call& call) {
  return answer_copy(context, call, &store::back_up, backup_count);
}

Result<Response> answer_snapshot(Context& context, const Call& call) {
  MC2_TRY(require_same_mc2(call.query, true));
  const auto without_copies = [](const std::filesystem::path& from, const std::filesystem::path& to) {
    return store::take_snapshot(from, to, std::string(client::kServedBy)); // as rows of changes are sent, without these
  };
  return answer_copy(context, call, without_copies, snapshot_count);
}

} // namespace mc2::server
