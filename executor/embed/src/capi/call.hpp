#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "mc2.h"
#include "mc2/planner/error.hpp"

namespace mc2::capi {

/// Thrown to leave a call of the C interface; call() catches it, so that it never crosses the interface. "Leaves the
/// call with X" below means: throws CallFailed with status X.
struct CallFailed {
  mc2_status status;
  std::string field;
  std::string message;
};

[[noreturn]] inline void fail(mc2_status status, std::string field, std::string message) {
  throw CallFailed{status, std::move(field), std::move(message)};
}

/// The value of a result. Leaves the call with the result's error, if it has one.
template <typename T>
T take(Result<T> result) {
  if (!result) fail(static_cast<mc2_status>(result.error().code), result.error().field, result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

/// Stores what mc2_last_error() tells this thread; returns the status.
mc2_status report(mc2_status status, const std::string& field, const std::string& message) noexcept;
/// Stores MC2_ERROR_MEMORY without allocating.
mc2_status report_no_memory() noexcept;

/// Runs the body of a call; every exception becomes a status.
template <typename Body>
mc2_status call(const Body& body) noexcept {
  try {
    body();
    return MC2_OK;
  } catch (const CallFailed& failed) {
    return report(failed.status, failed.field, failed.message);
  } catch (const std::bad_alloc&) {
    return report_no_memory();
  } catch (const std::length_error&) {
    return report_no_memory();
  } catch (const std::exception& error) { // e.g. SystemError
    return report(MC2_ERROR_SYSTEM, {}, error.what());
  } catch (...) {
    return report(MC2_ERROR_SYSTEM, {}, "an exception of unknown type");
  }
}

/// The object at an address that the caller must give. Leaves the call with MC2_ERROR_INVALID_SPEC for NULL.
template <typename T>
T& given(T* address, std::string name) {
  if (address == nullptr) fail(MC2_ERROR_INVALID_SPEC, std::move(name), "is NULL");
  return *address;
}

} // namespace mc2::capi
