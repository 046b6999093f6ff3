#pragma once

#include <span>
#include <string>

#include "mc2/planner/error.hpp"

/// Conclusions that every rank draws from the same texts of all ranks. The texts may have been exchanged by a
/// ProcessGroup or by MPI.
namespace mc2::executor {

/// The text by which a rank tells others its error; empty for success.
[[nodiscard]] std::string error_text(const Result<void>& own);

/// The error of the first rank that has one, with the rank's number in front. If all ranks have the same error, it is
/// returned without a number.
/// @param texts  error_text() of every rank, by rank
[[nodiscard]] Result<void> first_error(const Result<void>& own, std::span<const std::string> texts);

/// Checks that all ranks make the same call. Errors: Mismatch, naming the first rank whose text is not rank 0's, and
/// both texts.
[[nodiscard]] Result<void> check_same_call(std::span<const std::string> texts);

/// Checks that all ranks are on the same machine. Errors: Unsupported, naming the first rank whose machine is not rank
/// 0's, and what differs.
/// @param texts  Fingerprint::canonical_text() of every rank, by rank
/// @param names  what to call each rank, by rank
[[nodiscard]] Result<void> check_same_machine(std::span<const std::string> texts, std::span<const std::string> names);

} // namespace mc2::executor
