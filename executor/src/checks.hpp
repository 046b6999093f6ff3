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

/// What every backend's prepare() checks, whatever its ranks' memory is: addresses are compared, never read.

/// Errors: InvalidSpec when the operator's ranks are not the communicator's.
[[nodiscard]] Result<void> check_world(const StageList& list, int world_size);

/// For backends that do not spread a world over processes of a launcher. Errors: Unsupported.
[[nodiscard]] Result<void> check_holds_all_ranks(const CommunicatorOptions& options, std::string_view backend);

/// For backends that take B as [k, n] only. Errors: Unsupported naming the rank.
[[nodiscard]] Result<void> check_host_forms(std::span<const int> ranks, std::span<const RankBuffers> buffers,
                                            std::string_view backend);

/// What a rank prepares, as every rank must: for processes to compare and to show.
[[nodiscard]] std::string call_text(const StageList& list, const planner::Variant& variant,
                                    const PrepareOptions& options);

/// Errors: InvalidSpec naming rank and buffer: count, size by operand_shapes() or by the rank's own counts, alignment
/// to an element, a C that overlaps another buffer; counts that are illegal or that two ranks do not agree on. `op` is
/// legal.
[[nodiscard]] Result<void> check_buffers(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// The same for the ranks that this process holds: one set of buffers for each of `ranks`.
[[nodiscard]] Result<void> check_buffers(const planner::OpSpec& op, std::span<const int> ranks,
                                         std::span<const RankBuffers> buffers);

} // namespace mc2::executor
