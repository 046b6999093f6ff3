#include "lanes/gemm.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

using Layout = dnnl::memory::desc;

/// Turns oneDNN's exceptions into SystemErrors; every call of oneDNN that may fail goes through here.
template <typename Call>
decltype(auto) checked(const char* name, int rank, Call&& call) {
  try {
    return call();
  } catch (const dnnl::error& error) {
    throw SystemError(name, static_cast<int>(error.status), rank_text(rank) + ": " + error.message);
  }
}

dnnl::memory::data_type element_type(planner::DType dtype) {
  switch (dtype) {
    case planner::DType::F32: return dnnl::memory::data_type::f32;
    case planner::DType::Bf16: return dnnl::memory::data_type::bf16;
    case planner::DType::I8: return dnnl::memory::data_type::s8;
    case planner::DType::F16:
    case planner::DType::F8E4m3: break;
  }
  MC2_CHECK(false, "a type that the host backend refuses reached the matmul");
  return dnnl::memory::data_type::undef;
}

Layout row_major(std::int64_t rows, std::int64_t columns, dnnl::memory::data_type type) {
  return {{rows, columns}, type, dnnl::memory::format_tag::ab};
}

constexpr std::int64_t kCacheLineBytes = 64;

/// A row-major layout whose rows are an odd number of cache lines apart. Rows at a distance of a multiple of 4 KiB,
/// e.g. 1024 columns of f32, lie in the same sets of the first-level cache, and a kernel that reads B in such a layout
/// runs at half its rate.
Layout padded_row_major(std::int64_t rows, std::int64_t columns, dnnl::memory::data_type type) {
  const auto line_elements = kCacheLineBytes / static_cast<std::int64_t>(dnnl::memory::data_type_size(type));
  const std::int64_t lines = planner::ceil_div(columns, line_elements);
  return {{rows, columns}, type, dnnl::memory::dims{(lines | 1) * line_elements, 1}};
}

/// The operations that follow the sum of products, in this order. Scales are one of them, and not oneDNN's own output
/// scales: if those may change between runs, oneDNN does not use its fast i8 kernels.
struct PostOps {
  bool has_scales = false, has_bias = false, has_residual = false;
  bool operator==(const PostOps&) const = default;

  [[nodiscard]] dnnl::post_ops describe(std::int64_t rows, std::int64_t columns,
                                        dnnl::memory::data_type product_type) const {
    dnnl::post_ops post_ops;
    if (has_scales)
      post_ops.append_binary(dnnl::algorithm::binary_mul, row_major(1, columns, dnnl::memory::data_type::f32));
    if (has_bias) post_ops.append_binary(dnnl::algorithm::binary_add, row_major(1, columns, product_type));
    if (has_residual) post_ops.append_binary(dnnl::algorithm::binary_add, row_major(rows, columns, product_type));
    return post_ops;
  }
};

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const Layout& a, const Layout& b,
                                             const Layout& product, const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post_ops);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user); // oneDNN's own scratchpad belongs to the building thread
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, product, attributes};
#else
  return {dnnl::matmul::desc(a, b, product), attributes, engine};
#endif
}

bool is_reference_kernel(const dnnl::matmul::primitive_desc& description) {
  return std::string_view(description.impl_info_str()).starts_with("ref");
}

} // namespace

std::int64_t depth_of(const planner::OpSpec& op, bool fills_tiles) {
  constexpr std::int64_t kAmxTileBytes = 64;
  if (!fills_tiles || op.dtype == planner::DType::F32) return op.k;
  const std::int64_t tile = kAmxTileBytes / planner::size_bytes(op.dtype);
  return planner::align_up(op.k, tile);
}

struct Gemm::State {
  /// The matmul of one number of rows and columns. Its memory objects get the addresses of each call.
  struct Kernel {
    std::int64_t rows = 0, columns = 0;
    Layout b_layout;
    dnnl::matmul primitive;
    dnnl::memory a, product, scratchpad, scales, bias, residual;
    dnnl::reorder fill; ///< copies rows of A into longer ones; empty if A is multiplied in place
    dnnl::memory given_a, filled_a;
  };

  /// A copy of some columns of B in a kernel's layout.
  struct PackedColumns {
    std::int64_t first = 0, count = 0;
    dnnl::memory b;
  };

  struct Call {
    GemmShape shape;
    std::size_t kernel = 0; ///< index of kernels
    dnnl::memory b;
  };

