#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "core.hpp"
#include "mc2/embed/store_keeper.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/dates.hpp"
#include "mc2/store/store.hpp"
#include "open_store.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::Fingerprint;
using planner::OpSpec;
using store::Store;
using store::StoredPlan;

/// Wraps a member function of Store as a function of an OpenStore.
template <typename... Arguments, typename Value>
auto in_store(Result<Value> (Store::*function)(Arguments...) const) {
  return [function](OpenStore& self, Arguments... arguments) {
    return self.use([&](const Store& store) { return (store.*function)(arguments...); });
  };
}

StoredPlan find_plan(OpenStore& self, const OpSpec& op, const Fingerprint& machine, const std::string& purpose) {
  const store::PlanKey key{op, store::digest(machine), purpose};
  return self.use([&](Store& store) { return store.find_plan(key); });
}

std::vector<std::string> append_samples(OpenStore& self, const planner::Profile& p) {
  return self.use([&](Store& store) { return store.append_samples(p.op, p.fingerprint, p.samples, store::utc_now()); });
}

Result<std::map<std::string, std::int64_t>> stats(const Store& store) {
  MC2_ASSIGN(const store::StoreStats counts, store.stats());
  return std::map<std::string, std::int64_t>{{"schema_version", counts.schema_version},
                                             {"file_bytes", counts.file_bytes},
                                             {"fingerprints", counts.fingerprint_count},
                                             {"samples", counts.sample_count},
                                             {"models", counts.model_count},
                                             {"plans", counts.plan_count},
                                             {"measurements", counts.measurement_count}};
}

void bind_stored_plan(py::module_& module) {
  py::class_<StoredPlan>(module, "StoredPlan",
                         "A plan that a store keeps, with its document, digest, purpose and date.")
      .def_readonly("plan", &StoredPlan::plan, "The plan.")
      .def_readonly("document", &StoredPlan::document, "The plan's document as JSON text, exactly as kept.")
      .def_readonly("digest", &StoredPlan::digest, "SHA-256 of the document, as 64 hexadecimal digits.")
      .def_readonly("created_at", &StoredPlan::created_at, "When the plan was kept, ISO 8601 in UTC.")
      .def("_repr_html_", [](const StoredPlan& stored) { return py::cast(stored.plan).attr("_repr_html_")(); })
      .def_property_readonly(
          "purpose", [](const StoredPlan& stored) { return stored.key.purpose; },
          "What the plan is kept for. \"tuned\": the best plan of its operator and machine.");
}

std::string stats_table(OpenStore& self) {
  std::vector<std::vector<std::string>> rows{{self.path().string(), ""}};
  for (const auto& [name, count] : self.use([](Store& store) { return stats(store); }))
    rows.push_back({name, std::to_string(count)});
  return html_table(rows);
}

/// Keeps the validation of a plan that has raced as a measurement.
std::string add_measurement(OpenStore& self, const planner::Plan& plan, double compute_us, double communication_us) {
  if (!plan.validation) throw Failure({ErrorCode::InvalidSpec, "plan", "has no validation: it was never raced"});
  const auto measured = embed::measurement_of(plan, *plan.validation, compute_us, communication_us);
  return self.use([&](Store& store) { return store.add_measurement(plan.fingerprint, measured, store::utc_now()); });
}

void bind_plans_of(py::class_<OpenStore, std::shared_ptr<OpenStore>>& type) {
  type.def(
          "put_plan",
          [](OpenStore& self, const planner::Plan& plan, const std::string& purpose) {
            return self.use([&](Store& store) { return store.put_plan(plan, purpose, store::utc_now()); });
          },
          "plan"_a, "purpose"_a = "tuned", NoGil(),
          "Keeps the plan and returns its digest. Replaces an earlier one of the same operator, machine and\n"
          "purpose.")
      .def("find_plan", &find_plan, "op"_a, "fingerprint"_a, "purpose"_a = "tuned", NoGil(),
           "The plan kept for this operator, machine and purpose. Raises mc2.Error: not_found if there is\n"
           "none, corrupt if it is damaged, stale if it has blocks of rows although its operator is now cut in\n"
           "columns.")
      .def("find_plan_by_digest", in_store<const std::string&>(&Store::find_plan), "prefix"_a, NoGil(),
           "The kept plan with this digest, or with a unique prefix of it of at least 6 digits. Raises\n"
           "mc2.Error: not_found, corrupt, or invalid_spec for a prefix that is too short or not unique.")
      .def(
          "list_plans", [](OpenStore& self) { return self.use([](Store& store) { return store.list_plans(); }); },
          NoGil(), "All undamaged plans, the newest first.")
      .def(
          "remove_plan",
          [](OpenStore& self, const std::string& digest) {
            self.use([&](Store& store) { return store.remove_plan(digest); });
          },
          "digest"_a, NoGil(),
          "Removes every plan with exactly this digest. Raises mc2.Error (not_found) if there is none.")
      .def("add_measurement", &add_measurement, "plan"_a, "compute_us"_a, "communication_us"_a, NoGil(),
           "Keeps the validation of a plan that has raced as a measurement, and returns its digest. compute_us\n"
           "and communication_us are the median times of the uncut matmul and of the uncut collective, in us.\n"
           "Raises mc2.Error (invalid_spec) if the plan has no validation.");
}

