#include "plan_answer.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "http/header_list.hpp"
#include "kept_plans.hpp"
#include "mc2/finder/device_costs.hpp"
#include "mc2/finder/plan_llm.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/finder/topology_costs.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/device_model.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/topologies.hpp"

namespace mc2::server {
namespace {

using planner::OpSpec;
using planner::Plan;
using store::StoredFingerprint;

constexpr std::size_t kNamedDigits = 12; ///< digits of a digest that messages show
constexpr std::size_t kNamedMachines = 8, kShownLabel = 200;
constexpr std::size_t kShownValue = 64; ///< bytes of a field that messages show
constexpr int kMaxTries = 100;          ///< during an import the store changes every few milliseconds

/// By label, the fields in which machines of that label differ. Other machines are told apart by their labels.
std::map<std::string, std::set<std::string>> differing_fields(const std::vector<StoredFingerprint>& machines) {
  std::map<std::string, const planner::Fingerprint*> first;
  std::map<std::string, std::set<std::string>> fields;
  for (const auto& machine : machines) {
    const planner::Fingerprint& own = machine.fingerprint;
    const std::string label = own.label();
    const planner::Fingerprint& other = *first.try_emplace(label, &own).first->second;
    for (const auto& [field, value] : own.fields)
      if (other.field(field) != value) fields[label].insert(field);
    for (const auto& [field, value] : other.fields)
      if (own.field(field) != value) fields[label].insert(field);
  }
  return fields;
}

/// The machines for a message: "DIGEST (LABEL; FIELD VALUE, ...), ...", with the number of ranks where they have one,
/// and how many more than kNamedMachines there are.
std::string named(std::vector<StoredFingerprint> machines) {
  const std::size_t count = machines.size();
  machines.resize(std::min(count, kNamedMachines));
  auto differing = differing_fields(machines);
  std::vector<std::string> names;
  for (const auto& machine : machines) {
    std::string label = machine.fingerprint.label();
    std::set<std::string>& told = differing[label];
    if (machine.fingerprint.fields.contains("ranks")) told.insert("ranks");
    const auto field_text = [&](const std::string& field) {
      return field + " " + std::string(machine.fingerprint.field(field).substr(0, kShownValue));
    };
    if (label.size() > kShownLabel) {
      const auto blank = label.find_last_of(' ', kShownLabel); // words may have no blank, and are cut then
      label.resize(blank == std::string::npos || blank < kShownLabel / 2 ? kShownLabel : blank);
      label += " ...";
    }
    names.push_back(machine.digest.substr(0, kNamedDigits) + " (" + label + (told.empty() ? "" : "; ") +
                    list_text(told, field_text) + ")");
  }
  if (count > machines.size())
    names.push_back(std::to_string(count - machines.size()) + " more (GET /v1/fingerprints)");
  return list_text(names);
}

/// The machines with a plan or a model of the operator at any m.
Result<std::vector<StoredFingerprint>> with_operator(const store::Store& store, const OpSpec& op,
                                                     const std::vector<StoredFingerprint>& machines) {
  std::vector<StoredFingerprint> found;
  for (const auto& machine : machines) {
    const store::ListFilter filter{.kind = op.kind,
                                   .n = op.n,
                                   .k = op.k,
                                   .dtype = op.dtype,
                                   .world_size = op.world_size,
                                   .fingerprint_digest = machine.digest,
                                   .limit = 1};
    MC2_ASSIGN(auto documents, store.list_models(filter));
    if (documents.empty()) {
      MC2_ASSIGN(documents, list_own_plans(store, filter));
    }
    if (!documents.empty()) found.push_back(machine);
  }
  return found;
}

std::string ranks_text(const OpSpec& op) { return std::to_string(op.world_size) + " ranks"; }

/// Whether the machine has something for the number of ranks. Machines that measured themselves are made for one
/// number; others have what was imported.
Result<bool> has_ranks(const store::Store& store, const StoredFingerprint& machine, int ranks) {
  const auto made_for = machine.fingerprint.fields.find("ranks");
  if (made_for != machine.fingerprint.fields.end()) return made_for->second == std::to_string(ranks);
  const store::ListFilter filter{.world_size = ranks, .fingerprint_digest = machine.digest, .limit = 1};
  using List = Result<std::vector<store::Listed>> (store::Store::*)(const store::ListFilter&) const;
  for (const List list :
       {List(&store::Store::list_samples), List(&store::Store::list_measurements), List(&store::Store::list_models)}) {
    MC2_ASSIGN(const auto documents, (store.*list)(filter));
    if (!documents.empty()) return true;
  }
  MC2_ASSIGN(const auto plans, list_own_plans(store, filter));
  return !plans.empty();
}

bool is_named(const StoredFingerprint& machine, const PlanQuestion& question) {
  const auto& fields = machine.fingerprint.fields;
  const auto has = [&](const auto& asked) {
    const auto found = fields.find(asked.first);
    if (found == fields.end()) return false;
    return asked.first == "device" ? found->second == asked.second : equals_ignoring_case(found->second, asked.second);
  };
  return machine.digest.starts_with(question.machine) && std::ranges::all_of(question.machine_fields, has);
}

/// The machines that the question may mean: those with its number of ranks. A digest, or the name of a device that did
/// not measure itself, may also name one without, and then the answer says what is missing there.
Result<std::vector<StoredFingerprint>> asked_for(const store::Store& store, const PlanQuestion& question,
                                                 const std::vector<StoredFingerprint>& all) {
  std::vector<StoredFingerprint> found;
  for (const auto& machine : all) {
    if (!is_named(machine, question)) continue;
    bool is_meant =
        !question.machine.empty() || (question.machine_fields.contains("device") && machine.fingerprint.is_elsewhere());
    if (!is_meant) {
      MC2_ASSIGN(is_meant, has_ranks(store, machine, question.request.op.world_size));
    }
    if (is_meant) found.push_back(machine);
  }
  return found;
}

/// What the question says about its machine, for messages: 'digest "0a1b", link "2.5Gbit,20us"'.
std::string asked_text(const PlanQuestion& question) {
  std::vector<std::string> texts;
  if (!question.machine.empty()) texts.push_back("digest \"" + question.machine.substr(0, kShownValue) + "\"");
  for (const auto& [field, value] : question.machine_fields)
    texts.push_back(field + " \"" + value.substr(0, kShownValue) + "\"");
  return list_text(texts);
}

/// The parameter by which the question names its machine; "machine" if it names none or several.
std::string naming_parameter(const PlanQuestion& question) {
  const bool has_one = question.machine.empty() && question.machine_fields.size() == 1;
  return has_one ? question.machine_fields.begin()->first : "machine";
}

/// The machine that the question means. If several match and the question has no digest, the only one that has the
/// operator. Errors: as answer_plan.
Result<StoredFingerprint> find_machine(const store::Store& store, const PlanQuestion& question) {
  MC2_ASSIGN(auto all, store.list_fingerprints());
  if (all.empty())
    return Error{ErrorCode::NotFound, "machine", "the store knows no machine yet; tune or profile on one"};
  MC2_ASSIGN(auto matching, asked_for(store, question, all));
  const std::string asked = asked_text(question);
  if (matching.empty())
    return Error{ErrorCode::NotFound, naming_parameter(question),
                 "no machine has " + asked + (asked.empty() || !question.machine.empty() ? "" : " and ") +
                     (question.machine.empty() ? ranks_text(question.request.op) : "") + "; there are " + named(all)};
  if (matching.size() > 1 && question.machine.empty()) {
    MC2_ASSIGN(auto knowing, with_operator(store, question.request.op, matching));
    if (!knowing.empty()) matching = std::move(knowing);
  }
  if (matching.size() == 1) return matching.front();
  return Error{ErrorCode::InvalidSpec, "machine",
               (asked.empty() ? "is missing: " : "is not unique: with " + asked + " ") + "there are " +
                   named(matching) + "; " +
                   (question.machine.empty() ? "name one by the first digits of its digest (machine)"
                                             : "give more digits of one") +
                   ", or by its backend, device or link"};
}

/// Whether the question's machine has a plan or a model of the operator, or a model of its kind that may be
/// transferred.
bool has_document(const store::Store& store, const PlanQuestion& question) {
  const auto machine = find_machine(store, question);
  if (!machine) return false;
  const auto found = with_operator(store, question.request.op, {machine.value()});
  if (found && !found.value().empty()) return true;
  const auto models = store.list_models(
      store::ListFilter{.kind = question.request.op.kind, .fingerprint_digest = machine.value().digest, .limit = 1});
  return question.may_transfer && models && !models.value().empty();
}

SourcedPlan sourced(std::string_view source, const Plan& plan, std::string document, std::string created_at) {
  return {source, std::move(document), plan.makespan.provenance, std::move(created_at)};
}

/// The store, and who is told what of it cannot be read.
struct WatchedStore {
  const store::Store& store;
  DamageWatch& damage;

