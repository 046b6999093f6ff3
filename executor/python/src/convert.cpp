#include "convert.hpp"

namespace mc2::python {
namespace {

/// Sets the exception mc2.errors.NAME(arguments...).
template <typename... Arguments>
void set_error(const char* name, Arguments&&... arguments) {
  const py::object type = py::module_::import("mc2.errors").attr(name);
  PyErr_SetObject(type.ptr(), type(std::forward<Arguments>(arguments)...).ptr());
}

} // namespace

void translate_errors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      const planner::Error& error = failure.error();
      set_error("Error", std::string(planner::to_string(error.code)), error.field, error.message);
    } catch (const planner::SystemError& error) {
      set_error("NativeError", error.call(), error.native_code(), std::string(error.what()));
    }
  });
}

py::object to_dict(const std::string& document) { return py::module_::import("json").attr("loads")(document); }

} // namespace mc2::python
