#include "backends/host/gemm.hpp"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

namespace mc2::executor::host {
namespace {

using Layout = dnnl::memory::desc;

/// The one place where the matmul library's failures become SystemErrors.
template <typename Call>
decltype(auto) checked(const char* name, int rank, Call&& call) {
  try {
    return call();
  } catch (const dnnl::error& error) {
    throw planner::SystemError(name, static_cast<int>(error.status),
                               "rank " + std::to_string(rank) + ": " + error.message);
  }
}

dnnl::memory::data_type element_type(planner::DType dtype) {
  MC2_CHECK(dtype != planner::DType::F16, "a type that the host backend refuses reached the matmul");
  return dtype == planner::DType::Bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const Layout& a, const Layout& b,
                                             const Layout& product) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user); // the library's own is bound to the building thread
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

struct Gemm::State {
  /// The matmul of one block length, with its arguments bound except for the addresses of A and the product.
  struct Kernel {
    std::int64_t rows = 0;
    dnnl::matmul primitive;
    dnnl::memory a, product, scratchpad;
    std::array<dnnl_exec_arg_t, 4> arguments{};
  };

  State(const planner::OpSpec& spec, int rank_index, std::span<const std::byte> b)
      : op(spec), rank(rank_index), engine(dnnl::engine::kind::cpu, 0), stream(engine), plain_b(b) {}

  [[nodiscard]] Layout plain(std::int64_t rows, std::int64_t columns) const {
    return {{rows, columns}, element_type(op.dtype), dnnl::memory::format_tag::ab};
  }

  [[nodiscard]] dnnl::matmul::primitive_desc describe(std::int64_t rows, const Layout& b) const {
    return describe_matmul(engine, plain(rows, op.k), b, plain(rows, op.n));
  }

  [[nodiscard]] dnnl::matmul::primitive_desc describe_with_own_layout(std::int64_t rows) const {
    return describe(rows, {{op.k, op.n}, element_type(op.dtype), dnnl::memory::format_tag::any});
  }

  /// A kernel for the layout that B is already packed in, unless that would cost the fast path.
  [[nodiscard]] dnnl::matmul::primitive_desc choose(std::int64_t rows) const {
    if (packed.empty()) return describe_with_own_layout(rows);
    try {
      auto shared = describe(rows, packed.front().get_desc());
      if (!is_reference_kernel(shared)) return shared;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
    return describe_with_own_layout(rows);
  }

  dnnl::memory packed_as(const Layout& layout) {
    for (const dnnl::memory& copy : packed) {
      if (copy.get_desc() == layout) return copy;
    }
    dnnl::memory source(plain(op.k, op.n), engine, const_cast<std::byte*>(plain_b.data()));
    dnnl::memory copy(layout, engine);
    dnnl::reorder(source, copy).execute(stream, source, copy);
    stream.wait();
    packed.push_back(copy);
    return copy;
  }

  void add_kernel(std::int64_t rows) {
    const auto description = choose(rows);
    const dnnl::memory b = packed_as(description.weights_desc());
    Kernel& kernel = kernels.emplace_back();
    kernel.rows = rows;
    kernel.primitive = dnnl::matmul(description);
    kernel.a = dnnl::memory(description.src_desc(), engine, nullptr);
    kernel.product = dnnl::memory(description.dst_desc(), engine, nullptr);
    kernel.scratchpad = dnnl::memory(description.scratchpad_desc(), engine);
    kernel.arguments = {{{DNNL_ARG_SRC, kernel.a.get()},
                         {DNNL_ARG_WEIGHTS, b.get()},
                         {DNNL_ARG_DST, kernel.product.get()},
                         {DNNL_ARG_SCRATCHPAD, kernel.scratchpad.get()}}};
  }

  planner::OpSpec op;
  int rank;
  dnnl::engine engine;
  dnnl::stream stream;
  std::span<const std::byte> plain_b; ///< read while building only
  std::vector<dnnl::memory> packed;   ///< copies of B; the first is in the layout that the longest block prefers
  std::vector<Kernel> kernels;
};

Gemm::Gemm(const planner::OpSpec& op, int rank, std::span<const std::byte> b,
           std::span<const std::int64_t> block_rows) {
  std::vector<std::int64_t> lengths(block_rows.begin(), block_rows.end());
  std::ranges::sort(lengths, std::ranges::greater{});
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  checked("dnnl::matmul", rank, [&] {
    state_ = std::make_unique<State>(op, rank, b);
    for (const std::int64_t rows : lengths) state_->add_kernel(rows);
  });
}

Gemm::~Gemm() = default;

void Gemm::multiply(const std::byte* a, std::byte* product, std::int64_t rows) {
  const auto kernel = std::ranges::find(state_->kernels, rows, &State::Kernel::rows);
  MC2_CHECK(kernel != state_->kernels.end(), "no kernel was built for this block length");
  checked("dnnl_primitive_execute", state_->rank, [&] {
    kernel->a.set_data_handle(const_cast<std::byte*>(a));
    kernel->product.set_data_handle(product);
    // The C call: the C++ one builds a map and a vector on every execution.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(kernel->primitive.get(), state_->stream.get(),
                               static_cast<int>(kernel->arguments.size()), kernel->arguments.data()),
        "could not multiply a block");
    state_->stream.wait();
  });
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
  // An instruction set contains every set whose bits it has; strongest first. Names that only one major version of
  // the library knows are left to the nearest one below.
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

bool gemm_isa_has_bf16() {
  const auto effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (effective & needed) == needed;
}

} // namespace mc2::executor::host
