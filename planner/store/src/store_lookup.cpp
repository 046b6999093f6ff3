#include <SQLiteCpp/Column.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codec_parts.hpp"
#include "digest_lookup.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/store.hpp"
#include "store_impl.hpp"

namespace mc2::store {
namespace {

constexpr int kColumnOfM = 3, kColumnOfN = 4; ///< in the result of select_sql
constexpr std::size_t kListedCount = 5;       ///< operators that a message lists before "and N more"

/// Errors: as decoded().
Result<StoredPlan> to_stored_plan(const Record& record) {
  MC2_ASSIGN(auto plan, decoded<planner::Plan>(Table::Plan, record));
  return StoredPlan{record.key, std::move(plan), record.document, record.digest, record.created_at};
}

/// The SQL condition for rows whose operators have the same block costs (planner::has_same_block_costs).
std::string same_block_costs(const planner::OpSpec& op) {
  const std::string same = "WHERE fingerprint_digest = ?1 AND kind = ?2 AND k = ?5 AND dtype = ?6 AND world_size = ?7 ";
  if (planner::cut_axis(op) == planner::CutAxis::Columns) return same + "AND m = ?3 ";
  return same + "AND n = ?4 AND m > " + std::to_string(planner::traits_of(op.kind).max_column_cut_m) + " ";
}

/// The query for the models that answer for an operator, the nearest first. The distance is the ratio of the lengths of
/// the cut axis, squared for a shorter model, because the longest blocks lie beyond what that model measured.
std::string model_query(const planner::OpSpec& op) {
  const bool is_by_columns = planner::cut_axis(op) == planner::CutAxis::Columns;
  const std::string nearest = is_by_columns ? "iif(n >= ?4, 1.0 * n / ?4, 1.0 * ?4 / n * ?4 / n)"
                                            : "iif(m >= ?3, 1.0 * m / ?3, 1.0 * ?3 / m * ?3 / m)";
  return select_sql(Table::Model, same_block_costs(op) + "ORDER BY " + nearest + ", created_at DESC, id DESC");
}

/// The operator in the columns "kind, m, n, k, dtype, world_size", for people. The plain columns if it is unknown.
std::string op_text(const SQLite::Statement& statement) {
  const auto text = [&](int index) { return statement.getColumn(index).getString(); };
  const auto number = [&](int index) { return statement.getColumn(index).getInt64(); };
  const auto read = read_kind_column(text(0));
  const auto dtype = planner::parse_dtype(text(4));
  if (!read || !dtype)
    return text(0) + " m=" + text(1) + " n=" + text(2) + " k=" + text(3) + " " + text(4) + " x" + text(5);
  planner::OpSpec op = read.value();
  op.m = number(1);
  op.n = number(2);
  op.k = number(3);
  op.dtype = dtype.value();
  op.world_size = static_cast<int>(number(5));
  return op.text();
}

/// The first operators of a query over "kind, m, n, k, dtype, world_size", and how many more there are.
std::string listed_ops(SQLite::Statement& statement) {
  std::vector<std::string> ops;
  std::size_t count = 0;
  for (; statement.executeStep(); ++count)
    if (count < kListedCount) ops.push_back(one_line(op_text(statement)));
  return list_text(ops) + (count > kListedCount ? " and " + std::to_string(count - kListedCount) + " more" : "");
}

/// "; for this machine it has ...": the operators that the table has for this machine, else those for others. Of plans
/// only the tuned ones count: others are copies, or answer for programs that know their purpose.
std::string alternatives(const SQLite::Database& database, Table table, const std::string& fingerprint) {
  const TableTraits& traits = traits_of(table);
  const std::string query = "SELECT DISTINCT kind, m, n, k, dtype, world_size FROM " + std::string(traits.name) +
                            " WHERE (fingerprint_digest = ?1) = ?2" +
                            (traits.has_purpose ? " AND substr(purpose, 1, 5) = 'tuned'" : "") +
                            " ORDER BY kind, m, n, k, dtype, world_size";
  for (const bool is_this_machine : {true, false}) {
    SQLite::Statement statement(database, query);
    statement.bind(1, fingerprint);
    statement.bind(2, is_this_machine ? 1 : 0);
    const std::string ops = listed_ops(statement);
    if (!ops.empty())
      return "; " + std::string(is_this_machine ? "for this machine" : "only for other machines, links or versions") +
             " it has " + ops;
  }
  return "; it has none at all";
}

/// "; it has plans of it as tuned, nightly" where the key's operator has plans of other purposes on its machine.
std::string other_purposes(const SQLite::Database& database, const PlanKey& key) {
  // The key of models has no purpose.
  SQLite::Statement statement(
      database, "SELECT DISTINCT purpose FROM plan WHERE " + key_condition(Table::Model) + " ORDER BY purpose");
  bind_key(statement, Table::Model, key);
  std::vector<std::string> names;
  while (statement.executeStep()) names.push_back(one_line(statement.getColumn(0).getString()));
  return names.empty() ? "" : "; it has plans of it as " + list_text(names);
}

/// "; one was made elsewhere (cpu_model: here 'x', there 'y')" if there is a model of the operator for another machine.
std::string other_machine(const SQLite::Database& database, const planner::OpSpec& op,
                          const planner::Fingerprint& fingerprint) {
  SQLite::Statement statement(database, select_sql(Table::Model,
                                                   "WHERE kind = ?2 AND m = ?3 AND n = ?4 AND k = ?5 AND dtype = ?6 "
                                                   "AND world_size = ?7 AND fingerprint_digest <> ?1 "
                                                   "ORDER BY created_at DESC, id DESC LIMIT 1"));
  bind_key(statement, Table::Model, PlanKey{op, digest(fingerprint), ""});
  if (!statement.executeStep()) return {};
  const auto record = current_record(statement, Table::Model);
  if (!record) return {};
  const auto model = decode_model(record.value().document);
  if (!model) return {};
  const auto differences = fingerprint.differences(model.value().fingerprint);
  return "; one was made elsewhere (" + (differences.empty() ? "" : one_line(differences.front())) + ")";
}

/// The ratios of a measurement that has predictions of its uncut parts.
planner::SpeedRatio ratios_of(const Measurement& one, std::string at) {
  const double serial_us =
      one.predicted_serial_us > 0 ? one.predicted_serial_us : one.predicted_compute_us + one.predicted_communication_us;
  const bool is_cut = one.cut.block_rows.size() > 1 && one.predicted_us > 0 && one.serial_us > 0;
  return {one.compute_us / one.predicted_compute_us,
          one.communication_us / one.predicted_communication_us,
          is_cut ? (1 - one.benefit) * serial_us / one.predicted_us : 0,
          one.compute_us + one.communication_us,
          one.predicted_us > 0 ? one.fused_us / one.predicted_us : 0,
          std::move(at)};
}

/// The SQL condition for measurements with predictions of a model made before. The race that a model was made from has
/// none, and says nothing about the speed at a later time.
const std::string kIsPredicted =
    "json_valid(document) AND json_extract(document, '$.predicted_compute_us') IS NOT NULL ";

const std::string kNewestFirst = "ORDER BY created_at DESC, id DESC ";

/// The newest measurements of a machine with predictions. Only the latest are searched for them.
const std::string kPredictedOnMachine = "WHERE id IN (SELECT id FROM measurement WHERE fingerprint_digest = ?1 " +
                                        kNewestFirst + "LIMIT " + std::to_string(10 * kMostSpeedRatios) + ") AND " +
                                        kIsPredicted + kNewestFirst + "LIMIT " + std::to_string(kMostSpeedRatios);

/// Profiles of one session each, put together from batches of samples, in the order of their rows.
class Sessions {
 public:
  /// Adds a batch to the newest session of its operator and machine if it continues that, else as a new session.
  void add(planner::Profile batch, const Record& record) {
    const auto newest = std::find_if(profiles_.rbegin(), profiles_.rend(), [&](const planner::Profile& session) {
      return session.op == batch.op && session.fingerprint == batch.fingerprint;
    });
    if (newest == profiles_.rend()) {
      begin(std::move(batch), record);
      return;
    }
    Batch& last = last_[static_cast<std::size_t>(std::distance(newest, profiles_.rend())) - 1];
    if (!goes_on(newest->samples, last, batch.samples, record)) {
      begin(std::move(batch), record);
      return;
    }
    last = {record.created_at, batch.samples.size()};
    newest->samples.insert(newest->samples.end(), batch.samples.begin(), batch.samples.end());
  }

