#include "mc2/store/layers.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <type_traits>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::store {
namespace {

/// Asks every store in turn. Ends at `InvalidSpec`, since the question itself is wrong. If no layer answers, the code
/// is that of the first layer that failed for another reason than NotFound.
template <typename Find>
auto first_match(const std::vector<Store>& stores, Find find) -> decltype(find(stores.front())) {
  std::vector<std::string> reasons;
  ErrorCode code = ErrorCode::NotFound;
  for (const Store& store : stores) {
    auto found = find(store);
    if (found || found.error().code == ErrorCode::InvalidSpec) return found;
    if (code == ErrorCode::NotFound) code = found.error().code;
    reasons.push_back(found.error().text());
  }
  return Error{code, "", list_text(reasons, "; ")};
}

/// Adds what another layer knows, and orders everything by time, newest first. What was copied from one layer to
/// another counts once. Keeps the newest `most`, as many as one layer gives.
template <typename Dated>
void join_newest_first(std::vector<Dated>& all, const std::vector<Dated>& more, std::size_t most) {
  for (const Dated& one : more)
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  std::ranges::stable_sort(all, std::greater(), &Dated::at);
  if (all.size() > most) all.resize(most);
}

/// What list(store) gives for every store that can be read, in their order.
template <typename List>
auto listed_in(const std::vector<Store>& stores, const List& list) {
  std::remove_cvref_t<decltype(list(stores.front()).value())> all;
  for (const Store& store : stores)
    if (auto listed = list(store)) std::ranges::move(listed.value(), std::back_inserter(all));
  return all;
}

/// As listed_in(), with the stores in this order. Errors: those of list(own).
template <typename Stores, typename List>
auto listed_with(const Store& own, const Stores& stores, const List& list) -> decltype(list(own)) {
  std::remove_cvref_t<decltype(list(own).value())> all;
  for (const Store& store : stores) {
    auto listed = list(store);
    if (!listed && &store == &own) return listed;
    if (listed) std::ranges::move(listed.value(), std::back_inserter(all));
  }
  return all;
}

/// Opens a read-only layer. Returns every failure as an Error, so that the writable layer works in any case.
Result<Store> open_read_only(const std::filesystem::path& path) {
  try {
    return Store::open(path, OpenMode::ReadOnly);
  } catch (const SystemError& error) {
    return Error{ErrorCode::Unsupported, path.string(), error.what()};
  }
}

bool has_content(const std::filesystem::path& path) {
  std::error_code is_missing;
  return std::filesystem::file_size(path, is_missing) > 0 && !is_missing;
}

} // namespace

Result<Layers> Layers::open(const LayerPaths& paths) {
  Layers layers;
  if (!paths.writable.empty()) MC2_TRY(layers.open_writable(paths));
  for (auto path = paths.read_only.rbegin(); path != paths.read_only.rend(); ++path) {
    auto store = open_read_only(*path);
    if (store)
      layers.stores_.push_back(std::move(store).value());
    else if (store.error().code != ErrorCode::NotFound)
      layers.notes_.push_back("skipped: " + store.error().text());
  }
  if (layers.stores_.empty())
    return Error{ErrorCode::NotFound, "", layers.notes_.empty() ? "there is no store" : layers.notes_.front()};
  return layers;
}

Result<void> Layers::open_writable(const LayerPaths& paths) {
  const auto skip = [&](const std::string& reason) {
    notes_.push_back("skipped: " + paths.writable.string() + ": is missing and cannot be made: " + reason);
  };
  try {
    auto opened = Store::open(paths.writable, OpenMode::ReadWrite);
    if (!opened && opened.error().code == ErrorCode::ReadOnly && paths.may_be_read_only) {
      auto read = Store::open(paths.writable, OpenMode::ReadOnly);
      if (!read && read.error().code == ErrorCode::NotFound) {
        skip(opened.error().text());
        return {};
      }
      opened = std::move(read);
    }
    if (!opened) return opened.error();
    stores_.push_back(std::move(opened).value());
  } catch (const SystemError& error) { // e.g. a full disk; what is kept already must not be passed over
    if (!paths.may_be_read_only || has_content(paths.writable)) throw;
    skip(error.what());
  }
  return {};
}

Result<StoredPlan> Layers::find_plan(const PlanKey& key) const {
  return first_match(stores_, [&](const Store& store) { return store.find_plan(key); });
}

Result<StoredPlan> Layers::find_plan(const std::string& digest_prefix) const {
  return first_match(stores_, [&](const Store& store) { return store.find_plan(digest_prefix); });
}

Result<planner::CostModel> Layers::find_model(const planner::OpSpec& op,
                                              const planner::Fingerprint& fingerprint) const {
  return first_match(stores_, [&](const Store& store) { return store.find_model(op, fingerprint); });
}

std::vector<planner::CostModel> Layers::list_models(const planner::OpSpec& op,
                                                    const planner::Fingerprint& fingerprint) const {
  return listed_in(stores_, [&](const Store& store) { return store.list_models(op, fingerprint); });
}

bool Layers::has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const {
  return std::ranges::any_of(stores_, [&](const Store& store) {
    const auto has_run = store.has_run(op, fingerprint);
    return has_run && has_run.value();
  });
}

planner::SpeedRecord Layers::speed_record(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const {
  planner::SpeedRecord record;
  for (const Store& store : stores_)
    if (const auto kept = store.speed_record(op, fingerprint)) {
      join_newest_first(record.ratios, kept.value().ratios, kMostSpeedRatios);
      join_newest_first(record.runs, kept.value().runs, kMostUncutRuns);
    }
  return record;
}

std::vector<PlanKey> Layers::list_plan_keys(const std::string& fingerprint_digest) const {
  ListFilter filter;
  filter.fingerprint_digest = fingerprint_digest;
  filter.limit = std::numeric_limits<int>::max();
  std::vector<PlanKey> keys;
  for (Listed& plan : listed_in(stores_, [&](const Store& store) { return store.list_plans(filter); }))
    keys.push_back(std::move(plan.key));
  return keys;
}

Result<std::vector<planner::Profile>> Layers::list_profiles(const std::map<std::string, std::string>& fields) const {
  return listed_with(stores_.front(), stores_, [&](const Store& store) { return store.list_profiles(fields); });
}

Result<std::vector<Measurement>> Layers::list_measured_cuts(const std::string& device,
                                                            const planner::OpSpec& op) const {
  return listed_with(stores_.front(), stores_ | std::views::reverse,
                     [&](const Store& store) { return store::list_measured_cuts(store, device, op); });
}

} // namespace mc2::store
