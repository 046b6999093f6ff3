#include "mc2/client/client.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "transport.hpp"

namespace mc2::client {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDetailBytes = 400;
constexpr int kPageLength = 200; ///< of lists; such a page stays far below what parse_small() reads

/// Text from a service, made fit for one line of a message.
std::string said(std::string_view text) { return one_line(text, kMaxDetailBytes); }

std::string text_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? said(found->get<std::string>()) : std::string();
}

/// Percent-encodes a text as a query parameter's value.
std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_plain)
      result += c;
    else
      result += {'%', kDigits[byte / 16], kDigits[byte % 16]};
  }
  return result;
}

bool may_stand_in_a_header(const std::string& token) {
  return std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7F; });
}

} // namespace

Result<void> Options::validate() const {
  const std::string fault = url.starts_with(kSocketScheme) ? socket_url_fault(url) : network_url_fault(url);
  if (!fault.empty())
    return Error{ErrorCode::InvalidSpec, "server",
                 "'" + said(url) + "' " + fault + "; give e.g. http://127.0.0.1:8471 or unix:/run/mc2/mc2.sock"};
  if (!may_stand_in_a_header(token))
    return Error{ErrorCode::InvalidSpec, "token",
                 "has blanks or letters that no token has; copy it as mc2 token printed it"};
  if (std::error_code none; !ca_file.empty() && !std::filesystem::is_regular_file(ca_file, none))
    return Error{ErrorCode::InvalidSpec, ca_file.string(), "is no file of trusted certificates (PEM)"};
  if (deadline.count() < 1) return Error{ErrorCode::InvalidSpec, "deadline", "must be at least 1 ms"};
  if (max_answer_bytes < 1) return Error{ErrorCode::InvalidSpec, "max_answer_bytes", "must be at least 1"};
  return {};
}

/// Parses lists and problem documents, which are small; null for a large body. Parsed JSON takes up to 80 times the
/// memory of its text.
json parse_small(const std::string& body) {
  constexpr std::size_t kMostBytes = 256 << 10;
  return body.size() <= kMostBytes ? json::parse(body, nullptr, false) : json();
}

/// Caches decoded answers by their text, because decoding takes longer than the call. Threads: safe to share.
class KnownAnswers {
 public:
  /// Errors: as store::decode_answer.
  [[nodiscard]] Result<store::PlanAnswer> read(const std::string& body) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = by_body_.find(body); known != by_body_.end()) return *known->second;
    }
    auto answer = store::decode_answer(body);
    if (answer && body.size() <= kMostBytes) {
      const std::lock_guard lock(mutex_);
      if (by_body_.size() >= kMostAnswers) by_body_.clear();
      by_body_.emplace(body, std::make_shared<const store::PlanAnswer>(answer.value()));
    }
    return answer;
  }

 private:
  static constexpr std::size_t kMostAnswers = 64, kMostBytes = 64 << 10;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const store::PlanAnswer>> by_body_; ///< under mutex_
};

Error too_late(std::chrono::milliseconds deadline) {
  return {kLate, "", "has not answered within " + std::to_string(deadline.count()) + " ms"};
}

struct Client::Impl {
  Options options;
  std::unique_ptr<Transport> transport;
  mutable KnownAnswers answers;

  explicit Impl(const Options& given)
      : options(given),
        transport(given.url.starts_with(kSocketScheme) ? socket_transport(given) : network_transport(given)) {}

  [[nodiscard]] Error error(ErrorCode code, const std::string& message) const { return {code, options.url, message}; }

  /// Calls the service; returns the body of an answer with status 2xx.
  [[nodiscard]] Result<std::string> ask(const HttpRequest& request, const AskOptions& how = {}) const {
    auto answer = transport->call(request, how.deadline.value_or(options.deadline), how.stop);
    if (!answer && !answer.error().field.empty()) return error(kUnavailable, answer.error().message);
    if (!answer) return unreached(answer.error(), how);
    if (answer.value().status >= 200 && answer.value().status < 300) return std::move(answer).value().body;
    return refusal(answer.value());
  }

