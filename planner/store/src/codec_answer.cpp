#include "mc2/store/answer.hpp"

#include "codec_parts.hpp"

namespace mc2::store {
namespace {

/// A required value of an object whose other keys are ignored.
Node required(const Node& object, std::string_view key) {
  static const Json kNull;
  const auto found = object.json().find(key);
  if (found != object.json().end()) return object.member(key, *found);
  object.fail(ErrorCode::Malformed, "key '" + std::string(key) + "' is missing");
  return object.member(key, kNull);
}

Staleness staleness(const Node& node) {
  return {required(node, "loss").number(), required(node, "best_blocks").text(), required(node, "best_variant").text(),
          required(node, "why").text()};
}

} // namespace

std::string encode(const Staleness& stale) {
  return dump({{"loss", stale.loss},
               {"best_blocks", stale.best_blocks},
               {"best_variant", stale.best_variant},
               {"why", stale.why}});
}

Result<PlanAnswer> decode_answer(std::string_view json) {
  MC2_ASSIGN(const auto parsed, parse_json(json));
  ReadStatus status;
  const Node node(parsed, status);
  check_schema(node, "answer");
  if (status.error) return *status.error;
  PlanAnswer answer{.plan = read_document<planner::Plan>(required(node, "plan")),
                    .document = {},
                    .digest = required(node, "digest").text(),
                    .epoch = required(node, "epoch").integer(0),
                    .source = required(node, "source").text(),
                    .provenance = required(node, "provenance").text(),
                    .created_at = {}};
  if (const auto created = node.json().find("created_at"); created != node.json().end() && !created->is_null())
    answer.created_at = node.member("created_at", *created).text();
  if (const auto stale = node.json().find("stale"); stale != node.json().end() && !stale->is_null())
    answer.staleness = staleness(node.member("stale", *stale));
  if (status.error) return *status.error;
  answer.document = dump(node.json().at("plan"));
  if (const std::string found = digest(answer.document); found != answer.digest)
    return Error{ErrorCode::Mismatch, "digest",
                 "the answer names plan " + answer.digest.substr(0, 64) + " and holds plan " + found};
  return answer;
}

} // namespace mc2::store
