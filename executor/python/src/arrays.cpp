#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/executor.hpp"
#include "world.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using executor::MatrixShape;
using executor::OperandShapes;
using executor::RankBuffers;
using planner::DType;

[[noreturn]] void refuse(const std::string& field, const std::string& message) {
  throw Failure({ErrorCode::InvalidSpec, field, message});
}

/// The name of an array's element type, e.g. "float32"; for elements in another byte order than the machine's ">f4".
std::string type_name(const py::array& array) {
  const py::object type = array.dtype();
  if (type.attr("isnative").cast<bool>()) return py::str(type.attr("name"));
  return py::str(py::handle(type));
}

/// Whether an array's elements may stand for a type. numpy has neither bfloat16 nor float8_e4m3fn; their place take bit
/// patterns in uint16 and uint8, or the types that ml_dtypes registers under these names.
bool fits(const py::array& array, DType dtype) {
  const std::string name = type_name(array);
  switch (dtype) {
    case DType::F32: return name == "float32";
    case DType::F16: return name == "float16";
    case DType::Bf16: return name == "bfloat16" || name == "uint16";
    case DType::I8: return name == "int8";
    case DType::F8E4m3: return name == "float8_e4m3fn" || name == "uint8";
  }
  return false;
}

const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::F32: return "float32";
    case DType::F16: return "float16";
    case DType::Bf16: return "uint16";
    case DType::I8: return "int8";
    case DType::F8E4m3: return "uint8";
  }
  return "";
}

/// What an array must have to be accepted.
struct Wanted {
  std::string field; ///< e.g. "a[1]"
  MatrixShape shape;
  DType dtype;
  std::int64_t parts = 0; ///< if above 0, an array of three dimensions with so many matrices is accepted, too
};

std::string shape_text(const py::array& array) { return py::str(array.attr("shape")).cast<std::string>(); }

/// Checks an array. Throws Failure unless it fits and is row-major and dense, because nothing is copied.
const py::array& checked(const py::handle& given, const Wanted& wanted, py::array& array) {
  refuse_masked(given, wanted.field);
  if (!py::isinstance<py::array>(given))
    refuse(wanted.field, "is " + py::repr(py::type::of(given)).cast<std::string>() + ", not a numpy array");
  array = py::reinterpret_borrow<py::array>(given);
  if (!fits(array, wanted.dtype))
    refuse(wanted.field, "has elements of " + type_name(array) + "; needs " + numpy_name(wanted.dtype) +
                             (wanted.dtype == DType::Bf16 ? " (bits of bf16) or bfloat16" : ""));
  const bool is_vector = wanted.shape.rows == 1 && array.ndim() == 1 && array.shape(0) == wanted.shape.columns;
  const bool is_matrix =
      array.ndim() == 2 && array.shape(0) == wanted.shape.rows && array.shape(1) == wanted.shape.columns;
  const std::int64_t part_rows = wanted.parts > 0 ? wanted.shape.rows / wanted.parts : 0;
  const bool is_stack = wanted.parts > 0 && array.ndim() == 3 && array.shape(0) == wanted.parts &&
                        array.shape(1) == part_rows && array.shape(2) == wanted.shape.columns;
  if (!is_vector && !is_matrix && !is_stack)
    refuse(wanted.field, "has shape " + shape_text(array) + "; needs (" +
                             (wanted.parts > 0 ? std::to_string(wanted.parts) + ", " + std::to_string(part_rows)
                                               : std::to_string(wanted.shape.rows)) +
                             ", " + std::to_string(wanted.shape.columns) + ")");
  if ((array.flags() & py::array::c_style) == 0)
    refuse(wanted.field, "is not contiguous; np.ascontiguousarray copies it");
  return array;
}

std::span<const std::byte> to_read(const py::handle& given, const Wanted& wanted) {
  py::array array;
  checked(given, wanted, array);
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

std::span<std::byte> to_write(const py::handle& given, const Wanted& wanted) {
  py::array array;
  checked(given, wanted, array);
  if (!array.writeable()) refuse(wanted.field, "is read-only; every run writes it");
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes())};
}