  State(const planner::OpSpec& spec, int rank_index, const GemmWeights& given, const State* sharing)
      : op(spec),
        rank(rank_index),
        engine(sharing != nullptr ? sharing->engine : dnnl::engine(dnnl::engine::kind::cpu, 0)),
        stream(engine),
        weights(given),
        post_ops{!given.b_scales.empty(), !given.bias.empty(), given.has_residual},
        depth(depth_of(spec, given.fills_tiles)),
        product_type(given.keeps_f32 ? planner::DType::F32 : planner::product_type(spec)),
        scales(given.b_scales.size() / sizeof(float)),
        longer_rows(sharing != nullptr ? sharing->longer_rows : std::make_shared<std::vector<std::byte>>()),
        kernels(sharing != nullptr ? sharing->kernels : std::make_shared<std::vector<Kernel>>()) {}

  [[nodiscard]] Layout product_layout(std::int64_t rows, std::int64_t columns) const {
    return row_major(rows, columns, element_type(product_type));
  }

  [[nodiscard]] dnnl::matmul::primitive_desc describe(const GemmShape& shape, const Layout& b) const {
    return describe_matmul(engine, row_major(shape.rows, depth, element_type(op.dtype)), b,
                           product_layout(shape.rows, shape.columns),
                           post_ops.describe(shape.rows, shape.columns, element_type(product_type)));
  }

  /// Describes a matmul with the layout of B that oneDNN prefers. If that is plain row-major and a row is longer than a
  /// cache line, the layout is padded.
  [[nodiscard]] dnnl::matmul::primitive_desc describe_with_own_layout(const GemmShape& shape) const {
    const auto type = element_type(op.dtype);
    auto preferred = describe(shape, {{depth, shape.columns}, type, dnnl::memory::format_tag::any});
    const bool is_short = shape.columns * planner::size_bytes(op.dtype) <= kCacheLineBytes;
    if (is_short || preferred.weights_desc() != row_major(depth, shape.columns, type)) return preferred;
    return describe(shape, padded_row_major(depth, shape.columns, type));
  }

  /// The first copy of these columns, which has the layout that the longest shape prefers; packed.end() if there is
  /// none.
  [[nodiscard]] std::vector<PackedColumns>::const_iterator packed_columns(const GemmShape& shape) const {
    return std::ranges::find_if(packed, [&](const PackedColumns& columns) {
      return columns.first == shape.first_column && columns.count == shape.columns;
    });
  }

