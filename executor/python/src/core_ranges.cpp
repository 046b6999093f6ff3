#include <pybind11/stl.h>

#include "core.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/render/ranges.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::CutRule;
using planner::PlanGap;
using planner::PlanRange;
using planner::PlanRanges;
using planner::Schedule;

std::optional<PlanRange> find(const PlanRanges& ranges, std::int64_t m) {
  const PlanRange* const range = ranges.find(m);
  return range == nullptr ? std::nullopt : std::optional(*range);
}

std::vector<std::int64_t> blocks_of(const CutRule& rule, std::int64_t axis_length) {
  if (axis_length < 1 || axis_length > planner::kMaxSize)
    throw Failure({ErrorCode::InvalidSpec, "axis_length",
                   "is " + std::to_string(axis_length) + "; legal: 1 to " + std::to_string(planner::kMaxSize)});
  return rule.split(axis_length).cut().block_rows;
}

/// The m of a range or a gap as text.
template <typename Range>
std::string m_text(const Range& range) {
  return "m " + render::m_text(range.first_m, range.last_m);
}

void bind_range(py::module_& module) {
  py::class_<CutRule>(
      module, "CutRule",
      "How a cut axis of any length is cut: into blocks of block_length, and one block, the first or the\n"
      "last, that takes the rest and has at least min_odd_length. block_length 0: uncut.")
      .def_readonly("variant", &CutRule::variant, "The variant that runs the blocks.")
      .def_property_readonly(
          "schedule", [](const CutRule& rule) { return to_string(rule.schedule); },
          "How the blocks pass the two lanes, as Plan.schedule.")
      .def_readonly("block_length", &CutRule::long_rows,
                    "Length of every block but the one that takes the rest, in rows or columns. 0: uncut.")
      .def_readonly("min_odd_length", &CutRule::min_odd_rows,
                    "Least length of the block that takes the rest, in rows or columns. 0 if uncut.")
      .def_readonly("is_odd_first", &CutRule::is_odd_first, "Whether the block that takes the rest is the first one.")
      .def("blocks", &blocks_of, "axis_length"_a,
           "Lengths of the blocks of an axis, in the order in which they run. One block if the rule is uncut\n"
           "or the axis is too short for two. Raises mc2.Error (invalid_spec) for a length below 1 or above\n"
           "10^9.")
      .def("__repr__", [](const CutRule& rule) { return "<mc2.CutRule " + rule.text() + ">"; });
  py::class_<PlanRange> range(module, "PlanRange", "One rule for every m from first_m to last_m.");
  range.def_readonly("first_m", &PlanRange::first_m, "The first m.")
      .def_readonly("last_m", &PlanRange::last_m, "The last m.")
      .def_readonly("rule", &PlanRange::rule, "How every m of the range is cut.")
      .def_readonly("least_benefit", &PlanRange::least_benefit,
                    "The smallest predicted benefit of any m; benefits are parts of the serial time, as Plan.benefit.")
      .def_readonly("most_benefit", &PlanRange::most_benefit, "The largest predicted benefit of any m.")
      .def_property_readonly(
          "benefit_interval", [](const PlanRange& range) { return pair_of(range.benefit_interval); },
          "From the lowest to the highest end of the benefit's 90 % interval at any m: (low, high). None if\n"
          "it was not predicted.")
      .def_property_readonly(
          "provenance", [](const PlanRange& range) { return to_string(range.provenance); },
          "The weakest provenance of the predictions of all m, as Estimate.provenance.")
      .def_readonly("loss", &PlanRange::loss,
                    "How much longer the rule's cut is predicted to take than an m's own best cut, relative: the\n"
                    "largest of all m.");
  add_repr(range, "PlanRange", [](const PlanRange& one) { return m_text(one) + ": " + one.rule.text(); });
  py::class_<PlanGap> gap(module, "PlanGap",
                          "The values of m from first_m to last_m, for which there is no plan, and the reason.");
  gap.def_readonly("first_m", &PlanGap::first_m, "The first m.")
      .def_readonly("last_m", &PlanGap::last_m, "The last m.")
      .def_readonly("reason", &PlanGap::reason, "Why there is no plan.");
  add_repr(gap, "PlanGap", [](const PlanGap& one) { return m_text(one) + ": " + one.reason; });
}

} // namespace

void bind_ranges(py::module_& module) {
  bind_range(module);
  py::class_<PlanRanges> type(module, "PlanRanges", "How one operator is cut on one machine, as a function of m.");
  type.def_readonly("op", &PlanRanges::op, "The operator. Its m is the last one that was asked for.")
      .def_readonly("fingerprint", &PlanRanges::fingerprint, "The machine.")
      .def_readonly("first_m", &PlanRanges::first_m, "The first m that was asked for.")
      .def_readonly("ranges", &PlanRanges::ranges, "The ranges, by ascending m.")
      .def_readonly("gaps", &PlanRanges::gaps, "The m without a plan, ascending.")
      .def_readonly("planned_count", &PlanRanges::planned_count,
                    "How many m were also planned alone, to compare with: all m of the ranges.")
      .def_property_readonly("loss", &PlanRanges::loss, "The largest loss of any range.")
      .def("find", &find, "m"_a,
           "The range that holds m; None if m is in a gap, outside of all ranges, or illegal for the operator.")
      .def(
          "plan_at", [](const PlanRanges& ranges, std::int64_t m) { return unwrap(planner::plan_at(ranges, m)); },
          "m"_a,
          "The plan for one m. Nothing is predicted for it: its times, benefit and overlap_efficiency read 0, and\n"
          "its bound says nothing. mc2.predict() has them.")
      .def("_repr_html_", [](const PlanRanges& ranges) { return html_table(render::range_cells(ranges)); });
  add_repr(type, "PlanRanges", [](const PlanRanges& all) {
    return all.op.text() + " from m " + std::to_string(all.first_m) + ", " + std::to_string(all.ranges.size()) +
           " ranges, " + std::to_string(all.gaps.size()) + " gaps";
  });
  add_document(type, &store::decode_plan_ranges);
}

} // namespace mc2::python
