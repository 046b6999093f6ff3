#include "core.hpp"

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/text.hpp"
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
      .def_readonly("table_count", &EmbeddingTables::table_count, "How many tables one rank holds.")
      .def_readonly("row_count", &EmbeddingTables::row_count, "How many rows each table has.")
      .def_property_readonly(
          "pooling", [](const EmbeddingTables& t) { return to_string(t.pooling); },
          "How the rows that a bag names are combined: \"sum\" or \"mean\".")
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
      .def_readonly("count", &ChosenExperts::count, "How many experts there are.")
      .def_readonly("top_k", &ChosenExperts::top_k, "How many experts each row chooses.")
      .def(py::self == py::self)
      .def("__hash__", [](const ChosenExperts& e) { return py::hash(words_of_experts(e)); })
      .def(py::pickle(&words_of_experts, [](const py::tuple& words) {
        return make_experts(words[0].cast<std::int64_t>(), words[1].cast<std::int64_t>());
      }));
}

/// Adds the properties that follow from the operator's kind.
void add_traits(py::class_<OpSpec>& type) {
  type.def_property_readonly(
          "product_dtype", [](const OpSpec& op) { return to_string(planner::product_type(op)); },
          "Element type of the product, C, bias and residual: dtype, or \"bf16\" if dtype is \"i8\" or \"f8e4m3\".")
      .def_property_readonly(
          "cut_axis", [](const OpSpec& op) { return to_string(planner::cut_axis(op)); },
          "What blocks are cut from: the \"rows\" or the \"columns\" of the product.")
      .def_property_readonly(
          "cut_axis_length", [](const OpSpec& op) { return planner::traits_of(op.kind).cut_axis_length(op); },
          "Length of the axis that blocks are cut from: m, or m / ranks for kinds that scatter, gather or\n"
          "exchange rows, or n where columns are cut. The lengths of the blocks sum to it.")
      .def_property_readonly(
          "first_lane", [](const OpSpec& op) { return to_string(planner::traits_of(op.kind).first_lane); },
          "The lane that a block passes first: compute or communication.")
      .def_property_readonly(
          "has_local_part", [](const OpSpec& op) { return planner::traits_of(op.kind).has_local_part; },
          "Whether a rank multiplies its own rows without waiting for any exchange, as in all_gather_matmul.")
      .def_property_readonly(
          "bytes_per_unit", [](const OpSpec& op) { return planner::traits_of(op.kind).message_bytes_per_unit(op); },
          "Bytes that one row or column of the cut axis has in the collective's full array.");
}

/// Adds the kinds that have a trait, as constants: torch.compile cannot trace calls into this module.
void add_kinds(py::module_& module) {
  using planner::OpTraits;
  const auto add = [&](const char* name, bool (*has_trait)(const OpTraits&)) {
    py::list kinds;
    for (const OpTraits& traits : planner::op_registry())
      if (has_trait(traits)) kinds.append(traits.name);
    module.attr(name) = py::tuple(kinds);
  };
  add("CHOOSING_KINDS", [](const OpTraits& traits) { return traits.work == planner::Work::GroupedMatmul; });
  add("GATHERING_KINDS", [](const OpTraits& traits) { return traits.gathers_a; });
  add("SHARDED_KINDS", [](const OpTraits& traits) { return traits.has_row_shards; });
  add("SUMMING_KINDS", [](const OpTraits& traits) { return traits.sums(); });
}

void bind_op(py::module_& module) {
  add_kinds(module);
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
      .def_property_readonly(
          "kind", [](const OpSpec& op) { return to_string(op.kind); },
          "The operator kind, e.g. \"matmul_all_reduce\". docs/operators.md describes the kinds.")
      .def_readonly("m", &OpSpec::m,
                    "Rows of the product of one rank's matmul. embedding_all_to_all: samples of the whole batch.\n"
                    "Grouped matmuls: tokens, each of which is in top_k products.")
      .def_readonly("n", &OpSpec::n,
                    "Columns of the product. embedding_all_to_all: pooled features of all tables of one rank.")
      .def_readonly("k", &OpSpec::k,
                    "Inner length of one rank's matmul. embedding_all_to_all: how many rows a bag names on average.")
      .def_property_readonly(
          "dtype", [](const OpSpec& op) { return to_string(op.dtype); },
          "Element type of A and B: \"f32\", \"f16\", \"bf16\", \"i8\" or \"f8e4m3\".")
      .def_readonly("ranks", &OpSpec::world_size, "How many ranks take part.")
      .def_property_readonly(
          "epilogue", [](const OpSpec& op) { return to_string(op.epilogue); },
          "What is done to the product: \"none\", or its parts in the order of \"bias+residual+rms_norm\".")
      .def_readonly("tables", &OpSpec::tables, "The tables of one rank of embedding_all_to_all; None for other kinds.")
      .def_readonly("experts_per_rank", &OpSpec::experts_per_rank,
                    "How many whole experts one rank holds. Above 1 only for all_to_all_matmul and matmul_all_to_all.")
      .def_readonly("experts", &OpSpec::experts, "The experts of a grouped matmul; None for other kinds.")
      .def("replace", &with_lengths, py::kw_only(), "m"_a = py::none(), "n"_a = py::none(), "k"_a = py::none(),
           "Returns a copy with other lengths. A length that is None stays. Raises mc2.Error (invalid_spec) if\n"
           "the copy is not legal.")
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
      .def_readonly("fields", &Fingerprint::fields,
                    "The fields by name, e.g. \"backend\" and \"cpu_model\". This is a copy.")
      .def_property_readonly(
          "digest", [](const Fingerprint& f) { return store::digest(f); },
          "SHA-256 of the fields, as 64 hexadecimal digits. Equal fingerprints have equal digests.")
      .def_property_readonly("is_emulated", &Fingerprint::is_emulated,
                             "Whether any part of the machine was emulated or virtual.")
      .def("differences", &Fingerprint::differences, "other"_a,
           "One text for each field in which the two differ, e.g. \"link: here 'shm', there 'nothing'\". Empty\n"
           "if they are equal.")
      .def("__hash__", [](const Fingerprint& f) { return std::hash<std::string>{}(f.canonical_text()); })
      .def("__str__", &Fingerprint::label)
      .def("__repr__", [](const Fingerprint& f) { return "<mc2.Fingerprint " + f.label() + ">"; });
  add_document(type, &store::decode_fingerprint);
}

void bind_variant(py::module_& module) {
  py::class_<Variant>(module, "Variant", "How a block is executed, e.g. nccl(ctas=8,sm_count=116).")
      .def(py::init([](const std::string& text) {
             if (text.empty() || has_control(text))
               throw Failure({ErrorCode::InvalidSpec, "text",
                              "is " + in_quotes(text) + "; needs a name without control characters"});
             return planner::parse_variant(text);
           }),
           "text"_a)
      .def_readonly("name", &Variant::name, "The name without settings, e.g. \"nccl\".")
      .def_readonly("fields", &Variant::fields,
                    "The settings by name, e.g. {\"ctas\": \"8\", \"sm_count\": \"116\"}. This is a copy.")
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
  mc2::python::bind_published_models(module);
  mc2::python::bind_tuning(module);
  mc2::python::bind_finder(module);
}
