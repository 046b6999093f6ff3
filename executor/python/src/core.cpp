#include "core.hpp"

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using planner::ChosenExperts;
using planner::EmbeddingTables;
using planner::Fingerprint;
using planner::OpSpec;
using planner::Variant;

/// An operator as the Python caller describes it.
struct OpWords {
  std::string kind;
  std::int64_t m, n, k;
  std::string dtype;
  int ranks;
  std::string epilogue;
  std::optional<EmbeddingTables> tables;
  std::int64_t experts_per_rank;
  std::optional<ChosenExperts> experts;
};

OpSpec make_op(const OpWords& words) {
  OpSpec op;
  op.kind = unwrap(planner::parse_op_kind(words.kind));
  op.m = words.m, op.n = words.n, op.k = words.k;
  op.dtype = unwrap(planner::parse_dtype(words.dtype));
  op.world_size = words.ranks;
  op.tables = words.tables;
  op.experts_per_rank = words.experts_per_rank;
  op.experts = words.experts;
  op.epilogue = unwrap(planner::parse_epilogue(words.epilogue));
  unwrap(op.validate());
  return op;
}

// The tuples that values are pickled as: the arguments of their constructors, in order.

py::tuple words_of_tables(const EmbeddingTables& t) {
  return py::make_tuple(t.table_count, t.row_count, to_string(t.pooling));
}
py::tuple words_of_experts(const ChosenExperts& e) { return py::make_tuple(e.count, e.top_k); }
py::tuple words_of_op(const OpSpec& op) {
  return py::make_tuple(to_string(op.kind), op.m, op.n, op.k, to_string(op.dtype), op.world_size,
                        to_string(op.epilogue), op.tables, op.experts_per_rank, op.experts);
}

OpSpec op_of(const py::tuple& words) {
  return make_op({words[0].cast<std::string>(), words[1].cast<std::int64_t>(), words[2].cast<std::int64_t>(),
                  words[3].cast<std::int64_t>(), words[4].cast<std::string>(), words[5].cast<int>(),
                  words[6].cast<std::string>(), words[7].cast<std::optional<EmbeddingTables>>(),
                  words[8].cast<std::int64_t>(), words[9].cast<std::optional<ChosenExperts>>()});
}

EmbeddingTables make_tables(std::int64_t table_count, std::int64_t row_count, const std::string& pooling) {
  const EmbeddingTables tables{table_count, row_count, unwrap(planner::parse_pooling(pooling))};
  unwrap(tables.validate());
  return tables;
}

ChosenExperts make_experts(std::int64_t count, std::int64_t top_k) {
  const ChosenExperts experts{count, top_k};
  unwrap(experts.validate());
  return experts;
}

OpSpec with_lengths(OpSpec op, std::optional<std::int64_t> m, std::optional<std::int64_t> n,
                    std::optional<std::int64_t> k) {
  op.m = m.value_or(op.m), op.n = n.value_or(op.n), op.k = k.value_or(op.k);
  unwrap(op.validate());
  return op;
}

void bind_tables(py::module_& module) {
  py::class_<EmbeddingTables>(module, "EmbeddingTables", "The tables that one rank of embedding_all_to_all holds.")
      .def(py::init(&make_tables), "table_count"_a, "row_count"_a, "pooling"_a = "sum")
      .def_readonly("table_count", &EmbeddingTables::table_count)
      .def_readonly("row_count", &EmbeddingTables::row_count)
      .def_property_readonly("pooling", [](const EmbeddingTables& t) { return to_string(t.pooling); })
      .def(py::self == py::self)
      .def("__hash__", [](const EmbeddingTables& t) { return py::hash(words_of_tables(t)); })
      .def(py::pickle(&words_of_tables, [](const py::tuple& words) {
        return make_tables(words[0].cast<std::int64_t>(), words[1].cast<std::int64_t>(), words[2].cast<std::string>());
      }));
}

void bind_experts(py::module_& module) {
  py::class_<ChosenExperts>(
      module, "ChosenExperts",
      "The experts of a grouped matmul. Every rank holds a part of each expert, and each row chooses top_k of\n"
      "them.")
      .def(py::init(&make_experts), "count"_a, "top_k"_a)
      .def_readonly("count", &ChosenExperts::count)
      .def_readonly("top_k", &ChosenExperts::top_k)
      .def(py::self == py::self)
      .def("__hash__", [](const ChosenExperts& e) { return py::hash(words_of_experts(e)); })
      .def(py::pickle(&words_of_experts, [](const py::tuple& words) {
        return make_experts(words[0].cast<std::int64_t>(), words[1].cast<std::int64_t>());
      }));
}

