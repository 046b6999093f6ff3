#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "http/media.hpp"
#include "mc2/client/plan_service.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "routes/routes.hpp"

namespace mc2::server {
namespace {

constexpr int kMostChanges = 1000; ///< of one answer
constexpr std::chrono::milliseconds kLongestWait{60'000};
constexpr std::array kFeedForms{Form{"json", "application/json"}, Form{"events", "text/event-stream"}};

/// Where the feed begins: after the revision that the client has seen; none: now.
struct Start {
  std::optional<std::int64_t> revision;
  std::string_view field; ///< the field of the request that gave it
};

/// Errors: InvalidSpec.
Result<Start> read_start(const Request& request, const Query& query) {
  MC2_ASSIGN(const auto since, query.integer("since", 0, std::numeric_limits<std::int64_t>::max()));
  if (request.told) return Start{request.told, "since"};
  if (request.last_event_id.empty()) return Start{since, "since"};
  // A client that resumes a cut stream sends this; it is later than `since` in its query.
  const auto last = number_in<std::int64_t>(request.last_event_id);
  if (!last || *last < 0)
    return Error{ErrorCode::InvalidSpec, "Last-Event-ID", "must be the id of an event of this stream"};
  return Start{*last, "Last-Event-ID"};
}

/// Errors: InvalidSpec.
Result<std::chrono::milliseconds> read_patience(const Query& query) {
  MC2_ASSIGN(const auto given, query.integer("wait_ms", 0, kLongestWait.count()));
  return std::chrono::milliseconds(given.value_or(0));
}

/// The changes as events. A first event says where the stream begins, so that a client can resume there before it has
/// seen a change. An id without data, which is no event, says where to resume if nothing of the changes is told.
/// @param told  the epoch up to which the stream has told of changes; none where it begins
std::string events_of(const store::Changes& changes, std::optional<std::int64_t> told) {
  std::string text;
  const auto add = [&text](std::int64_t id, const char* type, const std::string& data) {
    text += "id: " + std::to_string(id) + "\nevent: " + type + "\ndata: " + data + "\n\n";
  };
  if (!told)
    add(changes.changes.empty() ? changes.revision : changes.changes.front().revision - 1, "start",
        R"({"schema":"mc2.changes/1"})");
  for (const store::Change& change : changes.changes) add(change.revision, "change", store::encode(change));
  if (told && *told < changes.revision && changes.changes.empty())
    text += "id: " + std::to_string(changes.revision) + "\n\n";
  return text;
}

/// Where a replica's rows begin; none: the client wants changes without rows.
using Rows = std::optional<store::Position>;

/// Errors: InvalidSpec, also for a replica of another version of mc2.
Result<Rows> read_rows(const Start& start, const Query& query) {
  MC2_ASSIGN(const bool with_rows, query.flag("rows"));
  MC2_ASSIGN(const auto nonce, query.integer("nonce", 0, std::numeric_limits<std::int64_t>::max()));
  MC2_TRY(require_same_mc2(query, with_rows));
  if (!with_rows) return Rows();
  if (!start.revision || !nonce)
    return Error{ErrorCode::InvalidSpec, "rows", "need the parameters since (an epoch) and nonce (of that epoch)"};
  return Rows(store::Position{*start.revision, *nonce});
}

bool is_of_copy(const store::Change& change) { return client::is_served_copy(change.purpose); }

/// A copy of a service's answer is not given on: clients are not told of it, and a replica, which needs every change to
/// follow, gets it without its row, as if the plan were removed again.
store::Changes without_copies(store::Changes changes, bool is_for_replica) {
  if (!is_for_replica) std::erase_if(changes.changes, is_of_copy);
  for (store::Change& change : changes.changes)
    if (is_of_copy(change) && change.row)
      change.row = store::RawDocument{change.row->row_id, change.row->nonce, {}, {}, {}};
  return changes;
}

/// Errors: as Store::changes_since, Store::rows_since.
Result<store::Changes> find_changes(Context& context, const Start& start, const Rows& rows) {
  return context.store.read([&](const store::Store& store) -> Result<store::Changes> {
    if (rows) return store.rows_since(*rows);
    if (start.revision) return store.changes_since(*start.revision, kMostChanges);
    MC2_ASSIGN(const auto now, store.revision());
    return store::Changes{{}, now};
  });
}

} // namespace

Result<Response> answer_changes(Context& context, const Call& call) {
  const Request& request = call.request;
  MC2_ASSIGN(const auto start, read_start(request, call.query));
  MC2_ASSIGN(const auto patience, read_patience(call.query));
  MC2_ASSIGN(const auto rows, read_rows(start, call.query));
  MC2_TRY(call.query.require_all_known());
  const Form* const form = choose_form(request.accept, kFeedForms);
  if (form == nullptr)
    return problem(406, "only application/json and text/event-stream are available; send one of them as Accept",
                   request.id);
  const bool is_stream = form == &kFeedForms[1];
  if (is_stream && rows)
    return Error{ErrorCode::InvalidSpec, "rows", "are sent as application/json alone, not in a stream"};
  MC2_ASSIGN(auto all, find_changes(context, start, rows));
  const store::Changes changes = without_copies(std::move(all), rows.has_value());
  Response response = json_response(is_stream ? events_of(changes, request.told) : store::encode(changes));
  response.content_type = form->media_type;
  response.headers = {{"Cache-Control", "no-store"}, {"Vary", "Accept"}};
  const bool waits = is_stream || (changes.changes.empty() && patience.count() > 0);
  if (waits && request.method != "HEAD" && !context.is_draining)
    response.watch = Watch{.told = changes.revision, .is_stream = is_stream, .patience = patience};
  return response;
}

} // namespace mc2::server