  /// Describes a kernel for the layout in which the columns are packed already. If oneDNN has no fast kernel for that
  /// layout, for the one that it prefers.
  [[nodiscard]] dnnl::matmul::primitive_desc choose(const GemmShape& shape) const {
    const auto same = packed_columns(shape);
    if (same == packed.end()) return describe_with_own_layout(shape);
    try {
      auto shared = describe(shape, same->b.get_desc());
      if (!is_reference_kernel(shared)) return shared;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
    return describe_with_own_layout(shape);
  }

  /// A dense copy of columns of B with rows of zeros below up to `depth`, because oneDNN packs i8 only from dense
  /// matrices. Empty if B itself can be packed.
  [[nodiscard]] std::vector<std::byte> dense_columns(const GemmShape& shape) const {
    if (shape.columns == op.n && depth == op.k) return {};
    const std::int64_t element_bytes = planner::size_bytes(op.dtype);
    const auto row_bytes = static_cast<std::size_t>(shape.columns * element_bytes);
    std::vector<std::byte> columns(static_cast<std::size_t>(depth) * row_bytes);
    for (std::int64_t row = 0; row < op.k; ++row) {
      std::memcpy(columns.data() + static_cast<std::size_t>(row) * row_bytes,
                  weights.b.data() + (row * op.n + shape.first_column) * element_bytes, row_bytes);
    }
    return columns;
  }

  dnnl::memory packed_as(const GemmShape& shape, const Layout& layout) {
    for (const PackedColumns& columns : packed) {
      if (columns.first == shape.first_column && columns.count == shape.columns && columns.b.get_desc() == layout)
        return columns.b;
    }
    const auto columns_of_b = dense_columns(shape);
    const std::byte* first = columns_of_b.empty() ? weights.b.data() : columns_of_b.data();
    dnnl::memory source(row_major(depth, shape.columns, element_type(op.dtype)), engine, const_cast<std::byte*>(first));
    dnnl::memory copy(layout, engine);
    dnnl::reorder(source, copy).execute(stream, source, copy);
    stream.wait();
    packed.push_back({shape.first_column, shape.columns, copy});
    return copy;
  }

  std::size_t kernel_for(const GemmShape& shape, const dnnl::matmul::primitive_desc& description) {
    const Layout b_layout = description.weights_desc();
    const auto same = std::ranges::find_if(*kernels, [&](const Kernel& kernel) {
      return kernel.rows == shape.rows && kernel.columns == shape.columns && kernel.b_layout == b_layout;
    });
    const auto index = static_cast<std::size_t>(same - kernels->begin());
    if (same != kernels->end()) return index;
    Kernel& kernel = kernels->emplace_back();
    kernel.rows = shape.rows;
    kernel.columns = shape.columns;
    kernel.b_layout = b_layout;
    kernel.primitive = dnnl::matmul(description);
    kernel.a = dnnl::memory(description.src_desc(), engine, nullptr);
    kernel.product = dnnl::memory(description.dst_desc(), engine, nullptr);
    kernel.scratchpad = dnnl::memory(description.scratchpad_desc(), engine);
    kernel.scales = dnnl::memory(row_major(1, shape.columns, dnnl::memory::data_type::f32), engine, nullptr);
    kernel.bias = dnnl::memory(product_layout(1, shape.columns), engine, nullptr);
    kernel.residual = dnnl::memory(product_layout(shape.rows, shape.columns), engine, nullptr);
    if (depth != op.k) {
      const auto type = element_type(op.dtype);
      const dnnl::memory::dims sizes{shape.rows, op.k};
      kernel.given_a = dnnl::memory(row_major(shape.rows, op.k, type), engine, nullptr);
      kernel.filled_a = dnnl::memory(Layout(sizes, type, dnnl::memory::dims{depth, 1}), engine, nullptr);
      kernel.fill = dnnl::reorder(kernel.given_a, kernel.filled_a);
    }
    return index;
  }

  /// The index of an existing kernel for this shape that reads these columns in the layout in which they are packed, or
  /// in any if they are not packed yet; kernels->size() if there is none.
  [[nodiscard]] std::size_t known_kernel(const GemmShape& shape) const {
    const auto same = packed_columns(shape);
    const auto fits = [&](const Kernel& kernel) {
      return kernel.rows == shape.rows && kernel.columns == shape.columns &&
             (same == packed.end() || same->b.get_desc() == kernel.b_layout);
    };
    return static_cast<std::size_t>(std::ranges::find_if(*kernels, fits) - kernels->begin());
  }

  void add_call(const GemmShape& shape) {
    if (const std::size_t known = known_kernel(shape); known < kernels->size()) { // a new description would take longer
      calls.push_back({shape, known, packed_as(shape, (*kernels)[known].b_layout)});
      return;
    }
    const auto description = choose(shape);
    const dnnl::memory b = packed_as(shape, description.weights_desc());
    calls.push_back({shape, kernel_for(shape, description), b});
  }

  /// Computes the scales of a call's columns: the scale of A times those of B.
  void combine_scales(const GemmShape& shape, const std::byte* a_scale) {
    float of_a = 0;
    std::memcpy(&of_a, a_scale, sizeof of_a);
    const auto columns = static_cast<std::size_t>(shape.columns);
    const std::size_t first = static_cast<std::size_t>(shape.first_column) * sizeof(float);
    std::memcpy(scales.data(), weights.b_scales.data() + first, columns * sizeof(float));
    for (float& scale : std::span(scales).first(columns)) scale *= of_a;
  }

  static void bind(dnnl::memory& memory, const std::byte* address) {
    memory.set_data_handle(const_cast<std::byte*>(address));
  }

  /// Executes a primitive through the C interface: the C++ one builds a map and a vector on every execution.
  void run(const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments, const char* fault) {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data()),
        fault);
    stream.wait();
  }

  /// The address of the rows of A that are multiplied: `a` itself, or a copy whose rows are filled with zeros.
  const std::byte* filled(Kernel& kernel, const std::byte* a) {
    if (depth == op.k) return a;
    bind(kernel.given_a, a);
    bind(kernel.filled_a, longer_rows->data());
    const std::array<dnnl_exec_arg_t, 2> arguments{
        {{DNNL_ARG_FROM, kernel.given_a.get()}, {DNNL_ARG_TO, kernel.filled_a.get()}}};
    run(kernel.fill, arguments, "could not copy rows");
    return longer_rows->data();
  }

  void execute(const Call& call, const GemmOperands& operands) {
    Kernel& kernel = (*kernels)[call.kernel];
    std::array<dnnl_exec_arg_t, 7> arguments{{{DNNL_ARG_SRC, kernel.a.get()},
                                              {DNNL_ARG_WEIGHTS, call.b.get()},
                                              {DNNL_ARG_DST, kernel.product.get()},
                                              {DNNL_ARG_SCRATCHPAD, kernel.scratchpad.get()}}};
    std::size_t count = 4;
    int post_op = 0;
    const auto add_post_op = [&](dnnl::memory& memory) {
      arguments[count++] = {DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_op++) | DNNL_ARG_SRC_1, memory.get()};
    };
    bind(kernel.a, filled(kernel, operands.a));
    bind(kernel.product, operands.product);
    if (post_ops.has_scales) {
      combine_scales(call.shape, operands.a_scale);
      bind(kernel.scales, reinterpret_cast<const std::byte*>(scales.data()));
      add_post_op(kernel.scales);
    }
    if (post_ops.has_bias) {
      bind(kernel.bias, weights.bias.data() + call.shape.first_column * planner::size_bytes(product_type));
      add_post_op(kernel.bias);
    }
    if (post_ops.has_residual) {
      bind(kernel.residual, operands.residual);
      add_post_op(kernel.residual);
    }
    run(kernel.primitive, std::span(arguments).first(count), "could not multiply a block");
  }

  planner::OpSpec op;
  int rank;
  dnnl::engine engine;
  dnnl::stream stream;
  GemmWeights weights; ///< B is read while building only
  PostOps post_ops;
  std::int64_t depth; ///< rows of packed B: k, or k rounded up to whole tiles
  planner::DType product_type;
  std::vector<float> scales;                           ///< i8: scales of the present call
  std::shared_ptr<std::vector<std::byte>> longer_rows; ///< A of the present call, if depth exceeds k
  std::vector<PackedColumns> packed; ///< of equal columns, the first has the layout that the longest shape prefers
  std::shared_ptr<std::vector<Kernel>> kernels;
  std::vector<Call> calls; ///< sorted by shape
};

