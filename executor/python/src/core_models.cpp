#include <pybind11/stl.h>

#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

#include "core.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/transfer.hpp"
#include "mc2/render/markup.hpp"
#include "mc2/render/plan_page.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::CostModel;
using planner::LaneCost;
using planner::Profile;
using planner::Sample;
using planner::VariantCost;

/// The fields of a sample that Python gives in another form than Sample has.
struct SampleWords {
  std::string component, context;
  double time_us;
};

void set_words(Sample& sample, const SampleWords& words) {
  constexpr double kMinUs = 0.5 / planner::kNsPerUs; // the smallest time that rounds to at least 1 ns
  if (!(words.time_us >= kMinUs && words.time_us <= planner::kMaxTimeUs))
    throw Failure({ErrorCode::InvalidSpec, "time_us",
                   "is " + number_text(words.time_us) + "; must be finite, at least 0.001 and at most 1e15 us"});
  sample.component = unwrap(planner::parse_component(words.component));
  sample.context = unwrap(planner::parse_context(words.context));
  sample.time = std::chrono::nanoseconds(std::llround(words.time_us * planner::kNsPerUs));
}

/// What a sample is pickled as: all its fields.
py::tuple words_of_sample(const Sample& s) {
  return py::make_tuple(to_string(s.component), to_string(s.context), s.variant, s.block_rows, s.block_count,
                        s.message_bytes, std::int64_t{s.time.count()}, s.slowest_rank, s.round, s.is_outlier,
                        std::int64_t{s.start.count()});
}

Sample sample_of(const py::tuple& words) {
  Sample s{unwrap(planner::parse_component(words[0].cast<std::string>())),
           unwrap(planner::parse_context(words[1].cast<std::string>())),
           words[2].cast<std::string>(),
           words[3].cast<std::int64_t>(),
           words[4].cast<std::int64_t>(),
           words[5].cast<std::int64_t>(),
           std::chrono::nanoseconds(words[6].cast<std::int64_t>()),
           words[7].cast<int>(),
           words[8].cast<int>(),
           words[9].cast<bool>()};
  if (words.size() > 10) s.start = std::chrono::nanoseconds(words[10].cast<std::int64_t>()); // older pickles have none
  unwrap(s.validate());
  return s;
}

/// A table with the number of samples and the fastest time for each lane, context, variant and size.
std::string table_of(const Profile& profile) {
  // The values are the number of samples and the fastest time.
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, std::pair<int, double>> groups;
  for (const Sample& sample : profile.samples) {
    auto& [count, fastest_us] = groups[{std::string(to_string(sample.component)),
                                        std::string(to_string(sample.context)), sample.variant, sample.block_rows}];
    fastest_us = count++ == 0 ? sample.time_us() : std::min(fastest_us, sample.time_us());
  }
  std::vector<std::vector<std::string>> rows{{"component", "context", "variant", "block", "samples", "fastest, us"}};
  for (const auto& [key, value] : groups) {
    const auto& [component, context, variant, length] = key;
    rows.push_back(
        {component, context, variant, std::to_string(length), std::to_string(value.first), us_text(value.second)});
  }
  return html_table(rows);
}

