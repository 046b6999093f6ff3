#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mc2/executor/backend.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor {

// Checks that every backend's prepare() makes. They compare addresses and never read the memory, which may be a
// device's.

/// Errors: InvalidSpec when the operator's ranks are not the communicator's.
[[nodiscard]] Result<void> check_world(const StageList& list, int world_size);

/// For backends that cannot spread a world over processes and use no collective library of the caller's. Errors:
/// Unsupported if the options have a ProcessPlace or native communicators.
[[nodiscard]] Result<void> check_holds_all_ranks(const CommunicatorOptions& options, std::string_view backend);

/// A text of the plan that a rank prepares. Processes compare their texts, which must be equal, and show them in
/// errors.
[[nodiscard]] std::string call_text(const StageList& list, const planner::Variant& variant,
                                    const PrepareOptions& options);

/// Whether two pieces of memory share a byte.
[[nodiscard]] bool overlap(std::span<const std::byte> left, std::span<const std::byte> right);

/// Checks the buffers of all ranks; `op` must be legal. Errors: InvalidSpec naming rank and buffer, for a wrong number
/// of buffers, a size other than rank_shapes() gives, a wrong alignment, an output that overlaps another buffer,
/// illegal counts, and counts on which two ranks disagree.
[[nodiscard]] Result<void> check_buffers(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// As above for the ranks that this process holds, with one set of buffers for each of `ranks`. Does not check that
/// counts agree.
[[nodiscard]] Result<void> check_buffers(const planner::OpSpec& op, std::span<const int> ranks,
                                         std::span<const RankBuffers> buffers);

} // namespace mc2::executor
