#include "mc2/server/service.hpp"

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "change_signal.hpp"
#include "context.hpp"
#include "copy_name.hpp"
#include "deadline.hpp"
#include "error_map.hpp"
#include "first_clients.hpp"
#include "follower.hpp"
#include "gatekeeper.hpp"
#include "history_keeper.hpp"
#include "http/content_coding.hpp"
#include "http/header_list.hpp"
#include "http/media.hpp"
#include "model_check.hpp"
#include "retention_keeper.hpp"
#include "router.hpp"
#include "token_in_target.hpp"

namespace mc2::server {

namespace {

constexpr std::size_t kShownHost = 64;        ///< characters, in messages
constexpr std::string_view kNoRoute = "none"; ///< for counting

bool is_reading(std::string_view method) { return method == "GET" || method == "HEAD"; }

} // namespace

struct Service::Impl {
  Config config;
  std::unique_ptr<Gatekeeper> keeper;
  ChangeSignal changes;
  std::unique_ptr<StoreGate> store; ///< calls `keeper` and `changes`, which must therefore outlive it
  AnswerCache answers;
  QuestionCache questions;
  Compressor compressor;
  Metrics metrics;
  DriftWatch drift;
  PredictionGauges predictions;
  DamageWatch damage;
  std::atomic<bool> is_draining{false};
  Context context;
  std::unique_ptr<Follower> follower; ///< null: this service is no replica
  RetentionKeeper retention;          ///< this and `history` come last, because they use the members above
  HistoryKeeper history;

  Impl(const Config& given, std::unique_ptr<Gatekeeper> gatekeeper, ChangeSignal signal,
       std::unique_ptr<StoreGate> gate, Surroundings surroundings)
      : config(given),
        keeper(std::move(gatekeeper)),
        changes(std::move(signal)),
        store(std::move(gate)),
        answers(config.cached_answer_count, config.cached_answer_bytes / 2),
        questions(config.cached_answer_bytes / 4),
        compressor(config.cached_answer_bytes / 4),
        damage(metrics, surroundings),
        context{config,
                *store,
                changes,
                answers,
                questions,
                metrics,
                is_draining,
                drift,
                predictions,
                damage,
                std::move(surroundings)},
        retention(config.retention, *store, context.surroundings),
        history(config.history_interval, *store, metrics, drift, damage, context.surroundings) {
    for (const Route& route : routes()) metrics.expect_failures(route.method, route.pattern);
  }

  [[nodiscard]] Admission admit(const RequestHead& head);
  /// Tells the operator the text of an exception, which no answer holds because it may name files.
  void tell(std::string_view request_id, const std::exception& fault) const noexcept;
  /// Makes the answer. Throws what the store throws.
  [[nodiscard]] Response answer(const Request& request, std::string_view& route_pattern);
  [[nodiscard]] Result<Response> answer_by(const Route& route, const Request& request, const Match& match,
                                           const Query& query);
  /// Answers a request that would change the leader's documents: forwards it, or refuses with 405.
  [[nodiscard]] Response write_at_replica(const Request& request) const;
  /// Fits an answer to the client: old versions, compression, 304.
  void finish(const Request& request, Response& response);
};

Response json_response(std::string body, int status) {
  return {.status = status, .body = std::make_shared<const std::string>(std::move(body))};
}

Response json_response(const nlohmann::json& document, int status) {
  return json_response(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), status);
}

Response kept_response(const std::string& folder, const std::string& digest) {
  Response response = json_response(R"({"digest":")" + digest + "\"}", 201);
  response.headers.emplace_back("Location", folder + digest);
  return response;
}

namespace {

/// Makes the store one of its own if it was a replica. Errors: as store::Store::stop_following.
Result<void> stop_following(StoreGate& gate, const Surroundings& surroundings) {
  MC2_ASSIGN(const auto leader, gate.read([](const store::Store& store) { return store.leader(); }));
  if (leader.empty()) return {};
  surroundings.tell("the store is no replica of " + leader + " any more, but one of its own");
  return gate.write([](store::Store& store) { return store.stop_following(); });
}

} // namespace

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::open(const Config& config, Surroundings surroundings) {
  MC2_TRY(config.validate());
  if (config.is_replica()) MC2_TRY(Follower::prepare(config, surroundings));
  auto keeper = std::make_unique<Gatekeeper>(config);
  const auto read_tokens = [raw = keeper.get()](const store::Store& store) -> Result<void> {
    MC2_ASSIGN(const auto tokens, store.list_tokens());
    raw->set_tokens(tokens);
    return {};
  };
  const auto tell_state = [surroundings](const std::string& advice) {
    surroundings.tell(advice.empty() ? "the store is well again" : advice);
  };
  const ChangeSignal changes;
  MC2_ASSIGN(auto gate, StoreGate::open(config.store, config.limits.least_free_bytes, read_tokens, tell_state,
                                        [changes] { changes.fire(); }));
  if (!config.is_replica()) MC2_TRY(stop_following(*gate, surroundings));
  std::unique_ptr<Service> service(new Service(
      std::make_unique<Impl>(config, std::move(keeper), changes, std::move(gate), std::move(surroundings))));
  remove_old_backups(config.store.parent_path());
  Impl& impl = *service->impl_;
  if (config.is_replica()) {
    MC2_ASSIGN(impl.follower, Follower::open(impl.config, *impl.store, impl.answers, impl.context.surroundings));
    impl.context.follower = impl.follower.get();
  }
  if (const auto found = find_drifted_models(*impl.store, impl.drift); !found)
    impl.context.surroundings.tell("which kept models drift is not known: " + found.error().text());
  return service;
}