  [[nodiscard]] std::vector<planner::Profile>& profiles() noexcept { return profiles_; }

 private:
  struct Batch {
    std::string created_at;
    std::size_t sample_count = 0;
  };

  void begin(planner::Profile batch, const Record& record) {
    last_.push_back({record.created_at, batch.samples.size()});
    profiles_.push_back(std::move(batch));
  }

  /// Whether a batch continues the session whose last batch is `last`: samples that were kept together, or later
  /// rounds.
  static bool goes_on(std::span<const planner::Sample> session, const Batch& last,
                      std::span<const planner::Sample> batch, const Record& record) {
    if (session.empty() || batch.empty()) return true;
    if (last.sample_count == kSamplesPerBatch && last.created_at == record.created_at) return true;
    const int first = std::ranges::min(batch, {}, &planner::Sample::round).round;
    return first > 0 && first >= std::ranges::max(session, {}, &planner::Sample::round).round;
  }

  std::vector<planner::Profile> profiles_;
  std::vector<Batch> last_; ///< of each profile
};

} // namespace

Result<planner::Profile> Store::find_profile(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::find_profile", [&]() -> Result<planner::Profile> {
    const PlanKey key{op, digest(fingerprint), ""};
    planner::Profile profile{op, fingerprint, {}};
    SQLite::Statement statement(
        impl_->database, select_sql(Table::SampleBatch, "WHERE " + key_condition(Table::SampleBatch) + " ORDER BY id"));
    bind_key(statement, Table::SampleBatch, key);
    Sessions sessions;
    while (statement.executeStep()) {
      const auto record = current_record(statement, Table::SampleBatch, key);
      if (!record) return impl_->located(record.error());
      auto batch = decoded<planner::Profile>(Table::SampleBatch, record.value());
      if (!batch && batch.error().code == ErrorCode::Stale) continue;
      if (!batch) return impl_->located(batch.error());
      sessions.add(std::move(batch).value(), record.value());
    }
    for (const planner::Profile& session : sessions.profiles()) profile.add_session(session.samples);
    if (!profile.samples.empty()) return profile;
    return impl_->error(ErrorCode::NotFound,
                        "has no samples for " + op.text() + " on this machine" +
                            alternatives(impl_->database, Table::SampleBatch, key.fingerprint_digest));
  });
}