/// The bytes of an array of int32 or int64: a matrix of this shape or, without a shape, a row of any length.
std::span<const std::byte> to_numbers(const py::handle& given, const std::string& field, executor::IndexType& type,
                                      const std::optional<MatrixShape>& shape = std::nullopt) {
  refuse_masked(given, field);
  if (!py::isinstance<py::array>(given)) refuse(field, "is no numpy array");
  const auto array = py::reinterpret_borrow<py::array>(given);
  const std::string name = type_name(array);
  if (name != "int32" && name != "int64") refuse(field, "has elements of " + name + "; needs int32 or int64");
  const bool is_dense = (array.flags() & py::array::c_style) != 0;
  if (!shape && (array.ndim() != 1 || !is_dense)) refuse(field, "must be one contiguous row of numbers");
  if (shape && (array.ndim() != 2 || array.shape(0) != shape->rows || array.shape(1) != shape->columns || !is_dense))
    refuse(field, "has shape " + shape_text(array) + (is_dense ? "" : " and is not contiguous") + "; needs (" +
                      std::to_string(shape->rows) + ", " + std::to_string(shape->columns) + ")");
  type = name == "int32" ? executor::IndexType::I32 : executor::IndexType::I64;
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

/// The two entries of a pair. An array of two rows is none.
std::pair<py::object, py::object> to_pair(const py::handle& given, const std::string& field, const std::string& what) {
  if (!py::isinstance<py::sequence>(given) || py::isinstance<py::array>(given) || py::len(given) != 2)
    refuse(field, "must be a pair of " + what);
  return py::cast<std::pair<py::object, py::object>>(given);
}

executor::EmbeddingBags to_bags(const py::handle& given, const std::string& field) {
  const auto parts = to_pair(given, field, "offsets and indices");
  executor::EmbeddingBags bags;
  executor::IndexType offsets_type{};
  bags.offsets = to_numbers(parts.first, field + ".offsets", offsets_type);
  bags.indices = to_numbers(parts.second, field + ".indices", bags.type);
  if (offsets_type != bags.type) refuse(field, "offsets and indices must be of one type");
  return bags;
}

/// Reads choices: for kinds that weight products a pair of experts and weights, [m, top_k] each, else the experts
/// alone.
executor::ExpertChoices to_choices(const planner::OpSpec& op, const py::handle& given, const std::string& field) {
  const MatrixShape shape{op.m, op.experts->top_k};
  const bool is_weighted = planner::traits_of(op.kind).sums();
  executor::ExpertChoices choices;
  py::object experts = py::reinterpret_borrow<py::object>(given);
  if (is_weighted) {
    const auto parts = to_pair(given, field, "the experts and their weights");
    experts = parts.first;
    choices.weights = to_read(parts.second, {field + ".weights", shape, DType::F32});
  }
  choices.experts = to_numbers(experts, field + ".experts", choices.type, shape);
  return choices;
}

/// The caller's arrays. Each is a list with one entry per rank, or None where the operator has no such operand.
struct Arrays {
  py::object a, b, c, bias, residual, a_scales, b_scales, bags, choices, gathered_a, norm_weight, normed;
  std::optional<float> norm_epsilon;
  std::optional<std::vector<std::vector<std::int64_t>>> counts; ///< send_counts of every rank
};

/// The counts of all ranks: the caller gives those that they send, which determine those that they receive.
class AllCounts {
 public:
  /// @param arrays  must outlive *this
  AllCounts(const planner::OpSpec& op, const Arrays& arrays) : ranks_(static_cast<std::size_t>(op.world_size)) {
    if (!arrays.counts) return;
    if (arrays.counts->size() != ranks_.size())
      refuse("counts", "has " + std::to_string(arrays.counts->size()) + " rows; needs one for each of " +
                           std::to_string(ranks_.size()) + " ranks");
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].send_counts = (*arrays.counts)[rank];
    received_ = unwrap(executor::received_counts(op, ranks_));
    const std::size_t count = received_.size() / ranks_.size();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].receive_counts = std::span(received_).subspan(rank * count, count);
  }

  /// Buffers that have only the counts of this rank; empty without counts.
  [[nodiscard]] const RankBuffers& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::int64_t> received_; ///< by rank
  std::vector<RankBuffers> ranks_;
};

