#include "capi/call.hpp"

#include "capi/structs.hpp"

namespace mc2::capi {
namespace {

struct LastError {
  mc2_status status = MC2_OK;
  std::string field, message;
  bool is_out_of_memory = false; ///< the texts then count as not set
};

thread_local LastError last_error;

constexpr const char* kNoMemory = "not enough memory";

} // namespace

mc2_status report(mc2_status status, const std::string& field, const std::string& message) noexcept {
  try {
    last_error.field = field;
    last_error.message = message;
  } catch (...) {
    return report_no_memory();
  }
  last_error.status = status;
  last_error.is_out_of_memory = false;
  return status;
}

mc2_status report_no_memory() noexcept {
  last_error.status = MC2_ERROR_MEMORY;
  last_error.is_out_of_memory = true;
  return MC2_ERROR_MEMORY;
}

} // namespace mc2::capi

using namespace mc2::capi;

extern "C" {

const char* mc2_version(void) { return MC2_VERSION; }

const char* mc2_status_name(mc2_status status) {
  switch (status) {
    case MC2_OK: return "ok";
    case MC2_ERROR_SYSTEM: return "system";
    case MC2_ERROR_HANDLE: return "handle";
    case MC2_ERROR_STRUCT: return "struct";
    case MC2_ERROR_MEMORY: return "memory";
    case MC2_ERROR_BUSY: return "busy";
    case MC2_ERROR_FORK: return "fork";
    default: break;
  }
  if (status < MC2_ERROR_INVALID_SPEC || status > MC2_ERROR_UNREADABLE) return "unknown";
  return mc2::to_string(static_cast<mc2::ErrorCode>(status)).data(); // a literal, which ends with a 0 byte
}

mc2_status mc2_last_error(mc2_error* error) {
  mc2_error told{};
  told.code = last_error.status;
  told.name = mc2_status_name(told.code);
  told.field = last_error.is_out_of_memory ? "" : last_error.field.c_str();
  told.message = last_error.is_out_of_memory ? kNoMemory : last_error.message.c_str();
  // Not through call(), which would replace the last error by a failure of this call.
  try {
    write_struct(error, told, "error");
    return MC2_OK;
  } catch (const CallFailed& failed) {
    return failed.status;
  } catch (...) {
    return MC2_ERROR_MEMORY;
  }
}

} // extern "C"