/// Adds the properties that follow from the operator's kind.
void add_traits(py::class_<OpSpec>& type) {
  type.def_property_readonly("product_dtype", [](const OpSpec& op) { return to_string(planner::product_type(op)); })
      .def_property_readonly("cut_axis", [](const OpSpec& op) { return to_string(planner::cut_axis(op)); })
      .def_property_readonly("cut_axis_length",
                             [](const OpSpec& op) { return planner::traits_of(op.kind).cut_axis_length(op); })
      .def_property_readonly(
          "first_lane", [](const OpSpec& op) { return to_string(planner::traits_of(op.kind).first_lane); },
          "The lane that a block passes first: compute or communication.")
      .def_property_readonly("has_local_part",
                             [](const OpSpec& op) { return planner::traits_of(op.kind).has_local_part; })
      .def_property_readonly(
          "bytes_per_unit", [](const OpSpec& op) { return planner::traits_of(op.kind).message_bytes_per_unit(op); },
          "Bytes that one row or column of the cut axis has in the collective's full array.");
}

void bind_op(py::module_& module) {
  bind_tables(module);
  bind_experts(module);
  py::class_<OpSpec> type(module, "OpSpec", "One fused operator: A [m, k] x B [k, n] on every rank, and a collective.");
  type.def(py::init([](std::string kind, std::int64_t m, std::int64_t n, std::int64_t k, std::string dtype, int ranks,
                       std::string epilogue, std::optional<EmbeddingTables> tables, std::int64_t experts_per_rank,
                       std::optional<ChosenExperts> experts) {
             return make_op({std::move(kind), m, n, k, std::move(dtype), ranks, std::move(epilogue), tables,
                             experts_per_rank, experts});
           }),
           "kind"_a, py::kw_only(), "m"_a, "n"_a, "k"_a, "dtype"_a = "f32", "ranks"_a = 2, "epilogue"_a = "none",
           "tables"_a = py::none(), "experts_per_rank"_a = 1, "experts"_a = py::none())
      .def_property_readonly("kind", [](const OpSpec& op) { return to_string(op.kind); })
      .def_readonly("m", &OpSpec::m)
      .def_readonly("n", &OpSpec::n)
      .def_readonly("k", &OpSpec::k)
      .def_property_readonly("dtype", [](const OpSpec& op) { return to_string(op.dtype); })
      .def_readonly("ranks", &OpSpec::world_size)
      .def_property_readonly("epilogue", [](const OpSpec& op) { return to_string(op.epilogue); })
      .def_readonly("tables", &OpSpec::tables)
      .def_readonly("experts_per_rank", &OpSpec::experts_per_rank)
      .def_readonly("experts", &OpSpec::experts)
      .def("replace", &with_lengths, py::kw_only(), "m"_a = py::none(), "n"_a = py::none(), "k"_a = py::none())
      .def(py::self == py::self)
      .def("__hash__", [](const OpSpec& op) { return std::hash<std::string>{}(op.text()); })
      .def(py::pickle(&words_of_op, &op_of))
      .def("__str__", &OpSpec::text)
      .def("__repr__", [](const OpSpec& op) { return "<mc2.OpSpec " + op.text() + ">"; });
  add_traits(type);
}

void bind_fingerprint(py::module_& module) {
  py::class_<Fingerprint> type(
      module, "Fingerprint",
      "Device, link and versions of a machine. Measurements are comparable if their fingerprints are equal.");
  type.def(py::init([](std::map<std::string, std::string> fields) { return Fingerprint{std::move(fields)}; }),
           "fields"_a)
      .def_readonly("fields", &Fingerprint::fields)
      .def_property_readonly("digest", [](const Fingerprint& f) { return store::digest(f.canonical_text()); })
      .def_property_readonly("is_emulated", &Fingerprint::is_emulated)
      .def("differences", &Fingerprint::differences, "other"_a)
      .def("__hash__", [](const Fingerprint& f) { return std::hash<std::string>{}(f.canonical_text()); })
      .def("__str__", &Fingerprint::label)
      .def("__repr__", [](const Fingerprint& f) { return "<mc2.Fingerprint " + f.label() + ">"; });
  add_document(type, &store::decode_fingerprint);
}

void bind_variant(py::module_& module) {
  py::class_<Variant>(module, "Variant", "How a block is executed, e.g. nccl(ctas=8,sm_count=116).")
      .def(py::init([](const std::string& text) { return planner::parse_variant(text); }), "text"_a)
      .def_readonly("name", &Variant::name)
      .def_readonly("fields", &Variant::fields)
      .def(py::self == py::self)
      .def("__hash__", [](const Variant& v) { return std::hash<std::string>{}(v.text()); })
      .def(py::pickle([](const Variant& v) { return v.text(); },
                      [](const std::string& text) { return planner::parse_variant(text); }))
      .def("__str__", &Variant::text)
      .def("__repr__", [](const Variant& v) { return "<mc2.Variant " + v.text() + ">"; });
}

} // namespace

void bind_values(py::module_& module) {
  bind_op(module);
  bind_fingerprint(module);
  bind_variant(module);
}

} // namespace mc2::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "Operators, plans and cost models of mc2, and functions that measure, fit, plan, tune and store.";
  mc2::python::translate_errors();
  mc2::python::bind_values(module);
  mc2::python::bind_models(module);
  mc2::python::bind_plans(module);
  mc2::python::bind_ranges(module);
  mc2::python::bind_measuring(module);
  mc2::python::bind_store(module);
  mc2::python::bind_tuning(module);
  mc2::python::bind_finder(module);
}
