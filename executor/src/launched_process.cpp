#include <array>
#include <string_view>

#include "mc2/executor/processes.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::executor {
namespace {

using Variables = std::function<const char*(const char* name)>;

constexpr const char* kRankZero = "MC2_RANK_ZERO";

/// The environment variables of a launcher.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
  std::array<const char*, 4> job; ///< variables that differ between jobs; those that are set count
};

constexpr std::array kLaunchers{
    Launcher{"RANK",
             "WORLD_SIZE",
             "LOCAL_RANK",
             "LOCAL_WORLD_SIZE",
             {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    Launcher{"OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE",
             {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri", nullptr}},
};

Result<int> number(const Variables& variable, const char* name, int least, int most) {
  const char* const text = variable(name);
  if (text == nullptr)
    return Error{ErrorCode::InvalidSpec, name, "is not set, though the launcher's other variables are"};
  if (const auto value = number_in<int>(text); value && *value >= least && *value <= most) return *value;
  return Error{
      ErrorCode::InvalidSpec, name,
      "is '" + std::string(text).substr(0, 32) + "'; legal: " + std::to_string(least) + " to " + std::to_string(most)};
}

std::string job_key(const Launcher& launcher, const Variables& variable) {
  std::string key = launcher.rank;
  for (const char* const name : launcher.job) {
    const char* const value = name == nullptr ? nullptr : variable(name);
    if (value != nullptr) key.append(" ").append(name).append("=").append(value);
  }
  return key;
}

/// The address at which ranks of several hosts meet: MC2_RANK_ZERO, else MASTER_ADDR and the port after MASTER_PORT,
/// which the launcher's own processes use.
Result<std::string> address_of_rank_0(const Variables& variable) {
  constexpr int kMostPort = 65535;
  if (const char* const given = variable(kRankZero)) return std::string(given);
  const char* const host = variable("MASTER_ADDR");
  if (host == nullptr)
    return Error{ErrorCode::InvalidSpec, kRankZero,
                 "is not set, and ranks are on several hosts; set it to host:port of rank 0 on every rank"};
  MC2_ASSIGN(const int port, number(variable, "MASTER_PORT", 1, kMostPort - 1));
  const bool is_v6 = std::string_view(host).find(':') != std::string_view::npos;
  return (is_v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port + 1);
}

Result<std::optional<LaunchedProcess>> read(const Launcher& launcher, const Variables& variable) {
  constexpr int kMostRanks = 1 << 20;
  MC2_ASSIGN(const auto size, number(variable, launcher.world_size, 1, kMostRanks));
  MC2_ASSIGN(const auto rank, number(variable, launcher.rank, 0, size - 1));
  MC2_ASSIGN(const auto local_rank, number(variable, launcher.local_rank, 0, size - 1));
  MC2_ASSIGN(const auto local_size, number(variable, launcher.local_size, 1, size));
  LaunchedProcess launched{.world_size = size, .place = {.rank = rank, .key = job_key(launcher, variable)}};
  if (local_size < size) {
    MC2_ASSIGN(launched.place.address, address_of_rank_0(variable));
    launched.place.local_rank = local_rank;
    launched.place.local_size = local_size;
  } else if (local_rank != rank)
    return Error{ErrorCode::Unsupported, launcher.local_rank,
                 "is " + std::to_string(local_rank) + " and " + launcher.rank + " " + std::to_string(rank) +
                     ", though all ranks are on this machine; they must be in the launcher's order"};
  return std::optional(std::move(launched));
}

} // namespace

Result<std::optional<LaunchedProcess>> launched_process(const Variables& variable) {
  // A user may have set one of the two for something else. Only both together mean a launcher.
  for (const Launcher& launcher : kLaunchers)
    if (variable(launcher.rank) != nullptr && variable(launcher.world_size) != nullptr) return read(launcher, variable);
  return std::optional<LaunchedProcess>{};
}

} // namespace mc2::executor