  /// The error for a call without an answer.
  [[nodiscard]] Error unreached(const Error& fault, const AskOptions& how) const {
    std::string reason = said(fault.message);
    if (fault.code == kLate && !how.deadline_name.empty()) reason += " (" + how.deadline_name + ")";
    const std::string of_tls =
        " under a name that its certificate has, and that the certificate is trusted (" + options.names.ca_file + ")";
    return error(kUnavailable, reason + "; check that mc2 serve runs there" +
                                   (options.url.starts_with("https") ? of_tls : "") + ", or " + options.names.without);
  }

  [[nodiscard]] Error refusal(const HttpAnswer& answer) const {
    const std::string status = std::to_string(answer.status);
    const bool is_said_to_be = answer.content_type.starts_with("application/problem+json");
    const json problem = is_said_to_be ? parse_small(answer.body) : json();
    const bool is_problem = problem.is_object();
    const std::string detail = is_problem ? text_in(problem, "detail") : "";
    const std::string said = status + (detail.empty() ? "" : ", " + detail);
    if (answer.status == 401 && options.token.empty())
      return error(ErrorCode::InvalidSpec, "needs a token, as mc2 token create makes there, and none was given (" +
                                               said + "); set " + options.names.token);
    if (answer.status == 403 && options.token.empty())
      return error(ErrorCode::InvalidSpec,
                   "refuses (" + said + "); if it asks for a token, set " + options.names.token);
    if (answer.status == 401 || answer.status == 403)
      return error(ErrorCode::InvalidSpec, "does not take the token (" + said + "); set " + options.names.token);
    if (answer.status == 429 || answer.status == 503)
      return error(kUnavailable, "is busy (" + said + "); ask again later");
    if (answer.status >= 500) return error(kUnavailable, "failed (" + said + "); its log says why");
    if (!is_problem) return error(kUnavailable, "answers " + status + " and is no mc2 serve; check the address");
    const std::string field = text_in(problem, "field");
    return error(parse_error_code(text_in(problem, "code")).value_or(ErrorCode::InvalidSpec),
                 (field.empty() ? "" : field + ": ") + (detail.empty() ? "refuses with " + status : detail));
  }

  /// The error for an answer that is not the document that it should be.
  [[nodiscard]] Error unreadable(const Error& fault) const {
    return error(fault.code, "its answer cannot be used (" + said(fault.text()) + "); check its address and version");
  }

  template <typename T>
  [[nodiscard]] Result<T> decoded(Result<T> document) const {
    if (!document) return unreadable(document.error());
    return document;
  }

  /// One member of a small JSON object in an answer.
  template <typename T>
  [[nodiscard]] Result<T> member(const std::string& body, const char* key,
                                 bool (json::*is_right)() const noexcept) const {
    const json answer = parse_small(body);
    if (!answer.is_object() || !answer.contains(key) || !(answer[key].*is_right)())
      return unreadable({ErrorCode::Malformed, key, "is missing"});
    return answer[key].get<T>();
  }

  /// Calls `take` with each item of a list, page by page. @param target  has a query
  [[nodiscard]] Result<void> for_each_item(const std::string& target,
                                           const std::function<void(const json& item)>& take) const {
    std::string before;
    for (std::int64_t last = std::numeric_limits<std::int64_t>::max(); last > 0;) {
      MC2_ASSIGN(const auto body,
                 ask({.target = target + "&limit=" + std::to_string(kPageLength) + before, .body = {}}));
      const json list = parse_small(body);
      if (!list.is_object() || !list.contains("items") || !list["items"].is_array())
        return unreadable({ErrorCode::Malformed, "items", "is missing"});
      for (const json& item : list["items"]) take(item);
      const json next = list.value("next", json());
      const bool goes_on = next.is_number_integer() && next.get<std::int64_t>() < last;
      last = goes_on ? next.get<std::int64_t>() : 0;
      before = "&before=" + std::to_string(last);
    }
    return {};
  }

