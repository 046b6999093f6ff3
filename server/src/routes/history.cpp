#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Result<Response> answer_history(Context& context, const Call& call) {
  constexpr int kMostPoints = 8192; // as many as the store keeps
  const std::string after = call.query.text("after").value_or("");
  MC2_TRY(call.query.require_all_known());
  if (!after.empty() && store::later(after, 0).empty())
    return Error{ErrorCode::InvalidSpec, "after", "must be a moment such as 2027-01-31T12:00:00Z, or a date"};
  MC2_ASSIGN(const auto points, context.store.read([&](const store::Store& store) {
    return store.history_after(after.empty() ? after : store::later(after, 0), kMostPoints);
  }));
  return json_response(store::encode(points));
}

} // namespace mc2::server
