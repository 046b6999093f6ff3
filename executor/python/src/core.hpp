#pragma once

#include <pybind11/functional.h>
#include <pybind11/operators.h>

#include <functional>

#include "convert.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/codec.hpp"

/// The parts of the module mc2._core: what needs neither devices nor networks.
namespace mc2::python {

void bind_values(py::module_& module);    ///< operators, fingerprints, variants
void bind_models(py::module_& module);    ///< cost models and what they are fitted to
void bind_plans(py::module_& module);     ///< plans, timelines, planning
void bind_ranges(py::module_& module);    ///< plans as a function of m
void bind_measuring(py::module_& module); ///< sweeps, fits, recalibration, statistics
void bind_tuning(py::module_& module);    ///< benches, races, the tuner
void bind_store(py::module_& module);
void bind_finder(py::module_& module); ///< where a plan comes from

/// What every value has that is a document, too. It is pickled and copied as that.
template <typename Value>
void add_document(py::class_<Value>& type, Result<Value> (*decode)(std::string_view)) {
  using namespace py::literals;
  type.def("to_json", [](const Value& value) { return store::encode(value); })
      .def("to_dict", [](const Value& value) { return to_dict(store::encode(value)); })
      .def_static(
          "from_json", [decode](const std::string& json) { return unwrap(decode(json)); }, "json"_a)
      .def(py::pickle([](const Value& value) { return store::encode(value); },
                      [decode](const std::string& json) { return unwrap(decode(json)); }))
      .def(py::self == py::self);
}

/// TypeError for what a function of the caller's returned, naming the function.
[[nodiscard]] inline py::type_error wrong_result(const std::string& function, const std::string& needed,
                                                 const py::handle& returned) {
  const auto type = py::str(py::type::of(returned).attr("__name__")).cast<std::string>();
  return py::type_error(function + " returned a " + type + "; needs " + needed);
}

/// What a function of the caller's returned, as a value. Throws wrong_result().
template <typename Value>
[[nodiscard]] Value returned_by(const std::string& function, const std::string& needed, const py::object& returned) {
  try {
    return returned.cast<Value>();
  } catch (const py::cast_error&) {
    throw wrong_result(function, needed, returned);
  }
}

/// A function of the caller's that gives samples. Called with and without the interpreter's lock.
using Measure = std::function<py::object()>;

/// Its samples. TypeError, or Failure for none, naming the argument or function that it is from, and it.
[[nodiscard]] std::vector<planner::Sample> samples_of(const Measure& measure, const std::string& field,
                                                      const std::string& name);

/// Failure naming the argument for a count below 1.
int checked_count(const char* name, int count);

inline constexpr int kPageWidth = 100; ///< of pages of text, in columns

/// The width of a page as it is; Failure for one that is none.
[[nodiscard]] int checked_page_width(int width);

/// The options that keywords name over `base`; others are refused with the names that there are.
[[nodiscard]] planner::PlanOptions to_options(const py::kwargs& words, planner::PlanOptions base = {});

} // namespace mc2::python