Result<planner::CostModel> Store::find_model(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::find_model", [&]() -> Result<planner::CostModel> {
    PlanKey key{op, digest(fingerprint), ""};
    SQLite::Statement statement(impl_->database, model_query(op));
    bind_key(statement, Table::Model, key);
    while (statement.executeStep()) {
      key.op.m = statement.getColumn(kColumnOfM).getInt64();
      key.op.n = statement.getColumn(kColumnOfN).getInt64();
      const auto record = current_record(statement, Table::Model, key);
      if (!record) return impl_->located(record.error());
      auto model = decoded<planner::CostModel>(Table::Model, record.value());
      if (!model && model.error().code == ErrorCode::Stale) continue;
      return model ? std::move(model) : impl_->located(model.error());
    }
    return impl_->error(ErrorCode::NotFound, "has no cost model for " + op.text() + " on this machine" +
                                                 other_machine(impl_->database, op, fingerprint) +
                                                 alternatives(impl_->database, Table::Model, key.fingerprint_digest));
  });
}

Result<std::vector<planner::CostModel>> Store::list_models(const planner::OpSpec& op,
                                                           const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::list_models", [&]() -> Result<std::vector<planner::CostModel>> {
    SQLite::Statement statement(impl_->database, select_sql(Table::Model,
                                                            "WHERE fingerprint_digest = ?1 AND kind = ?2 AND "
                                                            "dtype = ?6 AND world_size = ?7 "
                                                            "ORDER BY created_at DESC, id DESC"));
    bind_key(statement, Table::Model, PlanKey{op, digest(fingerprint), ""});
    std::vector<planner::CostModel> models;
    each_readable<planner::CostModel>(statement, Table::Model, [&](planner::CostModel model, const Record&) {
      // A damaged index may lead to a model of another machine.
      if (model.fingerprint == fingerprint) models.push_back(std::move(model));
    });
    return models;
  });
}

Result<std::vector<planner::Profile>> Store::list_profiles(const std::map<std::string, std::string>& fields) const {
  return impl_->read("Store::list_profiles", [&]() -> Result<std::vector<planner::Profile>> {
    std::vector<std::string> conditions;
    for (std::size_t i = 0; i < fields.size(); ++i)
      conditions.push_back("json_extract(document, ?" + std::to_string(2 * i + 1) + ") = ?" +
                           std::to_string(2 * i + 2));
    SQLite::Statement statement(
        impl_->database,
        select_sql(Table::SampleBatch,
                   "WHERE fingerprint_digest IN (SELECT digest FROM fingerprint WHERE json_valid(document) AND " +
                       list_text(conditions, " AND ") + ") ORDER BY id"));
    int index = 0;
    for (const auto& [key, value] : fields) {
      statement.bind(++index, "$.fields.\"" + key + "\"");
      statement.bind(++index, value);
    }
    Sessions sessions;
    each_readable<planner::Profile>(statement, Table::SampleBatch, [&](planner::Profile batch, const Record& record) {
      sessions.add(std::move(batch), record);
    });
    return std::move(sessions.profiles());
  });
}

