#include "routes/precondition.hpp"

#include "http/content_coding.hpp"
#include "http/header_list.hpp"
#include "mc2/server/service.hpp"

namespace mc2::server {

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