  /// Fetches a document by its digest or a prefix.
  [[nodiscard]] Result<std::string> document(const std::string& folder, const std::string& digest_prefix) const {
    MC2_ASSIGN(const auto digits, store::read_digest(digest_prefix));
    MC2_ASSIGN(auto body, ask({.target = folder + digits, .body = {}}));
    if (store::digest(body).starts_with(digits)) return body;
    return unreadable({ErrorCode::Mismatch, "digest", "the document is not " + digits});
  }

  /// @param query  the rest of the query, from '&' on
  [[nodiscard]] Result<store::Changes> changes(const std::string& query, std::chrono::milliseconds patience,
                                               const std::stop_token& stop, std::chrono::milliseconds deadline) const {
    MC2_ASSIGN(const auto body,
               ask({.target = "/v1/changes?wait_ms=" + std::to_string(patience.count()) + query, .body = {}},
                   {.deadline = deadline + patience, .stop = stop}));
    return decoded(store::decode_changes(body));
  }

  [[nodiscard]] Result<std::string> put(const std::string& target, const std::string& document) const {
    MC2_ASSIGN(const auto body, ask({.method = "POST", .target = target, .body = document}));
    return member<std::string>(body, "digest", &json::is_string);
  }
};

Result<Client> Client::open(const Options& options) {
  MC2_TRY(options.validate());
  return Client(std::make_shared<const Impl>(options));
}

const std::string& Client::url() const noexcept { return impl_->options.url; }

Result<store::PlanAnswer> Client::find_plan(const PlanQuestion& question, const AskOptions& ask) const {
  const std::string machine = store::digest(question.machine);
  // Sent only if not the default, so that older services, which do not know the parameter, still answer the usual case.
  const std::string target = "/v1/plan?machine=" + machine + (ask.epoch ? "&epoch=" + std::to_string(*ask.epoch) : "") +
                             (question.may_transfer ? "" : "&transfer=no");
  MC2_ASSIGN(const auto body,
             impl_->ask({.method = "POST", .target = target, .body = store::encode(question.request())}, ask));
  MC2_ASSIGN(auto answer, impl_->decoded(impl_->answers.read(body)));
  const planner::Plan& plan = answer.plan;
  if (plan.op != question.op || plan.fingerprint != question.machine || (ask.epoch && answer.epoch != *ask.epoch))
    return impl_->unreadable({ErrorCode::Mismatch, "plan", "is for another operator, machine or epoch than was asked"});
  return answer;
}

Result<store::StoredPlan> Client::find_plan(const std::string& digest_prefix) const {
  MC2_ASSIGN(auto document, impl_->document("/v1/plans/", digest_prefix));
  MC2_ASSIGN(auto plan, impl_->decoded(store::decode_plan(document)));
  store::StoredPlan stored{.key = {plan.op, store::digest(plan.fingerprint)},
                           .plan = std::move(plan),
                           .document = {},
                           .digest = store::digest(document),
                           .created_at = {}};
  stored.document = std::move(document);
  return stored;
}

Result<planner::CostModel> Client::find_model(const std::string& digest_prefix) const {
  MC2_ASSIGN(const auto document, impl_->document("/v1/models/", digest_prefix));
  return impl_->decoded(store::decode_model(document));
}

namespace {

/// How far the listed model's length of the cut axis is from the operator's; none if the model does not answer for it.
std::optional<double> distance(const json& item, const planner::OpSpec& op) {
  if (!item.is_object() || !item.contains("op")) return std::nullopt;
  const auto listed = store::decode_op(item["op"].dump());
  if (!listed || !planner::has_same_block_costs(listed.value(), op)) return std::nullopt;
  return planner::length_distance(listed.value(), op);
}

} // namespace