void bind_sample(py::module_& module) {
  py::class_<Sample> type(
      module, "Sample",
      "One timed iteration of one lane over block_count equal blocks. time_us is the time of ONE block on the\n"
      "slowest rank.");
  type.def(py::init([](const std::string& component, std::int64_t block_rows, double us, const std::string& context,
                       std::string variant, std::int64_t message_bytes, std::int64_t block_count, int round) {
             Sample sample;
             set_words(sample, {component, context, us});
             sample.variant = std::move(variant);
             sample.block_rows = block_rows, sample.block_count = block_count;
             sample.message_bytes = message_bytes, sample.round = round;
             unwrap(sample.validate());
             return sample;
           }),
           "component"_a, "block_rows"_a, "time_us"_a, py::kw_only(), "context"_a = "alone", "variant"_a = "direct",
           "message_bytes"_a = 0, "block_count"_a = 1, "round"_a = 0)
      .def_property_readonly(
          "component", [](const Sample& s) { return to_string(s.component); },
          "What was timed: \"matmul\" or \"collective\".")
      .def_property_readonly(
          "context", [](const Sample& s) { return to_string(s.context); },
          "What the other lane did meanwhile: \"alone\" if nothing, \"co_run\" if it was busy.")
      .def_readonly("variant", &Sample::variant, "The variant that was timed, as text, e.g. \"direct\".")
      .def_readonly("block_rows", &Sample::block_rows, "Length of one block, in rows or columns of the cut axis.")
      .def_readonly("block_count", &Sample::block_count, "How many blocks the iteration ran back to back.")
      .def_readonly("message_bytes", &Sample::message_bytes,
                    "Bytes of one block in the collective's full array; 0 for a matmul.")
      .def_property_readonly("time_us", &Sample::time_us, "Time of one block on the slowest rank, in us.")
      .def_property_readonly(
          "start_us", [](const Sample& s) { return planner::to_us(s.start); },
          "Time of the iteration besides its blocks, in us; 0 where nothing tells it.")
      .def_readonly("round", &Sample::round,
                    "Number of the round. Samples of one round were taken within moments of each other.")
      .def_readonly("is_outlier", &Sample::is_outlier, "Whether fits leave the sample out.")
      .def(py::pickle(&words_of_sample, &sample_of))
      .def(py::self == py::self);
  add_repr(type, "Sample", [](const Sample& s) {
    return std::string(to_string(s.component)) + " " + s.variant + ", " + std::to_string(s.block_rows) + " long, " +
           us_text(s.time_us()) + " us";
  });
}

void bind_profile(py::module_& module) {
  py::class_<Profile> type(module, "Profile", "Every sample of one operator on one machine.");
  type.def(
          py::init([](const planner::OpSpec& op, const planner::Fingerprint& fingerprint, std::vector<Sample> samples) {
            Profile profile{op, fingerprint, std::move(samples)};
            unwrap(profile.validate());
            return profile;
          }),
          "op"_a, "fingerprint"_a, "samples"_a)
      .def_readonly("op", &Profile::op, "The operator. Its m is the uncut size.")
      .def_readonly("fingerprint", &Profile::fingerprint, "The machine that the samples were taken on.")
      .def_readonly("samples", &Profile::samples, "All samples, outliers included. This is a copy.")
      .def("_repr_html_", &table_of)
      .def("__repr__", [](const Profile& p) {
        return "<mc2.Profile " + p.op.text() + ", " + std::to_string(p.samples.size()) + " samples>";
      });
  add_document(type, &store::decode_profile);
}

