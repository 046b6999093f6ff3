// The part of cuBLASLt that mc2 calls. cuBLASLt's matrices are column-major; this file treats each as the row-major
// matrix with the same memory, which is its transpose.
#include <cublasLt.h>

#include <cstring>

#include "simulated_gpu/device.hpp"
#include "simulated_gpu/matmul.hpp"
#include "simulated_gpu/stream.hpp"

using namespace mc2::simulated;

namespace {

struct Descriptor {
  cublasOperation_t of_a = CUBLAS_OP_N;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, pitch; ///< those of the row-major matrix
  std::int32_t batch_count = 1;
  std::int64_t stride = 0; ///< elements from one matrix of the batch to the next
};

Descriptor& descriptor_of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Descriptor*>(handle); }
Layout& layout_of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Layout*>(handle); }

template <typename Function>
auto with_type(cudaDataType type, const Function& work) {
  switch (type) {
    case CUDA_R_16F: return work(mc2::executor::F16{});
    case CUDA_R_16BF: return work(Bf16{});
    case CUDA_R_8F_E4M3: return work(mc2::executor::F8E4m3{});
    default: return work(float{});
  }
}

MatrixF32 fetched(const Layout& layout, const void* from, int batch) {
  return with_type(layout.type, [&](auto type) {
    return matrix_of(static_cast<const decltype(type)*>(from) + batch * layout.stride, layout.rows, layout.columns,
                     layout.pitch);
  });
}

void store(const Layout& layout, const MatrixF32& values, void* to, int batch) {
  const auto put = [&](auto type) {
    using T = decltype(type);
    T* out = static_cast<T*>(to) + batch * layout.stride;
    for (std::int64_t row = 0; row < layout.rows; ++row)
      for (std::int64_t column = 0; column < layout.columns; ++column)
        out[row * layout.pitch + column] = from_f32<T>(values.row(row)[column]);
  };
  if (layout.type == CUDA_R_16F) return put(mc2::executor::F16{});
  if (layout.type == CUDA_R_16BF) return put(Bf16{});
  put(float{});
}

/// One call of cublasLtMatmul(). Because of the transposes, its A is the right factor of the row-major product.
struct Matmul {
  Descriptor descriptor;
  Layout a, b, d;
  const void *a_values, *b_values, *c_values;
  void* d_values;
  float beta;

  void run() const {
    const float scale = (descriptor.a_scale == nullptr ? 1 : *descriptor.a_scale) *
                        (descriptor.b_scale == nullptr ? 1 : *descriptor.b_scale);
    for (int batch = 0; batch < d.batch_count; ++batch) {
      const MatrixF32 ours = fetched(b, b_values, batch), theirs = fetched(a, a_values, batch);
      MatrixF32 result = product(ours, theirs, descriptor.of_a == CUBLAS_OP_T, scale);
      if (beta != 0) add(result, fetched(d, c_values, batch), d.rows);
      if (descriptor.epilogue == CUBLASLT_EPILOGUE_BIAS)
        add(result, fetched({d.type, 1, d.columns, d.columns}, descriptor.bias, 0), 1);
      store(d, result, d_values, batch);
    }
  }

  /// Adds the first `row_count` rows of `more` to `to`, repeating them over all rows.
  static void add(MatrixF32& to, const MatrixF32& more, std::int64_t row_count) {
    for (std::int64_t row = 0; row < to.rows; ++row)
      for (std::int64_t column = 0; column < to.columns; ++column)
        to.row(row)[column] += more.row(row % row_count)[column];
  }
};

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (injected(__func__) != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "a status of cuBLASLt";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t, cudaDataType_t) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(new Descriptor);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete &descriptor_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  Descriptor& descriptor = descriptor_of(handle);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) std::memcpy(&descriptor.of_a, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) std::memcpy(&descriptor.a_scale, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) std::memcpy(&descriptor.b_scale, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) std::memcpy(&descriptor.epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) std::memcpy(&descriptor.bias, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t pitch) {
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{.type = type,
                                                                .rows = static_cast<std::int64_t>(columns),
                                                                .columns = static_cast<std::int64_t>(rows),
                                                                .pitch = pitch});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete &layout_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  Layout& layout = layout_of(handle);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) std::memcpy(&layout.batch_count, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) std::memcpy(&layout.stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
  *count = 0;
  if (injected(__func__) != cudaSuccess) return CUBLAS_STATUS_SUCCESS; // succeeds but finds no algorithm
  const bool is_f8 = layout_of(a).type == CUDA_R_8F_E4M3;
  const bool is_carried = !is_f8 || (descriptor_of(descriptor).of_a == CUBLAS_OP_T && layout_of(b).columns % 16 == 0 &&
                                     layout_of(d).columns % 16 == 0);
  if (!is_carried) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = 1;
  found[0] = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, std::size_t bytes, std::size_t*) {
  std::memset(value, 0, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  if (injected(__func__) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Matmul matmul{
      descriptor_of(descriptor),       layout_of(a_layout), layout_of(b_layout), layout_of(d_layout), a, b, c, d,
      *static_cast<const float*>(beta)};
  return submit(stream, cudaGraphNodeTypeKernel, [matmul] { matmul.run(); }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
