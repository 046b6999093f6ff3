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
      .def_readonly("plan", &PlanAnswer::plan, "The plan.")
      .def_readonly("document", &PlanAnswer::document, "The plan's document as JSON text.")
      .def_readonly("digest", &PlanAnswer::digest, "SHA-256 of the document, as 64 hexadecimal digits.")
      .def_readonly("epoch", &PlanAnswer::epoch,
                    "Revision of the service's store since which this is its answer. Client.find_plan(epoch=...) asks\n"
                    "for the same answer again.")
      .def_readonly("source", &PlanAnswer::source,
                    "\"stored\" for a plan that the service keeps, \"model\" for one that it made from a model.")
      .def_readonly("provenance", &PlanAnswer::provenance, "Provenance of the predicted time, as Estimate.provenance.")
      .def_readonly("created_at", &PlanAnswer::created_at,
                    "When a stored plan was kept, ISO 8601 in UTC; empty for other plans.")
      .def_readonly("staleness", &PlanAnswer::staleness,
                    "For a stored plan that is worth tuning again: how much longer it is predicted to take than the\n"
                    "best cut. Otherwise None.")
      .def("_repr_html_", [](const PlanAnswer& answer) { return py::cast(answer.plan).attr("_repr_html_")(); });
}

void bind_client(py::module_& module) {
  py::class_<Client>(
      module, "Client",
      "A client of one plan service. Threads may share it.\n"
      "url         \"http://host:port\", \"https://...\", or \"unix:PATH\" for a service on this machine\n"
      "token       bearer token; empty: none is sent\n"
      "ca_file     trusted certificates (PEM) for https; empty: those of the system\n"
      "deadline_s  longest time of one call\n"
      "Every call raises mc2.Error with code unsupported if the service does not answer in time or cannot be\n"
      "reached, and with invalid_spec if it does not accept the token.")
      .def(py::init(&open_client), "url"_a, py::kw_only(), "token"_a = "", "ca_file"_a = "", "deadline_s"_a = 10.0)
      .def_property_readonly("url", &Client::url, "The address of the service.")
      .def("find_plan", &find_plan, "op"_a, "fingerprint"_a, "epoch"_a = py::none(), "may_transfer"_a = true, NoGil(),
           "The service's plan for an operator on a machine: the one that it keeps, or one that it makes from\n"
           "a model.\n"
           "epoch         asks for the answer of this epoch, so that all ranks of a job get the same plan\n"
           "may_transfer  whether a model of another n and k may answer\n"
           "Raises mc2.Error: not_found if the service has none, stale if it no longer knows the answer of\n"
           "that epoch.")
      .def("find_model", unwrapped<const OpSpec&, const Fingerprint&>(&Client::find_model), "op"_a, "fingerprint"_a,
           NoGil(),
           "The model that the service keeps for exactly this operator and machine, else the one for the\n"
           "nearest other length of the cut axis. Raises mc2.Error (not_found) if there is none.")
      .def("put_plan", unwrapped(&Client::put_plan), "plan"_a, "purpose"_a = store::PlanKey{}.purpose, NoGil(),
           "Keeps the plan at the service and returns its digest. Replaces an earlier one of the same\n"
           "operator, machine and purpose.")
      .def("put_model", unwrapped(&Client::put_model), "model"_a, NoGil(),
           "Keeps the model at the service and returns its digest. Replaces an earlier one of the same\n"
           "operator and machine.")
      .def("add_samples", unwrapped(&Client::add_samples), "profile"_a, NoGil(),
           "Sends the samples to the service, which adds them unless it has them already. Returns how many\n"
           "were sent.");
}

} // namespace
} // namespace mc2::python

PYBIND11_MODULE(_client, module) {
  using namespace mc2;
  python::begin_module(module, "A client of the plan service (mc2 serve).");
  python::bind_answer(module);
  python::bind_client(module);
}