Result<StoredPlan> Store::find_plan(const PlanKey& key) const {
  return impl_->read("Store::find_plan", [&]() -> Result<StoredPlan> {
    const auto record = find_record(impl_->database, Table::Plan, key);
    if (!record) return impl_->located(record.error());
    if (!record.value()) {
      const std::string purposes = other_purposes(impl_->database, key);
      return impl_->error(
          ErrorCode::NotFound,
          "has no " + (key.purpose.empty() ? "" : one_line(key.purpose, 24) + " ") + "plan for " + key.op.text() +
              (purposes.empty() ? alternatives(impl_->database, Table::Plan, key.fingerprint_digest) : purposes));
    }
    auto plan = to_stored_plan(*record.value());
    return plan ? std::move(plan) : impl_->located(plan.error());
  });
}

Result<StoredPlan> Store::find_plan(const std::string& digest_prefix) const {
  return impl_->read("Store::find_plan", [&]() -> Result<StoredPlan> {
    const auto record = find_by_digest(impl_->database, Table::Plan, digest_prefix);
    if (!record) return impl_->located(record.error());
    auto plan = to_stored_plan(record.value());
    return plan ? std::move(plan) : impl_->located(plan.error());
  });
}

Result<std::vector<StoredPlan>> Store::list_plans() const {
  return impl_->read("Store::list_plans", [&]() -> Result<std::vector<StoredPlan>> {
    std::vector<std::pair<std::int64_t, StoredPlan>> plans;
    // check() reports damaged plans.
    static_cast<void>(scan_records(impl_->database, Table::Plan, [&](const Record& record, const auto&) {
      if (auto plan = to_stored_plan(record)) plans.emplace_back(record.row_id, std::move(plan).value());
    }));
    std::sort(plans.begin(), plans.end(), [](const auto& left, const auto& right) {
      return std::tie(left.second.created_at, left.first) > std::tie(right.second.created_at, right.first);
    });
    std::vector<StoredPlan> result;
    result.reserve(plans.size());
    for (auto& [row_id, plan] : plans) result.push_back(std::move(plan));
    return result;
  });
}

Result<std::vector<Measurement>> Store::list_measurements(const planner::OpSpec& op,
                                                          const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::list_measurements", [&]() -> Result<std::vector<Measurement>> {
    const PlanKey key{op, digest(fingerprint), ""};
    SQLite::Statement statement(
        impl_->database, select_sql(Table::Measurement, "WHERE " + key_condition(Table::Measurement) + " ORDER BY id"));
    bind_key(statement, Table::Measurement, key);
    std::vector<Measurement> result;
    each_readable<MeasurementRecord>(statement, Table::Measurement, [&](MeasurementRecord one, const Record& row) {
      if (row.key == key) result.push_back(std::move(one.measurement)); // else an index is damaged
    });
    return result;
  });
}

Result<bool> Store::has_run(const planner::OpSpec& op, const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::has_run", [&]() -> Result<bool> {
    SQLite::Statement own(impl_->database,
                          select_sql(Table::Measurement, same_block_costs(op) + "AND " + kIsPredicted + "LIMIT 1"));
    bind_key(own, Table::Measurement, {op, digest(fingerprint), ""});
    return own.executeStep();
  });
}

Result<planner::SpeedRecord> Store::speed_record(const planner::OpSpec& op,
                                                 const planner::Fingerprint& fingerprint) const {
  return impl_->read("Store::speed_record", [&]() -> Result<planner::SpeedRecord> {
    const PlanKey key{op, digest(fingerprint), ""};
    planner::SpeedRecord record;
    SQLite::Statement predicted(impl_->database, select_sql(Table::Measurement, kPredictedOnMachine));
    predicted.bind(1, key.fingerprint_digest);
    each_readable<MeasurementRecord>(predicted, Table::Measurement,
                                     [&](const MeasurementRecord& one, const Record& row) {
                                       record.ratios.push_back(ratios_of(one.measurement, row.created_at));
                                     });
    const std::string newest = "AND " + kIsPredicted + kNewestFirst + "LIMIT " + std::to_string(kMostUncutRuns);
    SQLite::Statement own(impl_->database, select_sql(Table::Measurement, same_block_costs(op) + newest));
    bind_key(own, Table::Measurement, key);
    each_readable<MeasurementRecord>(own, Table::Measurement, [&](const MeasurementRecord& kept, const Record& row) {
      const Measurement& one = kept.measurement;
      record.runs.push_back({one.op, one.variant, one.compute_us, one.communication_us, row.created_at});
    });
    return record;
  });
}

} // namespace mc2::store
