#include "error_map.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "mc2/server/service.hpp"

namespace mc2::server {
namespace {

struct Status {
  int number;
  std::string_view code; ///< for problems that are no Error; an Error has its own code
  std::string_view phrase;
};

constexpr std::array kStatuses{Status{400, "bad_request", "Bad Request"},
                               Status{401, "unauthorized", "Unauthorized"},
                               Status{403, "forbidden", "Forbidden"},
                               Status{404, "not_found", "Not Found"},
                               Status{405, "method_not_allowed", "Method Not Allowed"},
                               Status{406, "not_acceptable", "Not Acceptable"},
                               Status{409, "conflict", "Conflict"},
                               Status{412, "precondition_failed", "Precondition Failed"},
                               Status{413, "too_large", "Content Too Large"},
                               Status{415, "unsupported_media_type", "Unsupported Media Type"},
                               Status{422, "unprocessable", "Unprocessable Content"},
                               Status{429, "too_many_requests", "Too Many Requests"},
                               Status{431, "headers_too_large", "Request Header Fields Too Large"},
                               Status{501, "not_implemented", "Not Implemented"},
                               Status{503, "unavailable", "Service Unavailable"},
                               Status{500, "internal", "Internal Server Error"}};

/// The last status (500) for a number that is not in the table.
const Status& status_of(int number) noexcept {
  const auto* const found = std::ranges::find(kStatuses, number, &Status::number);
  return found == kStatuses.end() ? kStatuses.back() : *found;
}

struct Problem {
  int status = 500;
  std::string_view code;  ///< stable, for programs
  std::string_view field; ///< may be empty
  std::string_view detail;
  std::string_view request_id;
  const ProblemMember* more = nullptr;
};

Response to_response(const Problem& problem) {
  nlohmann::json document{{"type", "about:blank"},    {"title", status_of(problem.status).phrase},
                          {"status", problem.status}, {"detail", problem.detail},
                          {"code", problem.code},     {"request_id", problem.request_id}};
  if (!problem.field.empty()) document["field"] = problem.field;
  if (problem.more != nullptr) document[problem.more->name] = nlohmann::json::parse(problem.more->json);
  // Texts from a client may not be UTF-8.
  auto text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {.status = problem.status,
          .content_type = "application/problem+json",
          .body = std::make_shared<const std::string>(std::move(text))};
}

} // namespace

std::string_view phrase_of(int status) noexcept {
  const auto* const found = std::ranges::find(kStatuses, status, &Status::number);
  return found == kStatuses.end() ? std::string_view() : found->phrase;
}

int to_http_status(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::InvalidSpec:
    case ErrorCode::UnknownName:
    case ErrorCode::Malformed:
    case ErrorCode::NewerVersion: return 400;
    case ErrorCode::NotFound: return 404;
    case ErrorCode::Stale:
    case ErrorCode::Mismatch: return 409;
    case ErrorCode::Infeasible:
    case ErrorCode::OutOfRange:
    case ErrorCode::CannotFit:
    case ErrorCode::Unsupported: return 422;
    case ErrorCode::ReadOnly:
    case ErrorCode::Unreadable:
    case ErrorCode::Cancelled: return 503;
    case ErrorCode::Corrupt: return 500;
  }
  return 500;
}

Response problem(int status, std::string_view detail, std::string_view request_id, std::vector<Header> headers) {
  Response response = to_response({status, status_of(status).code, {}, detail, request_id});
  response.headers = std::move(headers);
  return response;
}

namespace {

Problem problem_from(const Error& error, std::string_view request_id) {
  const bool is_file = error.field.find('/') != std::string::npos;
  return {to_http_status(error.code), to_string(error.code),
          is_file ? std::string_view() : std::string_view(error.field), error.message, request_id};
}

} // namespace

Response problem_of(const Error& error, std::string_view request_id) {
  return to_response(problem_from(error, request_id));
}

Response problem_of(const Error& error, std::string_view request_id, const ProblemMember& more) {
  Problem problem = problem_from(error, request_id);
  problem.more = &more;
  return to_response(problem);
}

} // namespace mc2::server
