#include "mc2/store/topologies.hpp"

#include <cctype>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::store {

Result<planner::Topology> find_built_in_topology(std::string_view name) {
  MC2_ASSIGN(const auto* const found,
             find_named(built_in_topologies(), name, &BuiltInTopology::name, "topology", "topology"));
  return decode_topology(found->json);
}

Result<planner::Topology> topology_of(std::string_view document_or_name) {
  const std::string_view text = trimmed(document_or_name);
  const bool is_name = !text.empty() && std::isalnum(static_cast<unsigned char>(text.front())) != 0;
  return is_name ? find_built_in_topology(text) : decode_topology(document_or_name);
}

} // namespace mc2::store