  [[nodiscard]] finder::Kept kept() const { return damage.watched(finder::kept_in_unnamed(store)); }
};

/// What is kept, with messages that do not mention other machines. Documents contain such messages, and must depend
/// only on their epoch.
finder::Kept kept_of_its_machine(const WatchedStore& watched) { return finder::with_short_reasons(watched.kept()); }

/// A device that did not measure itself: its costs are imported or published (finder::device_costs).
struct NamedDevice {
  std::string name;
  std::int64_t epoch = 0; ///< the store's revision at the last change to what it has of the device
};

/// The epoch of a device or topology that has nothing in the store.
constexpr std::int64_t kNoChange = 0;

/// The published device that the question names. None if the question also has a backend, a link or a digest: then it
/// means a machine of the store.
std::optional<NamedDevice> published_device(const PlanQuestion& question) {
  const auto device = question.machine_fields.find("device");
  if (device == question.machine_fields.end() || question.machine_fields.size() > 1 || !question.machine.empty())
    return std::nullopt;
  for (const auto& known : planner::published_devices())
    if (known.name == device->second) return NamedDevice{std::string(known.name), kNoChange};
  return std::nullopt;
}

/// The device that the question means; none where it means a machine that measured itself. A device may have several
/// fingerprints, as each log has one of what it says.
Result<std::optional<NamedDevice>> find_device(const store::Store& store, const PlanQuestion& question) {
  MC2_ASSIGN(const auto all, store.list_fingerprints());
  MC2_ASSIGN(const auto matching, asked_for(store, question, all));
  std::optional<NamedDevice> found;
  for (const auto& machine : matching) {
    const std::string device(machine.fingerprint.field("device"));
    const bool is_elsewhere = machine.fingerprint.is_elsewhere() && !device.empty();
    if (!is_elsewhere || (found && found->name != device)) return std::optional<NamedDevice>();
    found = NamedDevice{device, std::max(machine.revision, found ? found->epoch : kNoChange)};
  }
  if (!found) return published_device(question);
  // Every log and cut of the device counts, also those that do not match the question.
  for (const auto& machine : all)
    if (machine.fingerprint.field("device") == found->name) found->epoch = std::max(found->epoch, machine.revision);
  return found;
}

/// A question for the finder, and the epoch of its answer. The machine's documents alone decide the answer and the
/// epoch; so another service with the same documents gives the same answer for an epoch.
struct PlacedQuestion {
  finder::PlanQuestion asked;
  std::int64_t epoch = 0;
  std::vector<finder::PlanSource> places;
  std::function<finder::FindModel()> finding; ///< for several questions about one machine
  bool is_measured = false;                   ///< the costs come from imported logs and cuts
};

/// The finder's question about a device or topology.
finder::PlanQuestion asked_elsewhere(const PlanQuestion& question, const planner::Fingerprint& machine,
                                     const planner::StopCheck& is_stopped) {
  return {.op = question.request.op,
          .machine = machine,
          .options = question.request.options_with(planner::default_options_on(machine)),
          .may_transfer = false,
          .is_stopped = is_stopped};
}

/// Errors: as finder::device_costs.
Result<PlacedQuestion> on_device(const WatchedStore& watched, const PlanQuestion& question, const NamedDevice& device,
                                 const planner::StopCheck& is_stopped) {
  const finder::Kept kept = watched.kept();
  const planner::PlanOptions limits = question.request.options_with({});
  MC2_ASSIGN(auto costs, finder::device_costs(device.name, question.request.op, limits, kept));
  auto asked = asked_elsewhere(question, costs.model.fingerprint, is_stopped);
  const bool is_measured = costs.is_measured;
  return PlacedQuestion{std::move(asked), device.epoch, finder::device_places(std::move(costs), kept),
                        [=, name = device.name] { return finder::finding_on_device(name, limits, kept); }, is_measured};
}

/// Errors: as store::find_built_in_topology and planner::analytic_model.
Result<PlacedQuestion> on_topology(const PlanQuestion& question, const planner::StopCheck& is_stopped) {
  MC2_ASSIGN(const auto topology, store::find_built_in_topology(question.topology));
  MC2_ASSIGN(const auto model, finder::topology_costs(topology, question.request.op, {}));
  return PlacedQuestion{asked_elsewhere(question, model.fingerprint, is_stopped),
                        kNoChange,
                        {finder::own_planner({.given = {model}})},
                        [topology] { return finder::finding_on_topology(topology); }};
}

/// Errors: as answer_plan.
Result<PlacedQuestion> on_its_machine(const WatchedStore& watched, const PlanQuestion& question,
                                      const planner::StopCheck& is_stopped) {
  const store::Store& store = watched.store;
  if (!question.topology.empty()) return on_topology(question, is_stopped);
  MC2_ASSIGN(const auto device, find_device(store, question));
  if (device) {
    auto placed = on_device(watched, question, *device, is_stopped);
    const bool is_measured = placed && placed.value().is_measured;
    const bool is_last = is_measured || !has_document(store, question);
    if (is_last && !placed && !question.machine_fields.contains("device"))
      return Error{placed.error().code, "machine", placed.error().message}; // nobody gave a device
    if (is_last) return placed;
  }
  MC2_ASSIGN(auto machine, find_machine(store, question));
  const auto usual = planner::default_options_on(machine.fingerprint);
  const finder::Kept kept = watched.kept();
  return PlacedQuestion{
      {.op = question.request.op,
       .machine = std::move(machine.fingerprint),
       .options = question.request.options_with(usual),
       .may_transfer = question.may_transfer,
       .is_stopped = is_stopped},
      machine.revision,
      {finder::kept_plans(kept), finder::own_planner({.given = {}, .kept = kept})},
      [watched] { return finder::finding_often({.given = {}, .kept = kept_of_its_machine(watched)}); }};
}

/// Errors: as answer_plan.
Result<SourcedPlan> make(const PlacedQuestion& placed) {
  MC2_ASSIGN(auto found, finder::find_plan(placed.places, placed.asked));
  store::StoredPlan& plan = found.stored;
  const bool is_kept = found.origin == finder::Origin::Kept;
  auto answer = sourced(is_kept ? "stored" : "model", plan.plan, std::move(plan.document), std::move(plan.created_at));
  answer.staleness = std::move(found.staleness);
  return answer;
}

/// The answer that is a document itself, whose ETag has the epoch.
/// @param weakest  provenance of the predictions in it
Answer to_document(std::string document, std::int64_t epoch, planner::Provenance weakest) {
  auto body = std::make_shared<const std::string>(std::move(document));
  const std::string digest = store::digest(*body);
  return Answer{epoch, std::move(body), "\"" + digest + "-" + std::to_string(epoch) + "\"", "model", weakest};
}

Result<Answer> make_ranges(const WatchedStore& watched, const PlanQuestion& question,
                           const planner::StopCheck& is_stopped) {
  MC2_ASSIGN(const auto placed, on_its_machine(watched, question, is_stopped));
  MC2_ASSIGN(const auto ranges, finder::find_ranges(placed.finding(), placed.asked, *question.first_m));
  return to_document(store::encode(ranges), placed.epoch, ranges.provenance());
}

/// The machine that the question means. If several match, the only one that has some layer's operator. Errors: as
/// answer_plan.
Result<PlacedQuestion> on_the_machine_of_a_layer(const WatchedStore& watched, const PlanQuestion& question,
                                                 const std::vector<planner::LlmSite>& sites,
                                                 const planner::StopCheck& is_stopped) {
  auto found = on_its_machine(watched, question, is_stopped);
  PlanQuestion other = question;
  for (const auto& site : sites) {
    if (found || !site.op) continue;
    other.request.op = *site.op;
    if (auto of_layer = on_its_machine(watched, other, is_stopped)) found = std::move(of_layer);
  }
  return found;
}

/// Errors: as answer_plan; NotFound with the first layer's reason where no layer has a plan.
Result<Answer> make_llm_plan(const WatchedStore& watched, const PlanQuestion& question,
                             const planner::StopCheck& is_stopped) {
  finder::LlmQuestion asked = question.llm->question;
  MC2_ASSIGN(auto sites, finder::sites_of(asked));
  MC2_ASSIGN(const auto placed, on_the_machine_of_a_layer(watched, question, sites, is_stopped));
  asked.plan = placed.asked;
  planner::Provenance weakest = planner::Provenance::Measured;
  for (auto& site : sites) {
    MC2_TRY(finder::plan_site(placed.finding(), asked, site));
    if (site.ranges) weakest = std::max(weakest, site.ranges->provenance());
  }
  MC2_TRY(finder::check_any_planned(asked.name, sites));
  return to_document(store::encode(finder::llm_plan_of(asked, std::move(sites))), placed.epoch, weakest);
}

Result<Answer> make_plan_answer(const WatchedStore& watched, const PlanQuestion& question,
                                const planner::StopCheck& is_stopped) {
  MC2_ASSIGN(const auto placed, on_its_machine(watched, question, is_stopped));
  MC2_ASSIGN(const auto plan, make(placed));
  return to_answer(plan, placed.epoch);
}

Result<Answer> make_any(const WatchedStore& watched, const PlanQuestion& question,
                        const planner::StopCheck& is_stopped) {
  const auto make = question.llm ? &make_llm_plan : question.first_m ? &make_ranges : &make_plan_answer;
  return make(watched, question, is_stopped);
}

/// Makes the answer again until the store has not changed meanwhile, so that the answer belongs to its epoch.
Result<Answer> make_settled(Context& context, const KeyedQuestion& keyed, const planner::StopCheck& is_stopped) {
  return context.store.read([&](const store::Store& store) -> Result<Answer> {
    for (int attempt = 0; attempt < kMaxTries && !(is_stopped && is_stopped()); ++attempt) {
      MC2_ASSIGN(const auto before, store.revision());
      auto answer = make_any({store, context.damage}, keyed.question, is_stopped);
      MC2_ASSIGN(const auto after, store.revision());
      if (after != before) continue;
      if (!answer) return answer.error();
      // An answer that was cut short may be incomplete, and must not be kept for everybody.
      if (is_stopped && is_stopped()) break;
      return context.answers.keep(keyed.key, after, std::move(answer).value());
    }
    if (is_stopped && is_stopped()) return Error{ErrorCode::Cancelled, "", "was given up"};
    return Error{ErrorCode::Cancelled, "", "the store changed all the time while the plan was made; ask again"};
  });
}

} // namespace

Answer to_answer(const SourcedPlan& plan, std::int64_t epoch) {
  const std::string digest = store::digest(plan.document);
  const std::string stale = plan.staleness ? store::encode(*plan.staleness) : "";
  // Canonical like every document: sorted keys, no blanks.
  std::string body =
      R"({"created_at":)" + (plan.created_at.empty() ? std::string("null") : nlohmann::json(plan.created_at).dump()) +
      R"(,"digest":")" + digest + R"(","epoch":)" + std::to_string(epoch) + R"(,"plan":)" + plan.document +
      R"(,"provenance":")" + std::string(to_string(plan.provenance)) + R"(","schema":"mc2.answer/1","source":")" +
      std::string(plan.source) + '"' + (stale.empty() ? "" : R"(,"stale":)" + stale) + "}";
  return {epoch, std::make_shared<const std::string>(std::move(body)),
          "\"" + digest + "-" + std::to_string(epoch) + "\"", plan.source, plan.provenance};
}

