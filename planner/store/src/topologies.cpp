#include "mc2/store/topologies.hpp"

#include <algorithm>
#include <cctype>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/text.hpp"

namespace mc2::store {

Result<planner::Topology> find_built_in_topology(std::string_view name) {
  const auto found = std::ranges::find(built_in_topologies(), name, &BuiltInTopology::name);
  if (found != built_in_topologies().end()) return decode_topology(found->json);
  return Error{
      ErrorCode::UnknownName, "topology",
      "unknown topology " + in_quotes(name) + "; legal: " + list_text(built_in_topologies(), &BuiltInTopology::name)};
}

Result<planner::Topology> topology_of(std::string_view document_or_name) {
  const auto first = document_or_name.find_first_not_of(" \t\r\n");
  const bool is_name =
      first != std::string_view::npos && std::isalnum(static_cast<unsigned char>(document_or_name[first]));
  return is_name ? find_built_in_topology(document_or_name) : decode_topology(document_or_name);
}

} // namespace mc2::store
