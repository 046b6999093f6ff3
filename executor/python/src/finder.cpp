#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>

#include "convert.hpp"
#include "mc2/embed/environment.hpp"
#include "mc2/embed/plan_finder.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using embed::FinderOptions;
using embed::PlanFinder;
using finder::FoundPlan;
using Paths = std::vector<std::filesystem::path>;

PlanFinder open_finder(Paths plan_files, const std::optional<std::string>& server, std::string token,
                       std::optional<std::filesystem::path> store, Paths read_only_stores,
                       std::vector<planner::CostModel> models, bool may_transfer, bool is_disabled) {
  FinderOptions options;
  options.plan_files = std::move(plan_files);
  if (server) {
    options.service = client::Options{};
    options.service->url = *server;
    options.service->token = std::move(token);
  }
  if (store) options.store = std::move(*store);
  options.read_only_stores = std::move(read_only_stores);
  options.models = std::move(models);
  options.may_transfer = may_transfer;
  options.is_disabled = is_disabled;
  return unwrap(PlanFinder::open(std::move(options)));
}

/// Finds a plan. The result is shared with the finder's memory of plans and stays valid as long as Python keeps it.
std::shared_ptr<const FoundPlan> find(const PlanFinder& self, const planner::OpSpec& op,
                                      const planner::Fingerprint& machine, std::optional<planner::Variant> variant,
                                      bool may_transfer) {
  return unwrap(self.find({.op = op, .machine = machine, .variant = std::move(variant), .may_transfer = may_transfer}));
}

void bind_plan_finder(py::module_& module) {
  py::class_<PlanFinder>(
      module, "PlanFinder",
      "Looks for plans in files, at a service, in stores and in models, in this order, and remembers them.\n"
      "plan_files        files that each hold the document of a plan\n"
      "server, token     the service's address and bearer token, as for mc2.Client; None: no service\n"
      "store             a store's file, made if it does not exist, only read where it may not be written; None: no\n"
      "                  store\n"
      "read_only_stores  further stores, lowest priority first\n"
      "models            used before the models in the stores\n"
      "may_transfer      whether a model of another n and k may answer\n"
      "is_disabled       every answer is the uncut plan")
      .def(py::init(&open_finder), py::kw_only(), "plan_files"_a = Paths{}, "server"_a = py::none(), "token"_a = "",
           "store"_a = py::none(), "read_only_stores"_a = Paths{}, "models"_a = std::vector<mc2::planner::CostModel>{},
           "may_transfer"_a = true, "is_disabled"_a = false)
      .def_static(
          "from_environment",
          [] { return unwrap(PlanFinder::open(mc2::embed::finder_options(unwrap(mc2::embed::read_environment())))); },
          NoGil(),
          "A finder with the service that MC2_SERVER names, the store that MC2_STORE names (default: the user's own),\n"
          "and the system's stores. With MC2_DISABLE=1 it finds uncut plans only.")
      .def(
          "find",
          [](const PlanFinder& self, const mc2::planner::OpSpec& op, const mc2::planner::Fingerprint& machine,
             std::optional<mc2::planner::Variant> variant, bool may_transfer) {
            return std::const_pointer_cast<FoundPlan>(find(self, op, machine, std::move(variant), may_transfer));
          },
          "op"_a, "fingerprint"_a, py::kw_only(), "variant"_a = py::none(), "may_transfer"_a = true, NoGil(),
          "The plan from the first place that has one. For up to 30 s an equal question gets the same plan.\n"
          "variant       only plans of this variant; None: of any\n"
          "may_transfer  whether a model of another n and k may answer\n"
          "Raises mc2.Error with every place's reason if no place has a plan.")
      .def(
          "find_ranges",
          [](const PlanFinder& self, const mc2::planner::OpSpec& op, const mc2::planner::Fingerprint& machine,
             std::int64_t first_m) { return unwrap(self.find_ranges({.op = op, .machine = machine}, first_m)); },
          "op"_a, "fingerprint"_a, "first_m"_a, NoGil(),
          "As mc2.find_plan_ranges(), with the finder's models and those in its stores.");
}

void bind_uncut_plan(py::module_& module) {
  module.def(
      "uncut_plan",
      [](const planner::OpSpec& op, const planner::Fingerprint& machine) {
        return unwrap(embed::uncut_plan(op, machine));
      },
      "op"_a, "fingerprint"_a,
      "The plan of one block: the machine's backend runs matmul and collective one after the other, as a\n"
      "program without mc2 does. Its times are 0.");
}

} // namespace
} // namespace mc2::python

PYBIND11_MODULE(_finder, module) {
  using namespace mc2;
  python::begin_module(module, "Finding plans in files, at a service, in stores and in models.");
  module.attr("FoundPlan") = pybind11::module_::import("mc2._core").attr("FoundPlan");
  python::bind_plan_finder(module);
  python::bind_uncut_plan(module);
}