std::string Service::loggable(std::string_view target) { return without_tokens(target); }

bool Service::has_tokens() const noexcept { return impl_->keeper->has_tokens(); }

void Service::reload(const Config& config) { impl_->keeper->set_rules(config); }

void Service::count_connection(bool is_opened) noexcept {
  is_opened ? impl_->metrics.connection_opened() : impl_->metrics.connection_closed();
}

void Service::count_refused_connection(std::string_view reason) noexcept { impl_->metrics.connection_refused(reason); }

bool Service::has_news(std::int64_t revision) const noexcept {
  return impl_->is_draining || impl_->store->revision() != revision;
}

std::shared_ptr<void> Service::subscribe(std::function<void()> wake, int most) {
  return impl_->changes.subscribe(std::move(wake), static_cast<std::size_t>(most));
}

bool Service::forwards_writes() const noexcept { return impl_->config.leader.is_sent_documents; }

void Service::start_draining() noexcept {
  impl_->is_draining = true;
  if (impl_->follower) impl_->follower->stop();
  impl_->changes.fire();
}

Response Service::Impl::write_at_replica(const Request& request) const {
  if (config.leader.is_sent_documents) return follower->send_on(request);
  const bool can_be_read = route_of("GET", request.target).route != nullptr;
  return problem(405,
                 "this is a replica, whose documents change where its leader's do: send them to " + config.leader.url +
                     ", or start it with --forward-writes",
                 request.id, {{"Allow", can_be_read ? "GET, HEAD" : ""}});
}

Result<Response> Service::Impl::answer_by(const Route& route, const Request& request, const Match& match,
                                          const Query& query) {
  if (follower && route.needs.work == Work::Write && !route.needs.own) return write_at_replica(request);
  if (route.needs.work != Work::Plan) return route.answer(context, {request, query, match.id});
  MC2_ASSIGN(auto deadline, Deadline::read(query, request, is_draining));
  auto answered = route.answer(context, {request, query, match.id, [&deadline] { return deadline.is_over(); }});
  if (!answered && answered.error().code == ErrorCode::Cancelled && deadline.is_over()) return deadline.error();
  return answered;
}

Response Service::Impl::answer(const Request& request, std::string_view& route_pattern) {
  const auto target = parse_target(request.target);
  if (!target) return problem_of(target.error(), request.id);
  const Match match = request.match ? *request.match : find_route(request.method, target.value().path);
  if (match.route == nullptr && match.allowed.empty())
    return problem(404, "there is no such resource; GET /openapi.yaml lists them", request.id);
  if (match.route == nullptr)
    return problem(405, "this resource has the methods " + match.allowed, request.id, {{"Allow", match.allowed}});
  route_pattern = match.route->pattern;
  if (request.granted < match.route->access) // only where admit() was not called
    return problem(403, "this needs a token, or a token of a higher role", request.id);
  auto answered = answer_by(*match.route, request, match, target.value().query);
  if (answered) return std::move(answered).value();
  Error fault = answered.error();
  if (!match.id.empty() && fault.field == "digest") fault.field = "id"; // as the description names it
  return problem_of(fault, request.id);
}

void Service::Impl::tell(std::string_view request_id, const std::exception& fault) const noexcept {
  try {
    context.surroundings.tell("request " + std::string(request_id) + " failed: " + fault.what());
  } catch (const std::exception&) { // no memory for the message
  }
}

namespace {

bool takes_json(const Match& match) noexcept {
  return match.route != nullptr && match.route->method == "POST" && !match.needs.log;
}

/// Refuses a request whose client has the rights, because of the site that sent it or the form of its body.
std::optional<Response> refuse_form(const RequestHead& head, const Match& match, Access needed) {
  if ((!is_reading(head.method) || needed == Access::Admin) &&
      (is_of_another_site(head.origin, head.host) || head.fetch_site == "cross-site"))
    return problem(403, "pages of other sites may not send this; ask from a program, or from this service's own page",
                   head.id);
  if (!head.content_encoding.empty() && head.content_encoding != "identity")
    return problem(415, "bodies are taken as they are, without Content-Encoding", head.id,
                   {{"Accept-Encoding", "identity"}}); // RFC 9110 §12.5.3
  if (takes_json(match) && !may_be_json(head.content_type))
    return problem(415, "takes JSON: send it with Content-Type: application/json, or with none", head.id,
                   {{"Accept", "application/json"}}); // RFC 9110 §12.5.1
  return std::nullopt;
}

} // namespace