Gemm::Gemm(const planner::OpSpec& op, int rank, const GemmWeights& weights, std::span<const GemmShape> shapes,
           const Gemm* sharing) {
  std::vector<GemmShape> wanted(shapes.begin(), shapes.end());
  std::ranges::sort(wanted, std::ranges::greater{}); // the longest first
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  checked("dnnl::matmul", rank, [&] {
    state_ = std::make_unique<State>(op, rank, weights, sharing != nullptr ? sharing->state_.get() : nullptr);
    MC2_CHECK(sharing == nullptr ||
                  (sharing->state_->post_ops == state_->post_ops &&
                   sharing->state_->product_type == state_->product_type && sharing->state_->depth == state_->depth),
              "kernels of other products are shared");
    for (const GemmShape& shape : wanted) state_->add_call(shape);
    if (state_->depth != op.k && !wanted.empty()) {
      auto& rows = *state_->longer_rows;
      const std::int64_t bytes = wanted.front().rows * state_->depth * planner::size_bytes(op.dtype);
      rows.resize(std::max(rows.size(), static_cast<std::size_t>(bytes)));
    }
    std::ranges::sort(state_->calls, {}, &State::Call::shape);
  });
}

Gemm::~Gemm() = default;

void Gemm::multiply(const GemmOperands& operands, const GemmShape& shape) {
  const auto call = std::ranges::lower_bound(state_->calls, shape, {}, &State::Call::shape);
  MC2_CHECK(call != state_->calls.end() && call->shape == shape, "no kernel was built for this shape");
  checked("dnnl_primitive_execute", state_->rank, [&] { state_->execute(*call, operands); });
}

std::size_t Gemm::packed_layout_count() const noexcept { return state_->packed.size(); }

std::string gemm_library_version() {
  const auto* version = dnnl::version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
}

std::string gemm_isa() {
  struct IsaName {
    unsigned bits;
    std::string_view name;
  };
  // Strongest first; an instruction set includes every set whose bits it has. A set that only one major version of
  // oneDNN knows is not listed and gets the name of the next one below.
  static constexpr std::array kNames{
      IsaName{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
      IsaName{dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
      IsaName{dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
      IsaName{dnnl_cpu_isa_avx512_core, "avx512_core"},
      IsaName{dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
      IsaName{dnnl_cpu_isa_avx2, "avx2"},
      IsaName{dnnl_cpu_isa_avx, "avx"},
      IsaName{dnnl_cpu_isa_sse41, "sse41"},
  };
  const auto effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  for (const IsaName& isa : kNames) {
    if ((effective & isa.bits) == isa.bits) return std::string(isa.name);
  }
  return "baseline";
}

namespace {

bool has_isa(unsigned needed) { return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed; }

} // namespace

bool gemm_isa_has_amx() { return has_isa(dnnl_cpu_isa_avx512_core_amx); }

bool gemm_isa_has_bf16() { return has_isa(dnnl_cpu_isa_avx512_core_bf16); }

bool gemm_isa_has_i8() { return has_isa(dnnl_cpu_isa_avx512_core_vnni); }

} // namespace mc2::executor::lanes