/// Entry `rank` of a list that has one entry per rank.
py::object of_rank(const py::object& list, const std::string& name, std::size_t rank, std::size_t rank_count) {
  if (list.is_none()) refuse(name, "is missing; needs one array per rank");
  if (!py::isinstance<py::sequence>(list) || py::isinstance<py::array>(list))
    refuse(name, "must be a list of one array per rank");
  if (py::len(list) != rank_count)
    refuse(name, "has " + std::to_string(py::len(list)) + " entries; needs one for each of " +
                     std::to_string(rank_count) + " ranks");
  return list[py::int_(rank)];
}

class Binder {
 public:
  Binder(const planner::OpSpec& op, const Arrays& arrays, const AllCounts& counts, std::span<const int> ranks)
      : op_(op), arrays_(arrays), counts_(counts), ranks_(ranks), rank_count_(ranks.size()) {}

  /// @param rank index among the ranks of this process
  [[nodiscard]] RankBuffers bind(std::size_t rank) {
    const DType product = planner::product_type(op_);
    RankBuffers buffers = counts_.of(ranks_[rank]);
    const OperandShapes shapes = executor::rank_shapes(op_, buffers);
    const bool is_counted = !buffers.send_counts.empty(); // then an array without rows is legal, too
    const auto read = [&](const py::object& list, const char* name, const MatrixShape& shape, DType dtype,
                          std::int64_t parts = 0) {
      if (shape.element_count() == 0 && !(is_counted && shape.columns > 0))
        return refuse_given(list, name), std::span<const std::byte>{};
      return to_read(of_rank(list, name, rank, rank_count_), {field(name, rank), shape, dtype, parts});
    };
    buffers.a = read(arrays_.a, "a", shapes.a, op_.dtype);
    buffers.b = read(arrays_.b, "b", shapes.b, op_.dtype, stacked_count());
    buffers.c = to_write(of_rank(arrays_.c, "c", rank, rank_count_), {field("c", rank), shapes.c, product});
    buffers.bias = read(arrays_.bias, "bias", shapes.bias, product);
    buffers.residual = read(arrays_.residual, "residual", shapes.residual, product);
    buffers.norm_weight = read(arrays_.norm_weight, "norm_weight", shapes.norm_weight, product);
    if (shapes.normed.element_count() == 0) {
      refuse_given(arrays_.normed, "normed");
      refuse_given(py::cast(arrays_.norm_epsilon), "norm_epsilon");
    } else {
      buffers.normed = to_write(of_rank(arrays_.normed, "normed", rank, rank_count_),
                                {field("normed", rank), shapes.normed, product});
    }
    buffers.norm_epsilon = arrays_.norm_epsilon.value_or(buffers.norm_epsilon);
    buffers.a_scales = read(arrays_.a_scales, "a_scales", shapes.a_scales, DType::F32);
    buffers.b_scales = read(arrays_.b_scales, "b_scales", shapes.b_scales, DType::F32);
    if (op_.tables)
      buffers.bags = to_bags(of_rank(arrays_.bags, "bags", rank, rank_count_), field("bags", rank));
    else
      refuse_given(arrays_.bags, "bags");
    if (op_.experts)
      buffers.choices = to_choices(op_, of_rank(arrays_.choices, "choices", rank, rank_count_), field("choices", rank));
    else
      refuse_given(arrays_.choices, "choices");
    if (!planner::traits_of(op_.kind).gathers_a)
      refuse_given(arrays_.gathered_a, "gathered_a");
    else if (!arrays_.gathered_a.is_none())
      buffers.gathered_a = gathered(rank);
    return buffers;
  }