Admission Service::Impl::admit(const RequestHead& head) {
  Match match = route_of(head.method, head.target);
  // A path without a route takes rights, too: clients without rights do not learn which paths exist.
  const Access needed = match.route != nullptr ? match.route->access : Access::Read;
  const Bearer bearer = keeper->identify(head.authorization, context.surroundings.utc_now);
  Admission admission{.granted = bearer.granted, .token_id = bearer.token_id, .match = std::move(match)};
  if (has_token(head.target))
    admission.refusal = problem(400,
                                "has a token in its target, where logs would keep it: send it as header Authorization: "
                                "Bearer TOKEN, and revoke this one",
                                head.id);
  else if (follower && follower->has_sent(head.via))
    admission.refusal = problem(
        503, "has come round: replicas forwarded the request in a circle, because they follow one another", head.id);
  else if (bearer.granted < needed)
    admission.refusal =
        keeper->refuse(bearer, needed, std::string(head.client), std::chrono::steady_clock::now(), head.id);
  else if (needed != Access::Open && bearer.token_id.empty() &&
           !may_be_asked_as(head.host, head.client, config.address))
    admission.refusal = problem(403,
                                "without a token, address this service as localhost or by its IP address, not as " +
                                    std::string(head.host.substr(0, kShownHost)),
                                head.id);
  else
    admission.refusal = refuse_form(head, admission.match, needed);
  return admission;
}

Admission Service::admit(const RequestHead& head) noexcept {
  try {
    return impl_->admit(head);
  } catch (const std::exception& fault) {
    impl_->tell(head.id, fault);
    return {.refusal = problem(503, "out of memory; ask for less at a time", head.id)};
  }
}

void Service::count_elsewhere(std::string_view method, std::string_view target, int status) {
  const Match match = route_of(method, target);
  impl_->metrics.count_request(method, match.route != nullptr ? match.route->pattern : kNoRoute, status, std::nullopt);
}

namespace {

/// Turns an answer whose tag If-None-Match names into 304, or 412 for methods other than GET and HEAD (RFC 9110
/// §13.2.2).
void become_not_modified(const Request& request, Response& response) {
  if (!is_reading(request.method)) {
    response = problem(412, "the answer is the one that If-None-Match names", request.id);
    return;
  }
  response.status = 304;
  response.body = nullptr;
  std::erase_if(response.headers, [](const Header& header) { return header.first == "Content-Encoding"; });
}

} // namespace

void Service::Impl::finish(const Request& request, Response& response) {
  if (follower) response.headers.emplace_back("Mc2-Replica", follower->state_text());
  if (is_first_client(request)) response = as_first_clients_read(std::move(response));
  if (response.status == 200 && !response.watch) compressor.encode(response, request.accept_encoding);
  if (response.status == 200 && !response.etag.empty() && names_tag(request.if_none_match, response.etag, Tags::Weak))
    become_not_modified(request, response);
}

std::optional<Response> Service::known(const Request& request) noexcept {
  const auto start = std::chrono::steady_clock::now();
  try {
    const Route* const route = request.match ? request.match->route : nullptr;
    if (route == nullptr || route->known == nullptr || request.granted < route->access) return std::nullopt;
    auto response = route->known(impl_->context, request);
    if (!response) return response;
    impl_->finish(request, *response);
    impl_->metrics.count_request(request.method, route->pattern, response->status,
                                 std::chrono::steady_clock::now() - start);
    return response;
  } catch (const std::exception&) { // out of memory: answer() makes the refusal
    return std::nullopt;
  }
}

Response Service::answer(const Request& request) noexcept {
  const auto start = std::chrono::steady_clock::now();
  std::string_view route = kNoRoute;
  Response response;
  try {
    response = impl_->answer(request, route);
    impl_->finish(request, response);
  } catch (const SystemError& fault) {
    impl_->tell(request.id, fault);
    response = problem(503, "the store could not be read or written; the log says why", request.id);
  } catch (const std::bad_alloc& fault) {
    impl_->tell(request.id, fault);
    response = problem(503, "out of memory; ask for less at a time", request.id);
  } catch (const std::exception& fault) {
    impl_->tell(request.id, fault);
    response = problem(500, "an internal error; the log says what", request.id);
  }
  const bool waits = response.watch || request.told; // count_elsewhere() counts these once, when the wait ends
  if (!waits)
    impl_->metrics.count_request(request.method, route, response.status, std::chrono::steady_clock::now() - start);
  return response;
}

} // namespace mc2::server
