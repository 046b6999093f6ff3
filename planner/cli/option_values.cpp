#include "option_values.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "commands/commands.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/importer.hpp"
#include "mc2/store/llm_config.hpp"
#include "mc2/store/llm_settings.hpp"
#include "mc2/store/token.hpp"
#include "mc2/store/topologies.hpp"

namespace mc2::cli {
namespace {

using Names = std::vector<std::string>;

/// The names of items.
/// @param name_of  a function or a member
template <typename Items, typename NameOf>
Names names(const Items& items, NameOf name_of) {
  Names result;
  for (const auto& item : items) result.emplace_back(std::invoke(name_of, item));
  return result;
}

template <typename... Values>
Names names_of_all(Values... values) {
  return {std::string(to_string(values))...};
}

Names kinds() { return names(planner::op_registry(), &planner::OpTraits::name); }
Names dtypes() {
  return names(planner::kDTypes, [](planner::DType dtype) { return to_string(dtype); });
}
Names collectives() {
  using enum planner::Collective;
  return names_of_all(AllReduce, ReduceScatter, AllGather, AllToAll);
}
Names llms() { return names(store::built_in_llms(), &store::BuiltInLlm::name); }
Names topologies() { return names(store::built_in_topologies(), &store::BuiltInTopology::name); }

/// The words of an option, for one command or for all commands that have it.
struct OptionValues {
  std::string_view command;
  std::string_view name; ///< "--op", or the name of a positional argument
  Names (*list)();
};

constexpr std::string_view kAnyCommand = {};

constexpr auto kValues = std::to_array<OptionValues>({
    {kAnyCommand, "--op", kinds},
    {kAnyCommand, "--kinds", kinds},
    {kAnyCommand, "--dtype", dtypes},
    {kAnyCommand, "--collective", collectives},
    {kAnyCommand, "--topology", topologies},
    {"topology", "FILE", topologies},
    {"model", "MODEL", llms},
    {"sweep", "--models", llms}, // not for all: mc2 db prune --models takes an age
    {"export", "--format", export_formats},
    {"import", "--format", [] { return names(profiler::importer_registry(), &profiler::Importer::name); }},
    {kAnyCommand, "--settings", [] { return names(store::llm_settings(), &store::LlmSettings::name); }},
    {kAnyCommand, "--device", [] { return names(planner::published_devices(), &planner::PublishedDevice::name); }},
    {kAnyCommand, "--backend", [] { return names(executor::backend_registry(), &executor::Backend::name); }},
    {kAnyCommand, "--strategy", [] { return names(planner::strategy_names(), std::identity()); }},
    {kAnyCommand, "--pooling", [] { return names_of_all(planner::Pooling::Sum, planner::Pooling::Mean); }},
    {kAnyCommand, "--norm", [] { return names_of_all(planner::Norm::None, planner::Norm::Rms); }},
    {kAnyCommand, "--short-block",
     [] { return names_of_all(planner::ShortBlockRule::Largest, planner::ShortBlockRule::Smallest); }},
    {kAnyCommand, "--role", [] { return names_of_all(store::Role::Read, store::Role::Write, store::Role::Admin); }},
    {kAnyCommand, "--buffers",
     [] {
       return Names{"out-of-place", "in-place", "both"};
     }},
    {kAnyCommand, "--protocol",
     [] {
       return Names{"ll", "ll128", "simple"};
     }},
});

} // namespace

std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option) {
  const std::string name = option.get_name();
  const auto found = std::ranges::find_if(kValues, [&](const OptionValues& values) {
    return values.name == name && (values.command == kAnyCommand || values.command == command.get_name());
  });
  return found == kValues.end() ? Names() : found->list();
}

} // namespace mc2::cli
