#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "whole_number.hpp"

namespace mc2::python {

namespace py = pybind11;

/// An Error as an exception, which becomes mc2.Error in Python. It may be thrown without the interpreter's lock.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {
    if (error_.field == "world_size") error_.field = "ranks"; // the name of the argument everywhere in Python
    text_ = error_.text();
  }
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  Error error_;
  std::string text_;
};

/// The value of a result. Throws Failure for an error.
template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw Failure(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

/// Makes this module's functions raise mc2.Error for Failure and mc2.NativeError for SystemError.
void translate_errors();

/// The set-up that each module other than mc2._core begins with.
void begin_module(py::module_& module, const char* text);

/// Converts a deadline from seconds. Throws Failure if it is not legal.
[[nodiscard]] std::chrono::milliseconds deadline_of(double deadline_s);

/// The default planning options of a machine, as keywords.
[[nodiscard]] py::dict default_options(const planner::Fingerprint& machine);

/// A canonical document as Python's dicts and lists.
[[nodiscard]] py::object to_dict(const std::string& document);

/// An interval as (low, high), or None.
template <typename Interval>
[[nodiscard]] std::optional<std::pair<double, double>> pair_of(const std::optional<Interval>& interval) {
  return interval ? std::optional(std::pair(interval->low, interval->high)) : std::nullopt;
}

/// An HTML table for notebooks. The first row is the heading; every cell is escaped.
[[nodiscard]] std::string html_table(const std::vector<std::vector<std::string>>& rows);
/// A time with one decimal.
[[nodiscard]] std::string us_text(double us);

using NoGil = py::call_guard<py::gil_scoped_release>;

} // namespace mc2::python
