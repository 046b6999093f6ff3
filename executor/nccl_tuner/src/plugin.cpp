#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "interface.hpp"
#include "rule_sources.hpp"
#include "rule_table.hpp"

/// Tells NCCL the channels that plans were tuned with, or what a file says. Whatever is not known is NCCL's choice, and
/// whatever goes wrong is, too: no collective ever fails for it.
namespace mc2::nccl_tuner {
namespace {

constexpr const char* kName = "mc2";

/// Ends with a zero, as literals do.
template <std::size_t kCount>
const char* name_of(const std::array<std::string_view, kCount>& names, int number, const char* other) {
  const auto index = static_cast<std::size_t>(number);
  return index < kCount ? names[index].data() : other;
}

/// One communicator's.
struct Tuner {
  RuleTable table;
  std::size_t ranks;
  Log shows_decisions; ///< null: decisions are not asked for
};

bool wants_decisions() {
  const char* level = std::getenv("MC2_LOG");
  return level != nullptr && std::string(level) == "debug";
}

void say(Log log, LogLevel level, const std::string& text) {
  if (log != nullptr) log(level, kAboutTuning, __FILE__, __LINE__, "TUNER/mc2: %s", text.c_str());
}

std::unique_ptr<Tuner> open(std::size_t ranks, std::size_t nodes, Log log) {
  const auto rules = rules_of_environment();
  const Rules found = rules ? rules.value() : Rules{};
  const std::span<const store::NcclRule> all = found.rules;
  if (all.size() > kMostRules)
    say(log, kWarn,
        found.source + ": has " + std::to_string(all.size()) + " rules, of which the first " +
            std::to_string(kMostRules) + " are taken");
  auto tuner = std::make_unique<Tuner>(RuleTable(all.first(std::min(all.size(), kMostRules)), ranks, nodes), ranks,
                                       wants_decisions() ? log : nullptr);
  const std::size_t count = tuner->table.rule_count();
  const std::string where =
      std::to_string(ranks) + " ranks on " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
  if (!rules)
    say(log, kWarn, rules.error().text() + "; NCCL chooses by itself");
  else if (found.source.empty())
    say(log, kInfo, "neither NCCL_TUNER_CONFIG_FILE nor MC2_STORE is set; NCCL chooses by itself");
  else
    say(log, kInfo,
        std::to_string(count) + (count == 1 ? " rule for " : " rules for ") + where + " from " + found.source);
  return tuner;
}

Status init(void** context, std::uint64_t /*communicator*/, std::size_t ranks, std::size_t nodes, Log log,
            void* /*domains*/, void* /*constants*/) noexcept {
  if (context == nullptr) return kInternalError;
  *context = nullptr;
  try {
    *context = open(ranks, nodes, log).release();
  } catch (const std::exception& error) {
    if (log != nullptr) log(kWarn, kAboutTuning, __FILE__, __LINE__, "TUNER/mc2: %s", error.what());
  }
  return kSuccess;
}

Status init_v4(std::size_t ranks, std::size_t nodes, Log log, void** context) noexcept {
  return init(context, 0, ranks, nodes, log, nullptr, nullptr);
}

/// What NCCL does with a rule's algorithm and protocol, where it has both.
bool choose(const store::NcclRule& rule, float** costs, int algorithms, int protocols) {
  if (rule.algorithm < 0 || rule.protocol < 0) return true;
  if (costs == nullptr || rule.algorithm >= algorithms || rule.protocol >= protocols) return false;
  float& cost = reinterpret_cast<float*>(costs)[rule.algorithm * protocols + rule.protocol]; // NOLINT: as NCCL has it
  if (!(cost >= 0)) return false;
  cost = 0;
  return true;
}

void show(const Tuner& tuner, const char* function, std::size_t bytes, const store::NcclRule* rule, bool is_possible) {
  const auto say = [&](const char* format, auto... values) {
    tuner.shows_decisions(kInfo, kAboutTuning, __FILE__, __LINE__, format, function, bytes, tuner.ranks, values...);
  };
  constexpr const char* kOwn = "NCCL's";
  if (rule == nullptr)
    say("TUNER/mc2: %s of %zu bytes on %zu ranks: NCCL's choice: no rule");
  else if (!is_possible)
    say("TUNER/mc2: %s of %zu bytes on %zu ranks: NCCL's choice: its rule names what NCCL excludes here");
  else
    say("TUNER/mc2: %s of %zu bytes on %zu ranks: by rule, channels %d (-1: NCCL's), algorithm %s, protocol %s",
        rule->channels, name_of(store::kNcclAlgorithms, rule->algorithm, kOwn),
        name_of(store::kNcclProtocols, rule->protocol, kOwn));
}

Status get_coll_info(void* context, int function, std::size_t bytes, int grouped_ops, float** costs, int algorithms,
                     int protocols, int has_registered_buffers, int* channels) noexcept {
  if (context == nullptr) return kSuccess; // it could not be opened, which init has told
  const Tuner& tuner = *static_cast<const Tuner*>(context);
  const auto* rule = tuner.table.find(function, static_cast<std::int64_t>(bytes), grouped_ops, has_registered_buffers);
  const bool is_possible = rule != nullptr && choose(*rule, costs, algorithms, protocols);
  if (is_possible && rule->channels > 0 && channels != nullptr) *channels = rule->channels;
  if (tuner.shows_decisions == nullptr) return kSuccess;
  show(tuner, name_of(store::kNcclFunctions, function, "other"), bytes, rule, is_possible);
  return kSuccess;
}

Status finalize(void* context) noexcept {
  delete static_cast<Tuner*>(context); // NOLINT: init's, by NCCL's hands
  return kSuccess;
}

} // namespace
} // namespace mc2::nccl_tuner

#pragma GCC visibility push(default)
extern "C" {
// NOLINTBEGIN: the names and tables that NCCL looks up
extern const mc2::nccl_tuner::TunerV4 ncclTunerPlugin_v4;
extern const mc2::nccl_tuner::TunerV5 ncclTunerPlugin_v5;
extern const mc2::nccl_tuner::TunerV6 ncclTunerPlugin_v6, ncclTunerPlugin_v7;
const mc2::nccl_tuner::TunerV4 ncclTunerPlugin_v4{mc2::nccl_tuner::kName, mc2::nccl_tuner::init_v4,
                                                  mc2::nccl_tuner::get_coll_info, mc2::nccl_tuner::finalize};
const mc2::nccl_tuner::TunerV5 ncclTunerPlugin_v5{mc2::nccl_tuner::kName, mc2::nccl_tuner::init,
                                                  mc2::nccl_tuner::get_coll_info, mc2::nccl_tuner::finalize};
const mc2::nccl_tuner::TunerV6 ncclTunerPlugin_v6{mc2::nccl_tuner::kName, mc2::nccl_tuner::init,
                                                  mc2::nccl_tuner::get_coll_info, mc2::nccl_tuner::finalize, nullptr};
const mc2::nccl_tuner::TunerV6 ncclTunerPlugin_v7{mc2::nccl_tuner::kName, mc2::nccl_tuner::init,
                                                  mc2::nccl_tuner::get_coll_info, mc2::nccl_tuner::finalize, nullptr};
// NOLINTEND
}
#pragma GCC visibility pop
