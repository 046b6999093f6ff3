#include <chrono>

#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"

namespace mc2::capi {
namespace {

constexpr std::uint32_t kKnownFlags = MC2_CONTEXT_NO_ENVIRONMENT | MC2_CONTEXT_DISABLED | MC2_CONTEXT_NO_TRANSFER;
/// The most files or models of a context: a larger number is taken for a mistake of the caller.
constexpr std::size_t kMaxListed = 65'536;

void take_service(const mc2_context_options& from, const embed::Environment& environment,
                  embed::FinderOptions& options) {
  if (from.server_url != nullptr) {
    embed::Environment elsewhere = environment; // the token and the certificates stay the environment's
    elsewhere.server_url = from.server_url;
    options.service = embed::finder_options(elsewhere).service;
  }
  if (options.service) {
    if (from.server_token != nullptr) options.service->token = from.server_token;
    if (from.server_ca != nullptr) options.service->ca_file = from.server_ca;
    const bool reads_environment = (from.flags & MC2_CONTEXT_NO_ENVIRONMENT) == 0;
    options.service->names.token =
        reads_environment ? "options.server_token or MC2_SERVER_TOKEN" : "options.server_token";
    options.service->names.ca_file = reads_environment ? "options.server_ca or MC2_SERVER_CA" : "options.server_ca";
  }
  options.waiting.patience_name = "server_wait_ms";
  if (from.server_wait_ms != 0) options.waiting.patience = std::chrono::milliseconds(from.server_wait_ms);
}

std::string indexed(const char* name, std::size_t i) { return std::string(name) + "[" + std::to_string(i) + "]"; }

void check_count(std::size_t count, const char* name) {
  if (count > kMaxListed)
    fail(MC2_ERROR_INVALID_SPEC, name, "is " + std::to_string(count) + "; at most " + std::to_string(kMaxListed));
}

void take_lists(const mc2_context_options& from, embed::FinderOptions& options) {
  check_count(from.plan_file_count, "options.plan_file_count");
  check_count(from.model_count, "options.model_count");
  for (std::size_t i = 0; i < from.plan_file_count; ++i)
    options.plan_files.emplace_back(
        &given((&given(from.plan_files, "options.plan_files"))[i], indexed("options.plan_files", i)));
  for (std::size_t i = 0; i < from.model_count; ++i) {
    const mc2_model* const model = (&given(from.models, "options.models"))[i];
    given(model, indexed("options.models", i));
    options.models.push_back(Pinned<ModelObject>(model)->value);
  }
}

embed::LogSink sink_of(mc2_log_function log, void* user) {
  return [log, user](embed::LogLevel level, const std::string& line) {
    log(user, static_cast<std::int32_t>(level), line.c_str());
  };
}

embed::FinderOptions read_context_options(const mc2_context_options* address) {
  const auto from = read_optional_struct(address, "options");
  if ((from.flags & ~kKnownFlags) != 0)
    fail(MC2_ERROR_STRUCT, "options.flags",
         "has bits that this library, mc2 " + std::string(mc2_version()) + ", does not know");
  embed::Environment environment;
  if ((from.flags & MC2_CONTEXT_NO_ENVIRONMENT) == 0) environment = take(embed::read_environment());
  auto options = embed::finder_options(environment);
  if (from.store != nullptr) options.store = from.store;
  if (options.store.empty()) options.read_only_stores.clear(); // no store means none of the system's either
  take_service(from, environment, options);
  take_lists(from, options);
  if (from.refresh_ms != 0) options.refresh = std::chrono::milliseconds(from.refresh_ms);
  if ((from.flags & MC2_CONTEXT_DISABLED) != 0) options.is_disabled = true;
  if ((from.flags & MC2_CONTEXT_NO_TRANSFER) != 0) options.may_transfer = false;
  if (from.log != nullptr) options.log = sink_of(from.log, from.log_user);
  return options;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

mc2_status mc2_context_create(const mc2_context_options* options, mc2_context** context) {
  return call_for<ContextObject>(context, "context",
                                 [&] { return take(embed::PlanFinder::open(read_context_options(options))); });
}

mc2_status mc2_find_plan(const mc2_context* context, const mc2_op_spec* op, const mc2_machine* machine,
                         mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<ContextObject> in(context);
    check_process(in->process, "context");
    const Pinned<MachineObject> on(machine);
    return take(in->finder.find(read_op(op), on->value));
  });
}

mc2_status mc2_find_plan_ranges(const mc2_context* context, const mc2_op_spec* op, int64_t first_m,
                                const mc2_machine* machine, mc2_plan_ranges** ranges) {
  return call_for<PlanRangesObject>(ranges, "ranges", [&] {
    const Pinned<ContextObject> in(context);
    check_process(in->process, "context");
    const Pinned<MachineObject> on(machine);
    return take(in->finder.find_ranges({.op = read_op(op), .machine = on->value}, first_m));
  });
}

mc2_status mc2_free_context(mc2_context* context) { return free_handle<ContextObject>(context); }

} // extern "C"