KeyedQuestion with_key(PlanQuestion question) {
  std::string key = question.machine + " " + store::encode(question.request);
  for (const auto& [field, value] : question.machine_fields)
    key += " " + field + "=" + std::to_string(value.size()) + ":" + value;
  if (question.request.has_max_block_count) key += " as many blocks as said"; // which the document cannot say
  if (!question.topology.empty()) key += " topology=" + question.topology;
  if (!question.may_transfer) key += " no transfer";
  if (question.llm)
    key += " all layers of " + std::to_string(question.llm->sizes.size()) + ":" + question.llm->sizes +
           " from m=" + std::to_string(question.llm->question.first_tokens) + " to " +
           std::to_string(question.llm->question.last_tokens) + " as " + question.llm->question.name;
  if (question.first_m) key += " from m=" + std::to_string(*question.first_m);
  return {std::move(question), std::move(key)};
}

namespace {

/// A client may ask a replica for an epoch that it got from the leader a moment ago: waits until it has arrived here.
void wait_for_epoch(const Context& context, const PlanQuestion& question, const planner::StopCheck& is_stopped) {
  constexpr std::chrono::milliseconds kMost{250}, kLook{2};
  constexpr std::int64_t kMostAhead = 1000;
  if (context.follower == nullptr || !question.epoch) return;
  if (*question.epoch > context.store.revision() + kMostAhead) return; // too far ahead to come from the leader
  const auto until = std::chrono::steady_clock::now() + kMost;
  const auto is_over = [&] { return (is_stopped && is_stopped()) || std::chrono::steady_clock::now() >= until; };
  while (context.store.revision() < *question.epoch && !is_over()) std::this_thread::sleep_for(kLook);
}

std::optional<Answer> kept_answer(Context& context, const KeyedQuestion& keyed) {
  const auto& [question, key] = keyed;
  const std::int64_t revision = context.store.revision();
  if (question.epoch) {
    if (auto known = context.answers.find_epoch(key, *question.epoch)) return known;
  }
  return context.answers.find(key, revision);
}

/// Counts an answer, whether it was made now or was kept.
void count_answer(Context& context, const Answer& answer) {
  context.metrics.count_answer(answer.source, to_string(answer.provenance));
}

/// The error for an epoch whose answer is not known.
/// @param now  the epoch of the present answer
Error of_another_epoch(std::int64_t asked, std::int64_t now) {
  const std::string known = std::to_string(now);
  const std::string why =
      asked > now ? "is " + std::to_string(asked) + ", but the answer is of epoch " + known +
                        ": this is another store, an earlier copy, or a replica that is behind"
                  : "is " + std::to_string(asked) + ", of which the answer is no longer known; it is " + known + " now";
  return {ErrorCode::Stale, "epoch", why + ". Let every rank ask again without an epoch, or take rank 0's plan"};
}

bool is_of_its_epoch(const PlanQuestion& question, const Answer& answer) {
  return !question.epoch || answer.epoch == *question.epoch;
}

} // namespace

std::optional<Answer> known_answer(Context& context, const KeyedQuestion& keyed) {
  auto answer = kept_answer(context, keyed);
  if (!answer || !is_of_its_epoch(keyed.question, *answer)) return std::nullopt;
  context.metrics.count_cache(true);
  count_answer(context, *answer);
  return answer;
}

Result<Answer> answer_plan(Context& context, const KeyedQuestion& keyed, const planner::StopCheck& is_stopped) {
  const PlanQuestion& question = keyed.question;
  wait_for_epoch(context, question, is_stopped);
  auto answer = kept_answer(context, keyed);
  context.metrics.count_cache(answer.has_value());
  if (!answer) {
    MC2_ASSIGN(answer, make_settled(context, keyed, is_stopped));
  }
  if (!is_of_its_epoch(question, *answer)) return of_another_epoch(*question.epoch, answer->epoch);
  count_answer(context, *answer);
  return *answer;
}

} // namespace mc2::server
