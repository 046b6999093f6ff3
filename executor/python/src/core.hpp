#pragma once

#include <pybind11/functional.h>
#include <pybind11/operators.h>

#include <functional>

#include "convert.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/store/codec.hpp"

/// The parts of the module mc2._core, which needs neither devices nor networks.
namespace mc2::python {

void bind_values(py::module_& module);    ///< operators, fingerprints, variants
void bind_models(py::module_& module);    ///< cost models and what they are fitted to
void bind_plans(py::module_& module);     ///< plans, timelines, planning
void bind_ranges(py::module_& module);    ///< plans as a function of m
void bind_measuring(py::module_& module); ///< sweeps, fits, recalibration, statistics
void bind_tuning(py::module_& module);    ///< benches, races, the tuner
void bind_store(py::module_& module);
void bind_published_models(py::module_& module); ///< needs the types of bind_store()
void bind_finder(py::module_& module);           ///< where a plan comes from

/// Python's name for a measured cut whose uncut parts were timed beside it.
struct RaceObservation : planner::MeasuredCut {};

/// Adds the methods of a value that has a JSON document. The value is pickled and copied as its document.
template <typename Value>
void add_document(py::class_<Value>& type, Result<Value> (*decode)(std::string_view)) {
  using namespace py::literals;
  type.def(
          "to_json", [](const Value& value) { return store::encode(value); },
          "The document as JSON text: sorted keys, no white space, so that equal values have equal texts. The\n"
          "JSON Schemas in schemas/ describe it.")
      .def(
          "to_dict", [](const Value& value) { return to_dict(store::encode(value)); },
          "The document of to_json() as Python's dicts and lists.")
      .def_static(
          "from_json", [decode](const std::string& json) { return unwrap(decode(json)); }, "json"_a,
          "Reads a document as to_json() writes it. Raises mc2.Error: malformed for text that is no such\n"
          "document, newer_version for one that a newer mc2 wrote, unknown_name or invalid_spec for a value\n"
          "that is not legal.")
      .def(py::pickle([](const Value& value) { return store::encode(value); },
                      [decode](const std::string& json) { return unwrap(decode(json)); }))
      .def(py::self == py::self);
}

/// Gives a type the text <mc2.NAME ...>, with what `text_of` returns for a value.
template <typename Value, typename TextOf>
void add_repr(py::class_<Value>& type, const std::string& name, const TextOf& text_of) {
  type.def("__repr__", [name, text_of](const Value& value) { return "<mc2." + name + " " + text_of(value) + ">"; });
}

/// A TypeError for a result of the caller's function, naming the function.
[[nodiscard]] inline py::type_error wrong_result(const std::string& function, const std::string& needed,
                                                 const py::handle& returned) {
  const auto type = py::str(py::type::of(returned).attr("__name__")).cast<std::string>();
  const std::string value = py::isinstance<py::int_>(returned) ? " " + py::str(returned).cast<std::string>() : "";
  return py::type_error(function + " returned a value of type " + type + value + "; needs " + needed);
}

/// The result of a caller's function as a value. Throws wrong_result() for another type.
template <typename Value>
[[nodiscard]] Value returned_by(const std::string& function, const std::string& needed, const py::object& returned) {
  try {
    return returned.cast<Value>();
  } catch (const py::cast_error&) {
    throw wrong_result(function, needed, returned);
  }
}

/// A caller's function that returns samples. It may be called with or without the interpreter's lock.
using Measure = std::function<py::object()>;

/// The samples that the function returns. Throws TypeError for anything else and Failure for none.
/// @param field, name  for these errors: the argument or function that `measure` comes from, and its name there
[[nodiscard]] std::vector<planner::Sample> samples_of(const Measure& measure, const std::string& field,
                                                      const std::string& name);

/// Returns a count. Throws Failure naming the argument if it is below 1.
int checked_count(const char* name, int count);

inline constexpr int kPageWidth = 100; ///< default width of pages of text, in columns

/// Returns the width of a page. Throws Failure if it is not legal.
[[nodiscard]] int checked_page_width(int width);

/// `base` with the options that the keywords name. Throws Failure for an unknown keyword, listing the legal ones.
[[nodiscard]] planner::PlanOptions to_options(const py::kwargs& words, planner::PlanOptions base);

} // namespace mc2::python
