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
  const store::PlanKey key{op, store::digest(machine.canonical_text()), purpose};
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
      .def_readonly("plan", &StoredPlan::plan)
      .def_readonly("document", &StoredPlan::document)
      .def_readonly("digest", &StoredPlan::digest)
      .def_readonly("created_at", &StoredPlan::created_at)
      .def("_repr_html_", [](const StoredPlan& stored) { return py::cast(stored.plan).attr("_repr_html_")(); })
      .def_property_readonly("purpose", [](const StoredPlan& stored) { return stored.key.purpose; });
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
      .def("find_plan", &find_plan, "op"_a, "fingerprint"_a, "purpose"_a = "tuned", NoGil())
      .def("find_plan_by_digest", in_store<const std::string&>(&Store::find_plan), "prefix"_a, NoGil())
      .def(
          "list_plans", [](OpenStore& self) { return self.use([](Store& store) { return store.list_plans(); }); },
          NoGil())
      .def(
          "remove_plan",
          [](OpenStore& self, const std::string& digest) {
            self.use([&](Store& store) { return store.remove_plan(digest); });
          },
          "digest"_a, NoGil())
      .def("add_measurement", &add_measurement, "plan"_a, "compute_us"_a, "communication_us"_a, NoGil());
}

void bind_models_of(py::class_<OpenStore, std::shared_ptr<OpenStore>>& type) {
  type.def(
          "put_model",
          [](OpenStore& self, const planner::CostModel& model) {
            return self.use([&](Store& store) { return store.put_model(model, store::utc_now()); });
          },
          "model"_a, NoGil())
      .def("find_model", in_store<const OpSpec&, const Fingerprint&>(&Store::find_model), "op"_a, "fingerprint"_a,
           NoGil())
      .def("list_models", in_store<const OpSpec&, const Fingerprint&>(&Store::list_models), "op"_a, "fingerprint"_a,
           NoGil())
      .def("append_samples", &append_samples, "profile"_a, NoGil())
      .def("find_profile", in_store(&Store::find_profile), "op"_a, "fingerprint"_a, NoGil());
}

} // namespace

void bind_store(py::module_& module) {
  bind_stored_plan(module);
  py::class_<OpenStore, std::shared_ptr<OpenStore>> type(
      module, "Store",
      "An SQLite file that keeps samples, models, plans and measurements. Threads may share it; a child after\n"
      "fork() opens its own.");
  type.def(py::init<const std::filesystem::path&, bool>(), "path"_a, "read_only"_a = false, NoGil())
      .def_property_readonly("path", &OpenStore::path)
      .def("revision", in_store(&Store::revision), NoGil())
      .def(
          "stats", [](OpenStore& self) { return self.use([](Store& store) { return stats(store); }); }, NoGil())
      .def("_repr_html_", &stats_table, NoGil())
      .def("export_json", in_store(&Store::export_json), NoGil())
      .def("close", &OpenStore::close, NoGil())
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
