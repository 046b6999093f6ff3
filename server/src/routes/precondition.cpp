#include "routes/precondition.hpp"

#include <utility>

#include "http/content_coding.hpp"
#include "http/header_list.hpp"
#include "mc2/server/service.hpp"

namespace mc2::server {
namespace {

constexpr std::size_t kShownHeader = 80; ///< bytes of a header that messages show: a digest and its quotes

} // namespace

Result<void> Precondition::validate() const {
  for (const auto& [name, value] :
       {std::pair("If-Match", &request_.if_match), std::pair("If-None-Match", &request_.if_none_match)})
    if (!is_tag_list(*value))
      return Error{ErrorCode::Malformed, name,
                   "is " + value->substr(0, kShownHeader) +
                       "; must be * or tags in double quotes, as ETag has them: " + name + ": \"DIGEST\""};
  return {};
}

bool Precondition::allows(const std::optional<std::string>& kept_digest) {
  const std::string tag = kept_digest ? "\"" + *kept_digest + "\"" : "";
  const std::string& wanted = request_.if_match;
  const bool is_named = kept_digest && (names_tag(wanted, tag, Tags::Strong) || // or the form in gzip
                                        names_tag(wanted, gzip_tag(tag), Tags::Strong));
  if (!wanted.empty() && !is_named)
    objection_ = kept_digest ? "If-Match names another document than the kept one, " + tag + "; read that first"
                             : "If-Match names a document, but none is kept";
  else if (kept_digest && !request_.if_none_match.empty() && names_tag(request_.if_none_match, tag, Tags::Weak))
    objection_ = "If-None-Match rules out " + tag + ", which is kept";
  return objection_.empty();
}

std::optional<Response> Precondition::refusal() const {
  if (objection_.empty()) return std::nullopt;
  return problem(412, objection_, request_.id);
}

} // namespace mc2::server
