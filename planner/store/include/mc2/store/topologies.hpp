#pragma once

#include <span>
#include <string_view>

#include "mc2/planner/error.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// A published cluster that is part of the library.
struct BuiltInTopology {
  std::string_view name; ///< the name of its file in data/topologies/, e.g. "dgx_h100"
  std::string_view json;
};

/// All of them, sorted by name.
[[nodiscard]] std::span<const BuiltInTopology> built_in_topologies() noexcept;

/// Errors: UnknownName (topology), listing the names that exist.
[[nodiscard]] Result<planner::Topology> find_built_in_topology(std::string_view name);

/// The topology of a document, or of the published cluster that `document_or_name` names. A text that begins with a
/// letter or digit is a name.
/// Errors: as decode_topology and find_built_in_topology.
[[nodiscard]] Result<planner::Topology> topology_of(std::string_view document_or_name);

} // namespace mc2::store

#pragma GCC visibility pop