 private:
  /// The number of matrices of b that may be passed as an array of three dimensions; 0: b is one matrix.
  [[nodiscard]] std::int64_t stacked_count() const noexcept {
    if (op_.tables) return op_.tables->table_count;
    const std::int64_t count = planner::matrix_count(op_);
    return op_.experts || count > 1 ? count : 0;
  }
  /// The array for the gathered A; empty if the rank's entry is None.
  [[nodiscard]] std::span<std::byte> gathered(std::size_t rank) const {
    const py::object given = of_rank(arrays_.gathered_a, "gathered_a", rank, rank_count_);
    if (given.is_none()) return {};
    return to_write(given, {field("gathered_a", rank), executor::gathered_a_shape(op_), op_.dtype});
  }
  static std::string field(const char* name, std::size_t rank) {
    return std::string(name) + "[" + std::to_string(rank) + "]";
  }
  void refuse_given(const py::object& list, const char* name) const {
    if (!list.is_none()) refuse(name, "is given, but " + op_.text() + " has none");
  }

  planner::OpSpec op_;
  const Arrays& arrays_;
  const AllCounts& counts_;
  std::span<const int> ranks_; ///< ranks of this process
  std::size_t rank_count_;
};

/// New arrays for a result, one for each rank, with the number of rows that its counts give.
py::list new_results(const planner::OpSpec& op, MatrixShape OperandShapes::*result, const AllCounts& counts,
                     std::span<const int> ranks) {
  const auto numpy = py::module_::import("numpy");
  py::list results;
  for (const int rank : ranks) {
    const MatrixShape shape = executor::rank_shapes(op, counts.of(rank)).*result;
    results.append(
        numpy.attr("empty")(py::make_tuple(shape.rows, shape.columns), numpy_name(planner::product_type(op))));
  }
  return results;
}

/// References to the caller's arrays, copied out of lists that the caller may change.
py::dict kept(const Arrays& arrays) {
  auto result = py::dict("c"_a = py::list(arrays.c));
  if (!arrays.normed.is_none()) result["normed"] = py::list(arrays.normed);
  const std::vector<std::pair<const char*, py::object>> others{{"a", arrays.a},
                                                               {"b", arrays.b},
                                                               {"bias", arrays.bias},
                                                               {"residual", arrays.residual},
                                                               {"a_scales", arrays.a_scales},
                                                               {"b_scales", arrays.b_scales},
                                                               {"bags", arrays.bags},
                                                               {"choices", arrays.choices},
                                                               {"gathered_a", arrays.gathered_a},
                                                               {"norm_weight", arrays.norm_weight}};
  for (const auto& [name, list] : others) {
    if (list.is_none()) continue;
    py::tuple items(list);
    for (std::size_t i = 0; i < items.size(); ++i) // an entry may be a pair in the form of a list
      if (py::isinstance<py::list>(items[i])) items[i] = py::tuple(items[i]);
    result[name] = items;
  }
  return result;
}

/// As executor::prepare(), without the interpreter's lock.
std::unique_ptr<executor::Prepared> prepare_unlocked(World& world, const planner::Plan& plan,
                                                     std::span<const RankBuffers> buffers,
                                                     const executor::ExecuteOptions& options) {
  const py::gil_scoped_release released;
  const World::Turn turn(world);
  return unwrap(executor::prepare(plan, buffers, world.communicator(), options));
}

/// Takes part in the preparation of the other processes, which this one refuses: they get an error as well, where they
/// would wait for it. Without other processes it does nothing.
void refuse_with_others(World& world, const planner::Plan& plan, const executor::ExecuteOptions& options) {
  try {
    const executor::Communicator& communicator = world.communicator();
    if (std::cmp_equal(communicator.local_ranks().size(), communicator.world_size())) return;
    static_cast<void>(prepare_unlocked(world, plan, {}, options));
  } catch (const std::exception&) { // the caller's own error says more
  }
}

