#pragma once

#include <span>
#include <string>

#include "mc2/planner/error.hpp"

/// What ranks conclude from the same texts, given by rank, however those have travelled: by ProcessGroup's memory or by
/// MPI's messages.
namespace mc2::executor {

/// An error as a rank tells it the others; empty where there is none.
[[nodiscard]] std::string error_text(const Result<void>& own);

/// The first error by rank, with the rank's number in front, of the texts that error_text() made of every rank's; the
/// own as it is where all are refused alike.
[[nodiscard]] Result<void> first_error(const Result<void>& own, std::span<const std::string> texts);

/// Whether all ranks call the same. Errors: Mismatch, naming the first rank that calls something else than rank 0, and
/// both texts.
[[nodiscard]] Result<void> check_same_call(std::span<const std::string> texts);

} // namespace mc2::executor