void bind_models_of(py::class_<OpenStore, std::shared_ptr<OpenStore>>& type) {
  type.def(
          "put_model",
          [](OpenStore& self, const planner::CostModel& model) {
            return self.use([&](Store& store) { return store.put_model(model, store::utc_now()); });
          },
          "model"_a, NoGil(),
          "Keeps the model and returns its digest. Replaces an earlier one of the same operator and machine.")
      .def("find_model", in_store<const OpSpec&, const Fingerprint&>(&Store::find_model), "op"_a, "fingerprint"_a,
           NoGil(),
           "The model kept for exactly this operator and machine, else the one for the nearest other length of\n"
           "the cut axis. Raises mc2.Error: not_found if there is none, corrupt if it is damaged.")
      .def("list_models", in_store<const OpSpec&, const Fingerprint&>(&Store::list_models), "op"_a, "fingerprint"_a,
           NoGil(),
           "All undamaged models of this kind, element type and number of ranks on this machine, with any m, n\n"
           "and k, the newest first.")
      .def("append_samples", &append_samples, "profile"_a, NoGil(),
           "Adds the profile's samples to those kept for its operator and machine. They are kept in batches;\n"
           "returns the digests of these.")
      .def("find_profile", in_store(&Store::find_profile), "op"_a, "fingerprint"_a, NoGil(),
           "All samples kept for this operator, m included, and machine, in the order in which they were\n"
           "added. Raises mc2.Error: not_found if there are none, corrupt if some are damaged.");
}

} // namespace

void bind_store(py::module_& module) {
  bind_stored_plan(module);
  py::class_<OpenStore, std::shared_ptr<OpenStore>> type(
      module, "Store",
      "An SQLite file that keeps samples, models, plans and measurements. Threads may share it; a child after\n"
      "fork() opens its own.\n"
      "The file is created if it does not exist. With read_only=True it must exist, and calls that would change\n"
      "it raise mc2.Error (read_only).");
  type.def(py::init<const std::filesystem::path&, bool>(), "path"_a, "read_only"_a = false, NoGil())
      .def_property_readonly("path", &OpenStore::path, "The file, as a pathlib.Path.")
      .def("revision", in_store(&Store::revision), NoGil(),
           "A number that rises whenever any program adds, replaces or removes a document of this file.")
      .def(
          "stats", [](OpenStore& self) { return self.use([](Store& store) { return stats(store); }); }, NoGil(),
          "Figures about the file, by name: schema_version, file_bytes, and how many fingerprints, samples,\n"
          "models, plans and measurements it has.")
      .def("_repr_html_", &stats_table, NoGil())
      .def("export_json", in_store(&Store::export_json), NoGil(),
           "Every undamaged document as one JSON document, which also names the damaged ones.")
      .def("close", &OpenStore::close, NoGil(),
           "Closes the file. Later calls raise mc2.Error (invalid_spec); closing again does nothing.")
      .def(
          "__enter__", [](OpenStore& self) -> OpenStore& { return self; }, py::return_value_policy::reference)
      .def("__exit__", [](OpenStore& self, const py::args&) {
        const py::gil_scoped_release released; // close() waits for a thread that may need the interpreter's lock
        self.close();
      });
  bind_plans_of(type);
  bind_models_of(type);
}

} // namespace mc2::python