void bind_costs(py::module_& module) {
  py::class_<LaneCost>(
      module, "LaneCost",
      "One lane's cost of a block: the curve's time plus fixed_us. A slowdown of 1 or more multiplies this\n"
      "while the other lane is busy. A slowdown below 1 multiplies the curve's time of every block of a cut.")
      .def(
          "time_us",
          [](const LaneCost& cost, double x) {
            if (!(x >= 0 && std::isfinite(x)))
              throw Failure(
                  {ErrorCode::InvalidSpec, "x", "is " + number_text(x) + "; must be finite and not negative"});
            return cost.curve.time_us(x);
          },
          "x"_a, "The curve's time in us of a block of x rows, columns or bytes that runs alone, without fixed_us.")
      .def_property_readonly(
          "family", [](const LaneCost& cost) { return cost.curve.family(); },
          "The family of the curve, e.g. \"affine\" (docs/cost_model.md).")
      .def_property_readonly(
          "formula", [](const LaneCost& cost) { return cost.curve.formula_text(); },
          "The curve with its numbers, e.g. \"12.4 us + 0.0231 us/row\".")
      .def_property_readonly(
          "valid_range", [](const LaneCost& cost) { return std::pair(cost.curve.valid_min_x, cost.curve.valid_max_x); },
          "The smallest and the largest size that was measured, in rows, columns or bytes: a pair. Times\n"
          "outside are extrapolated.")
      .def_property_readonly(
          "relative_interval", [](const LaneCost& cost) { return cost.curve.relative_interval; },
          "Half-width of the 90 % interval of a time, relative to the time: 0.1 means 10 % up and down.")
      .def_readonly("fixed_us", &LaneCost::fixed_us, "Time that is added to every block of a cut, in us.")
      .def_readonly("slowdown", &LaneCost::slowdown,
                    "From 1 on, a factor on a block's time while the other lane is busy. Below 1, a factor on the\n"
                    "curve's time of every block of a cut.")
      .def_readonly("start_us", &LaneCost::start_us,
                    "Time of a run of the lane besides its blocks, in us: waking its threads, and hearing of their\n"
                    "end. A run of both lanes takes that of both. 0 where nothing tells it.");
  py::class_<VariantCost>(module, "VariantCost", "What a block costs on both lanes with one variant.")
      .def_readonly("variant", &VariantCost::variant, "The variant.")
      .def_readonly("compute", &VariantCost::compute,
                    "The cost of the compute lane, over rows or columns. Kinds with a local part: without the rank's\n"
                    "own rows.")
      .def_readonly("communication", &VariantCost::communication,
                    "The cost of the communication lane, over bytes of the collective's full array.")
      .def_readonly("run_us", &VariantCost::run_us,
                    "Time that a run whose lanes overlap takes besides its blocks, in us. 0 for most variants.");
}

void bind_model(py::module_& module) {
  py::class_<CostModel> type(module, "CostModel", "What the planner knows of one operator on one machine.");
  type.def_readonly("op", &CostModel::op,
                    "The operator that was profiled, with its uncut size. answers_for() says which others the curves\n"
                    "hold for.")
      .def_readonly("fingerprint", &CostModel::fingerprint, "The machine.")
      .def_readonly("variants", &CostModel::variants, "The cost of each variant.")
      .def_readonly("source", &CostModel::source,
                    "Where the model came from, as text: a profile on this machine, or a citation.")
      .def_property_readonly(
          "digest", [](const CostModel& m) { return store::digest(store::encode(m)); },
          "SHA-256 of to_json(), as 64 hexadecimal digits.")
      .def(
          "answers_for",
          [](const CostModel& m, const planner::OpSpec& op) { return planner::has_same_block_costs(m.op, op); }, "op"_a,
          "Whether the curves hold for this operator: it may differ from the model's only in the length of the\n"
          "cut axis.")
      .def(
          "page",
          [](const CostModel& m, int width) {
            return unwrap(m.validate()), render::model_page(m, checked_page_width(width));
          },
          "width"_a = kPageWidth,
          "The curves and factors as text, as `mc2 fit` prints them. width: from 40 to 400 columns.")
      .def("_repr_html_",
           [](const CostModel& m) {
             return unwrap(m.validate()), render::Markup().element("pre", {}, render::model_page(m, kPageWidth)).str();
           })
      .def("__repr__", [](const CostModel& m) { return "<mc2.CostModel " + m.op.text() + ", " + m.source + ">"; });
  add_document(type, &store::decode_model);
}

void bind_transfer(py::module_& module) {
  module.def(
      "transfer",
      [](const CostModel& model, const planner::OpSpec& op) {
        return unwrap(planner::transfer(model, op, model.fingerprint)).model;
      },
      "model"_a, "op"_a, NoGil(),
      "Derives a model for an operator with another n and k from `model`. Its intervals are wider.");
}

} // namespace

void bind_models(py::module_& module) {
  bind_sample(module);
  bind_profile(module);
  bind_costs(module);
  bind_model(module);
  bind_transfer(module);
}

} // namespace mc2::python
