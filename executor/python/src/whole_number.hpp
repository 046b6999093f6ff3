#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace mc2::python {

/// Whether an object may stand for a whole number: no bool, numpy's and torch's included, and nothing masked.
inline bool is_number(pybind11::handle given) {
  if (PyLong_CheckExact(given.ptr())) return true;
  if (PyBool_Check(given.ptr()) || !PyIndex_Check(given.ptr()) || pybind11::hasattr(given, "mask")) return false;
  if (!pybind11::hasattr(given, "dtype")) return true;
  const std::string type = pybind11::str(given.attr("dtype"));
  return type != "bool" && type != "torch.bool";
}

/// Reads whole numbers from what Python can count with (__index__): ints and numpy's. pybind11's own conversion also
/// takes whatever has __int__, e.g. numpy.float64(2.7), and drops the fraction; and it takes True for 1.
/// @tparam Wide  as wide as Number and of the same sign, but another type: pybind11's conversion of it is used
template <typename Number, typename Wide>
class WholeNumberCaster {
  static_assert(sizeof(Number) <= sizeof(Wide));

 public:
  PYBIND11_TYPE_CASTER(Number, pybind11::detail::const_name("int"));

  bool load(pybind11::handle given, bool) {
    if (!given || !is_number(given)) return false;
    const auto index = pybind11::reinterpret_steal<pybind11::object>(PyNumber_Index(given.ptr()));
    if (!index) {
      pybind11::error_already_set raised;
      if (raised.matches(PyExc_TypeError)) return false; // as of arrays of floats
      throw raised;
    }
    pybind11::detail::make_caster<Wide> wide;
    if (!wide.load(index, false)) return false;
    value = static_cast<Number>(static_cast<Wide>(wide));
    return static_cast<Wide>(value) == static_cast<Wide>(wide);
  }
  static pybind11::handle cast(Number number, pybind11::return_value_policy policy, pybind11::handle parent) {
    return pybind11::detail::make_caster<Wide>::cast(static_cast<Wide>(number), policy, parent);
  }
};

} // namespace mc2::python

namespace pybind11::detail {

template <>
class type_caster<int> : public mc2::python::WholeNumberCaster<int, long long> {};
template <>
class type_caster<long> : public mc2::python::WholeNumberCaster<long, long long> {};
template <>
class type_caster<unsigned long> : public mc2::python::WholeNumberCaster<unsigned long, unsigned long long> {};

} // namespace pybind11::detail
