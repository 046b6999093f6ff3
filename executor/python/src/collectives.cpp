#include <pybind11/numpy.h>

#include <bit>
#include <optional>
#include <span>

#include "mc2/executor/node_collectives.hpp"
#include "mc2/planner/text.hpp"
#include "world.hpp"

namespace mc2::python {
namespace {

using namespace py::literals;
using executor::NodeCollectives;
using planner::DType;

/// The memory of a Python object with the buffer protocol, held while this lives.
class Lent {
 public:
  /// Throws Failure (InvalidSpec, `field`) if the memory is not contiguous, or is read-only and `is_written`.
  Lent(const py::buffer& object, const char* field, bool is_written) : view_(request(object, field, is_written)) {
    py::ssize_t stride = view_.itemsize;
    for (py::ssize_t axis = view_.ndim; axis-- > 0;) {
      const auto at = static_cast<std::size_t>(axis);
      if (view_.shape[at] > 1 && view_.strides[at] != stride)
        throw Failure({ErrorCode::InvalidSpec, field, "is not contiguous"});
      stride *= view_.shape[at];
    }
  }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.ptr), static_cast<std::size_t>(view_.size * view_.itemsize)};
  }
  [[nodiscard]] const std::string& format() const { return view_.format; }
  [[nodiscard]] std::size_t item_bytes() const { return static_cast<std::size_t>(view_.itemsize); }

 private:
  static py::buffer_info request(const py::buffer& object, const char* field, bool is_written) {
    refuse_masked(object, field);
    try {
      return object.request(is_written);
    } catch (const py::error_already_set& error) {
      throw Failure({ErrorCode::InvalidSpec, field, error.what()});
    }
  }

  py::buffer_info view_;
};

/// A format of Python's module struct without the prefix for the machine's own byte order, if it has one.
std::string in_own_order(const std::string& format) {
  const bool is_named = format.starts_with('@') || format.starts_with('=') ||
                        (format.starts_with('<') && std::endian::native == std::endian::little);
  return is_named ? format.substr(1) : format;
}

/// Whether elements of a format may stand for a type: as numbers of that type, as bit patterns of short floats, or as
/// raw bytes.
bool may_hold(const std::string& format, DType dtype) {
  if (format == "B" || format == "c") return true;
  switch (dtype) {
    case DType::F32: return format == "f";
    case DType::F16: return format == "e" || format == "H";
    case DType::Bf16: return format == "H";
    case DType::I8: return format == "b";
    case DType::F8E4m3: return false;
  }
  return false;
}

/// Throws Failure unless the elements may stand for the type.
void require_type(const Lent& data, const char* field, DType dtype) {
  if (!may_hold(in_own_order(data.format()), dtype))
    throw Failure({ErrorCode::InvalidSpec, field,
                   "has elements of format '" + data.format() + "', which are no " + std::string(to_string(dtype)) +
                       "; needs an array of that type, or raw bytes"});
}

/// The type of this name. Throws Failure unless sums can be made of it.
DType summed_type(const std::string& name) {
  const auto named = planner::parse_dtype(name);
  if (named.ok() && named.value() != DType::F8E4m3) return named.value();
  throw Failure({ErrorCode::UnknownName, "dtype", in_quotes(name) + " is none of f32, bf16, f16, i8"});
}

/// The type that the caller named, else the type of the elements. Throws Failure if neither tells it.
DType type_of(const Lent& data, const std::optional<std::string>& name) {
  if (name) {
    const DType named = summed_type(*name);
    require_type(data, "data", named);
    return named;
  }
  const std::string format = in_own_order(data.format());
  if (format == "f") return DType::F32;
  if (format == "e") return DType::F16;
  if (format == "b") return DType::I8;
  throw Failure({ErrorCode::InvalidSpec, "dtype",
                 "is not given, and elements of format '" + data.format() + "' say none of f32, f16 and i8"});
}

/// What elements of a format are, whatever letter names their size: "f" floats, "i" whole numbers and bit patterns.
/// Other formats stand for themselves.
std::string kind_of(const std::string& format) {
  const std::string own = in_own_order(format);
  if (own.size() != 1) return own;
  if (std::string_view("efdg").find(own.front()) != std::string_view::npos) return "f";
  return std::string_view("bBhHiIlLqQnN?").find(own.front()) != std::string_view::npos ? "i" : own;
}

/// The bytes of an element of both. Raw bytes may stand for any. Throws Failure unless the elements are alike.
std::size_t shared_size(const Lent& copy, const char* field, const Lent& data, const char* data_field) {
  const std::size_t ours = copy.item_bytes(), theirs = data.item_bytes();
  const auto is_raw = [](const Lent& lent) { return lent.format() == "B" || in_own_order(lent.format()) == "c"; };
  const bool is_alike = ours == theirs && kind_of(copy.format()) == kind_of(data.format());
  if (!is_alike && !is_raw(copy) && !is_raw(data))
    throw Failure({ErrorCode::InvalidSpec, field,
                   "has elements of format '" + copy.format() + "'; needs '" + data.format() + "', as " + data_field});
  return std::max({ours, theirs, std::size_t{1}}); // numpy has elements of no bytes
}

struct Bytes {
  std::size_t whole, part;
};

/// What the size of an array is counted in: elements, or single bytes if it has no whole number of elements.
std::size_t unit_of(std::size_t bytes, std::size_t size) { return bytes % size == 0 ? size : 1; }

std::string size_text(std::size_t bytes, std::size_t size) {
  return bytes % size == 0 ? std::to_string(bytes / size) + " elements" : std::to_string(bytes) + " bytes";
}

