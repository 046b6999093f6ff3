#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "convert.hpp"
#include "mc2/client/client.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using client::Client;
using planner::Fingerprint;
using planner::OpSpec;
using store::PlanAnswer;

/// Wraps a member function of the client: it returns the value, or throws Failure for an error.
template <typename... Arguments, typename Value>
auto unwrapped(Result<Value> (Client::*function)(Arguments...) const) {
  return [function](const Client& self, Arguments... arguments) { return unwrap((self.*function)(arguments...)); };
}

Client open_client(std::string url, std::string token, const std::filesystem::path& ca_file, double deadline_s) {
  client::Options options;
  options.url = std::move(url);
  options.token = std::move(token);
  options.ca_file = ca_file;
  options.deadline = deadline_of(deadline_s);
  return unwrap(Client::open(options));
}

PlanAnswer find_plan(const Client& self, const OpSpec& op, const Fingerprint& machine,
                     std::optional<std::int64_t> epoch, bool may_transfer) {
  return unwrap(self.find_plan({.op = op, .machine = machine, .may_transfer = may_transfer}, {.epoch = epoch}));
}

void bind_answer(py::module_& module) {
  py::class_<PlanAnswer>(module, "PlanAnswer", "A plan, and where the service got it from.")
      .def_readonly("plan", &PlanAnswer::plan)
      .def_readonly("document", &PlanAnswer::document)
      .def_readonly("digest", &PlanAnswer::digest)
      .def_readonly("epoch", &PlanAnswer::epoch)
      .def_readonly("source", &PlanAnswer::source)
      .def_readonly("provenance", &PlanAnswer::provenance)
      .def_readonly("created_at", &PlanAnswer::created_at)
      .def_readonly("staleness", &PlanAnswer::staleness)
      .def("_repr_html_", [](const PlanAnswer& answer) { return py::cast(answer.plan).attr("_repr_html_")(); });
}

void bind_client(py::module_& module) {
  py::class_<Client>(module, "Client", "A client of one plan service. Threads may share it.")
      .def(py::init(&open_client), "url"_a, py::kw_only(), "token"_a = "", "ca_file"_a = "", "deadline_s"_a = 10.0)
      .def_property_readonly("url", &Client::url)
      .def("find_plan", &find_plan, "op"_a, "fingerprint"_a, "epoch"_a = py::none(), "may_transfer"_a = true, NoGil())
      .def("find_model", unwrapped<const OpSpec&, const Fingerprint&>(&Client::find_model), "op"_a, "fingerprint"_a,
           NoGil())
      .def("put_plan", unwrapped(&Client::put_plan), "plan"_a, "purpose"_a = store::PlanKey{}.purpose, NoGil())
      .def("put_model", unwrapped(&Client::put_model), "model"_a, NoGil())
      .def("add_samples", unwrapped(&Client::add_samples), "profile"_a, NoGil());
}

} // namespace
} // namespace mc2::python

PYBIND11_MODULE(_client, module) {
  using namespace mc2;
  python::begin_module(module, "A client of the plan service (mc2 serve).");
  python::bind_answer(module);
  python::bind_client(module);
}
