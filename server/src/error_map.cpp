#include "error_map.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "mc2/server/service.hpp"

namespace mc2::server {
namespace {

struct Problem {
  int status = 500;
  std::string_view code;  ///< stable, for programs
  std::string_view field; ///< may be empty
  std::string_view detail;
  std::string_view request_id;
  const ProblemMember* more = nullptr;
};

Response to_response(const Problem& problem) {
  nlohmann::json document{{"type", "about:blank"},    {"title", reason_phrase(problem.status)},
                          {"status", problem.status}, {"detail", problem.detail},
                          {"code", problem.code},     {"request_id", problem.request_id}};
  if (!problem.field.empty()) document["field"] = problem.field;
  if (problem.more != nullptr) document[problem.more->name] = nlohmann::json::parse(problem.more->json);
  // What a client sent may not be UTF-8.
  auto text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return {.status = problem.status,
          .content_type = "application/problem+json",
          .body = std::make_shared<const std::string>(std::move(text)),
          .etag = {}};
}

std::string_view code_of(int status) {
  switch (status) {
    case 400: return "bad_request";
    case 401: return "unauthorized";
    case 403: return "forbidden";
    case 404: return "not_found";
    case 405: return "method_not_allowed";
    case 406: return "not_acceptable";
    case 408: return "timeout";
    case 411: return "length_required";
    case 412: return "precondition_failed";
    case 413: return "too_large";
    case 415: return "unsupported_media_type";
    case 429: return "too_many_requests";
    case 431: return "headers_too_large";
    case 501: return "not_implemented";
    case 503: return "unavailable";
    default: return "internal";
  }
}

} // namespace

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

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

Response problem(int status, std::string_view detail, std::string_view request_id, std::vector<Header> headers) {
  Response response = to_response({status, code_of(status), {}, detail, request_id});
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