/// Throws Failure unless the array `field` has one part of whole elements for each rank.
/// @param size  bytes of an element
/// @param part  the name of the array that is one part
void require_parts(const char* field, const char* part, Bytes bytes, std::size_t size, int ranks) {
  if (bytes.part % size != 0)
    throw Failure(
        {ErrorCode::InvalidSpec, part,
         "has " + std::to_string(bytes.part) + " bytes; needs whole elements of " + std::to_string(size) + " bytes"});
  const std::size_t needed = static_cast<std::size_t>(ranks) * bytes.part;
  if (bytes.whole == needed) return;
  const std::size_t unit = unit_of(bytes.whole, size);
  throw Failure({ErrorCode::InvalidSpec, field,
                 "has " + size_text(bytes.whole, size) + "; needs " + std::to_string(ranks) + " ranks x " +
                     std::to_string(bytes.part / unit) + " = " + std::to_string(needed / unit)});
}

using Name = std::optional<std::string>;

std::span<std::byte> memory_at(std::uintptr_t address, std::size_t byte_count) {
  return {reinterpret_cast<std::byte*>(address), byte_count}; // NOLINT: Python passes addresses as numbers
}

std::unique_ptr<NodeCollectives> open(int rank, int ranks, const std::string& key, int threads, double deadline_s) {
  const auto deadline = deadline_of(deadline_s);
  const py::gil_scoped_release released;
  return unwrap(NodeCollectives::open({rank, key}, ranks, {.threads = threads, .deadline = deadline}));
}

void all_reduce(NodeCollectives& self, const py::buffer& data, const Name& dtype) {
  const Lent lent(data, "data", true);
  const DType type = type_of(lent, dtype);
  const py::gil_scoped_release released;
  unwrap(self.all_reduce(lent.bytes(), type));
}

void reduce_scatter(NodeCollectives& self, const py::buffer& data, const py::buffer& own, const Name& dtype) {
  const Lent from(data, "data", false), to(own, "own", true);
  const DType type = type_of(from, dtype);
  require_type(to, "own", type);
  const auto size = static_cast<std::size_t>(planner::size_bytes(type)); // either may be raw bytes
  require_parts("data", "own", {from.bytes().size(), to.bytes().size()}, size, self.world_size());
  const py::gil_scoped_release released;
  unwrap(self.reduce_scatter(from.bytes(), to.bytes(), type));
}

void all_gather(NodeCollectives& self, const py::buffer& own, const py::buffer& all) {
  const Lent from(own, "own", false), to(all, "all", true);
  const std::size_t size = shared_size(to, "all", from, "own");
  require_parts("all", "own", {to.bytes().size(), from.bytes().size()}, size, self.world_size());
  const py::gil_scoped_release released;
  unwrap(self.all_gather(from.bytes(), to.bytes()));
}

void all_to_all(NodeCollectives& self, const py::buffer& data, const py::buffer& received) {
  const Lent from(data, "data", false), to(received, "received", true);
  const std::size_t size = shared_size(to, "received", from, "data"), bytes = from.bytes().size();
  const std::size_t part = bytes / size / static_cast<std::size_t>(self.world_size()) * size;
  require_parts("data", "data", {bytes, part}, size, self.world_size());
  if (to.bytes().size() != bytes)
    throw Failure({ErrorCode::InvalidSpec, "received",
                   "has " + size_text(to.bytes().size(), size) + "; needs " +
                       std::to_string(bytes / unit_of(to.bytes().size(), size)) + ", as data"});
  const py::gil_scoped_release released;
  unwrap(self.all_to_all(from.bytes(), to.bytes()));
}

} // namespace

void bind_collectives(py::module_& module) {
  py::class_<NodeCollectives>(
      module, "NodeCollectives",
      "Collectives, without a matmul, between processes of one machine that hold one rank each, through\n"
      "memory that they share.\n"
      "key      the same text in all processes of the job, and in no other job\n"
      "threads  how many threads may move this rank's data, the calling one included\n"
      "Every call is collective, with the same sizes and types on all ranks. A process makes one call at a\n"
      "time. Operands are contiguous buffers, e.g. numpy arrays.")
      .def(py::init(&open), "rank"_a, "ranks"_a, "key"_a, py::kw_only(), "threads"_a = 1, "deadline_s"_a = 60.0)
      .def_property_readonly("rank", &NodeCollectives::rank, "The number of this process's rank.")
      .def_property_readonly("ranks", &NodeCollectives::world_size, "How many ranks there are.")
      .def_property_readonly(
          "threads", &NodeCollectives::threads,
          "How many threads may move this rank's data: the smallest number that any rank gave, or 1 if a rank is\n"
          "a fork()ed child.")
      .def(
          "all_reduce", &all_reduce, "data"_a, "dtype"_a = py::none(),
          "Replaces data by its sum over the ranks. All ranks get the same bits. dtype: \"f32\", \"bf16\", \"f16\" or\n"
          "\"i8\"; None: the type of the elements.")
      .def("reduce_scatter", &reduce_scatter, "data"_a, "own"_a, "dtype"_a = py::none(),
           "Writes this rank's part of the sum of `data` over the ranks to `own`. dtype as in all_reduce().")
      .def("all_gather", &all_gather, "own"_a, "all"_a,
           "Writes every rank's `own` to `all`, in the order of the ranks.")
      .def("all_to_all", &all_to_all, "data"_a, "received"_a,
           "Sends part q of `data` to rank q. Writes what the ranks sent to this one to `received`, in their\n"
           "order.")
      .def(
          "all_reduce_at",
          [](NodeCollectives& self, std::uintptr_t address, std::size_t byte_count, const std::string& dtype) {
            unwrap(self.all_reduce(memory_at(address, byte_count), summed_type(dtype)));
          },
          "address"_a, "byte_count"_a, "dtype"_a, NoGil(), "As all_reduce(), for byte_count bytes at an address.");
}

} // namespace mc2::python