/// Errors: as Binder and executor::prepare.
/// @param is_told  set once the other processes take part, which get the error as well
std::unique_ptr<Binding> prepare_own(const std::shared_ptr<World>& world, const planner::Plan& plan, Arrays arrays,
                                     const executor::ExecuteOptions& options, bool& is_told) {
  executor::Communicator& communicator = world->communicator();
  if (!communicator.uses_host_memory())
    throw Failure({ErrorCode::Unsupported, "communicator",
                   "its ranks have memory of their own; numpy arrays need backend 'host'"});
  unwrap(plan.op.validate());
  // executor::prepare() refuses this, on all processes. Below, it would look like lists of the wrong length.
  if (plan.op.world_size != communicator.world_size()) {
    is_told = true;
    static_cast<void>(prepare_unlocked(*world, plan, {}, options));
  }
  const std::span<const int> ranks = communicator.local_ranks();
  const AllCounts counts(plan.op, arrays);
  if (arrays.c.is_none()) arrays.c = new_results(plan.op, &OperandShapes::c, counts, ranks);
  if (arrays.normed.is_none() && executor::operand_shapes(plan.op).normed.element_count() > 0)
    arrays.normed = new_results(plan.op, &OperandShapes::normed, counts, ranks);
  Binder binder(plan.op, arrays, counts, ranks);
  std::vector<RankBuffers> buffers;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) buffers.push_back(binder.bind(rank));
  const py::dict bound = kept(arrays);
  is_told = true;
  auto prepared = prepare_unlocked(*world, plan, buffers, options);
  return std::make_unique<Binding>(world, std::move(prepared), plan.op, bound, options.prepare.allow_independent);
}

std::unique_ptr<Binding> prepare(const std::shared_ptr<World>& world, const planner::Plan& plan, Arrays arrays,
                                 const executor::ExecuteOptions& options) {
  bool is_told = false;
  try {
    return prepare_own(world, plan, std::move(arrays), options, is_told);
  } catch (...) {
    if (!is_told) refuse_with_others(*world, plan, options);
    throw;
  }
}

} // namespace

void refuse_masked(const py::handle& array, const std::string& field) {
  if (py::hasattr(array, "filled") && py::hasattr(array, "mask"))
    refuse(field, "is a masked array, whose mask would be lost; pass its .filled(value)");
}

void bind_arrays(py::module_&, py::class_<World, std::shared_ptr<World>>& world) {
  world.def(
      "prepare",
      [](const std::shared_ptr<World>& self, const planner::Plan& plan, py::object a, py::object b, py::object c,
         py::object bias, py::object residual, py::object a_scales, py::object b_scales, py::object bags,
         py::object choices, py::object gathered_a, py::object norm_weight, py::object normed,
         std::optional<float> norm_epsilon, std::optional<std::vector<std::vector<std::int64_t>>> counts,
         bool accept_other_fingerprint, bool allow_independent) {
        return prepare(self, plan,
                       {a, b, c, bias, residual, a_scales, b_scales, bags, choices, gathered_a, norm_weight, normed,
                        norm_epsilon, std::move(counts)},
                       {accept_other_fingerprint, {allow_independent}});
      },
      "plan"_a, "a"_a = py::none(), "b"_a = py::none(), "c"_a = py::none(), py::kw_only(), "bias"_a = py::none(),
      "residual"_a = py::none(), "a_scales"_a = py::none(), "b_scales"_a = py::none(), "bags"_a = py::none(),
      "choices"_a = py::none(), "gathered_a"_a = py::none(), "norm_weight"_a = py::none(), "normed"_a = py::none(),
      "norm_epsilon"_a = py::none(), "counts"_a = py::none(), "accept_other_fingerprint"_a = false,
      "allow_independent"_a = false,
      "Binds a plan to numpy arrays, without copying them. Every operand is a list with one array per rank.\n"
      "This call reads B, every run reads A.\n"
      "c           results; None: new arrays\n"
      "normed      normalised rows of C; None: new arrays\n"
      "gathered_a  kinds that gather A: each run writes the rows of A of all ranks here, [m, k]. None, or\n"
      "            None for a rank: not wanted\n"
      "choices     grouped matmuls: the experts [m, top_k] that all rows chose. If the kind sums: a pair of\n"
      "            these and their weights [m, top_k]\n"
      "counts      all-to-all kinds: a list for every rank, with the rows that it sends to each expert of\n"
      "            each rank. None: equally many\n"
      "accept_other_fingerprint: run a plan that was made for another machine");
}

} // namespace mc2::python
