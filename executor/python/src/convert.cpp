#include "convert.hpp"

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::python {
namespace {

/// A class of mc2.errors. Nothing is imported here: with a signal pending, an import runs its handler, which may raise.
py::object error_class(const char* name) {
  const auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("mc2.errors").ptr()));
  return module ? module.attr(name) : py::module_::import("mc2.errors").attr(name);
}

/// Sets the exception of this class of mc2.errors. If a signal's handler raises, as for Ctrl-C, sets that one, with the
/// former as its context. No exception may leave a translator.
template <typename... Arguments>
void set_error(const char* name, Arguments&&... arguments) {
  std::optional<py::error_already_set> interrupt;
  if (PyErr_CheckSignals() != 0) interrupt.emplace();
  try {
    const py::object type = error_class(name);
    py::object error = type(std::forward<Arguments>(arguments)...);
    if (!interrupt) return PyErr_SetObject(type.ptr(), error.ptr());
    PyException_SetContext(interrupt->value().ptr(), error.release().ptr());
    interrupt->restore();
  } catch (py::error_already_set& raised) {
    (interrupt ? *interrupt : raised).restore();
  }
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

} // namespace

void translate_errors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const Error& error = failure.error();
      set_error("Error", std::string(to_string(error.code)), error.field, error.message);
    } catch (const SystemError& error) {
      set_error("NativeError", error.call(), error.native_code(), std::string(error.what()));
    }
  });
}

void begin_module(py::module_& module, const char* text) {
  module.doc() = text;
  py::module_::import("mc2._core"); // the signatures of this module use its types
  translate_errors();
}

std::chrono::milliseconds deadline_of(double deadline_s) {
  constexpr double kLeastDeadlineS = 0.001, kMostDeadlineS = 7 * 86'400;
  if (!(deadline_s >= kLeastDeadlineS && deadline_s <= kMostDeadlineS))
    throw Failure({ErrorCode::InvalidSpec, "deadline_s", "must be 0.001 to 604800 s"});
  return planner::to_ms(deadline_s);
}

py::dict default_options(const planner::Fingerprint& machine) {
  using namespace py::literals;
  const auto options = planner::default_options_on(machine);
  return py::dict("alignment"_a = options.alignment, "min_block_rows"_a = options.min_block_rows,
                  "max_block_count"_a = options.max_block_count);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table>";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string tag = i == 0 ? "th" : "td";
    html += "<tr>";
    for (const std::string& cell : rows[i]) html += "<" + tag + ">" + escaped(cell) + "</" + tag + ">";
    html += "</tr>";
  }
  return html + "</table>";
}

std::string us_text(double us) { return number(us, "%.1f"); }

py::object to_dict(const std::string& document) { return py::module_::import("json").attr("loads")(document); }

} // namespace mc2::python