Result<planner::CostModel> Client::find_model(const planner::OpSpec& op, const planner::Fingerprint& machine) const {
  const bool cuts_rows = planner::cut_axis(op) == planner::CutAxis::Rows;
  const std::string fixed_axis = cuts_rows ? "&n=" + std::to_string(op.n) : "&m=" + std::to_string(op.m);
  const std::string target = "/v1/models?op=" + std::string(planner::traits_of(op.kind).name) + fixed_axis +
                             "&k=" + std::to_string(op.k) + "&dtype=" + std::string(to_string(op.dtype)) +
                             "&ranks=" + std::to_string(op.world_size) + "&machine=" + store::digest(machine);
  std::optional<double> least;
  std::string digest;
  MC2_TRY(impl_->for_each_item(target, [&](const json& item) {
    const auto one = distance(item, op);
    if (!one || (least && *least <= *one)) return;
    least = one;
    digest = text_in(item, "digest");
  }));
  if (!least) return impl_->error(ErrorCode::NotFound, "has no cost model for " + op.text() + " on this machine");
  auto model = find_model(digest);
  if (model && (!planner::has_same_block_costs(model.value().op, op) || model.value().fingerprint != machine))
    return impl_->unreadable({ErrorCode::Mismatch, "model", "is for another operator or machine than its list says"});
  return model;
}

Result<store::Changes> Client::changes_since(std::optional<std::int64_t> epoch, std::chrono::milliseconds patience,
                                             const std::stop_token& stop) const {
  return impl_->changes(epoch ? "&since=" + std::to_string(*epoch) : "", patience, stop, impl_->options.deadline);
}

namespace {

/// The rest of a query for rows, from '&' on.
std::string rows_query(const store::Position& position) {
  return "&rows=true&version=" MC2_VERSION "&since=" + std::to_string(position.revision) +
         "&nonce=" + std::to_string(position.nonce);
}

} // namespace

Result<store::Changes> Client::rows_since(const store::Position& position, std::chrono::milliseconds patience,
                                          const std::stop_token& stop) const {
  constexpr std::chrono::minutes kOfManyRows{2}; // 32 MiB over a slow link
  return impl_->changes(rows_query(position), patience, stop, kOfManyRows);
}

Result<void> Client::require_position(const store::Position& position, const std::stop_token& stop) const {
  MC2_TRY(impl_->ask({.target = "/v1/changes?wait_ms=0" + rows_query(position), .body = {}}, {.stop = stop}));
  return {};
}

Result<std::string> Client::snapshot(const std::stop_token& stop) const {
  constexpr std::chrono::minutes kLongest{10};
  return impl_->ask({.target = "/v1/snapshot?version=" MC2_VERSION, .body = {}}, {.deadline = kLongest, .stop = stop});
}

Result<ForwardedAnswer> Client::forward(const ForwardedRequest& request, const std::stop_token& stop) const {
  constexpr std::chrono::minutes kLongest{1};
  auto answer = impl_->transport->call({.method = request.method,
                                        .target = request.target,
                                        .body = request.body,
                                        .content_type = request.content_type,
                                        .headers = request.headers},
                                       kLongest, stop);
  if (!answer) return impl_->error(kUnavailable, said(answer.error().message));
  HttpAnswer& given = answer.value();
  return ForwardedAnswer{given.status, std::move(given.content_type), std::move(given.body), std::move(given.location)};
}

Result<std::string> Client::put_plan(const planner::Plan& plan, const std::string& purpose) const {
  const bool is_usual = purpose == store::PlanKey{}.purpose;
  return impl_->put(is_usual ? "/v1/plans" : "/v1/plans?purpose=" + escaped(purpose), store::encode(plan));
}

Result<std::string> Client::put_model(const planner::CostModel& model) const {
  return impl_->put("/v1/models", store::encode(model));
}

Result<bool> Client::add_measurement(const store::MeasurementRecord& record) const {
  const std::string document = store::encode(record);
  const auto known = impl_->document("/v1/measurements/", store::digest(document));
  if (known) return false;
  if (known.error().code != ErrorCode::NotFound) return known.error();
  MC2_TRY(impl_->put("/v1/measurements", document));
  return true;
}

Result<std::int64_t> Client::add_samples(const planner::Profile& profile) const {
  MC2_ASSIGN(const auto body, impl_->ask({.method = "POST", .target = "/v1/samples", .body = store::encode(profile)}));
  return impl_->member<std::int64_t>(body, "sample_count", &json::is_number_integer);
}

} // namespace mc2::client
