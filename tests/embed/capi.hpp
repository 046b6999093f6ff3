#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "mc2.h"

/// Shared by the tests of the C interface, which use only mc2.h and the library, as C programs do.
namespace mc2::capi_tests {

inline mc2_error last_error() {
  mc2_error error = MC2_INIT(mc2_error);
  EXPECT_EQ(mc2_last_error(&error), MC2_OK);
  return error;
}

#define MC2_ASSERT_OK(expression) ASSERT_EQ(expression, MC2_OK) << ::mc2::capi_tests::last_error().message

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A cost model of op() on an invented machine: matmul 20 us + 0.5 us/row, all-reduce 20 us + 0.5 us/KiB.
inline std::string model_document() {
  return read(std::filesystem::path(MC2_SOURCE_DIR) / "tests/install_consumer/model.json");
}

inline mc2_op_spec op(std::int64_t m = 512) {
  mc2_op_spec spec = MC2_INIT(mc2_op_spec);
  spec.kind = MC2_MATMUL_ALL_REDUCE;
  spec.m = m;
  spec.n = 256;
  spec.k = 128;
  spec.dtype = MC2_F32;
  spec.world_size = 2;
  return spec;
}

inline mc2_communicator_options two_ranks(const char* link = nullptr) {
  mc2_communicator_options options = MC2_INIT(mc2_communicator_options);
  options.world_size = 2;
  options.link = link;
  return options;
}

inline mc2_model* model() {
  mc2_model* made = nullptr;
  const std::string json = model_document();
  EXPECT_EQ(mc2_model_from_json(json.data(), json.size(), &made), MC2_OK) << last_error().message;
  return made;
}

/// The machine of model_document().
inline mc2_machine* invented_machine() {
  mc2_machine* made = nullptr;
  const std::string json =
      R"({"schema":"mc2.fingerprint/1","fields":{"backend":"host","cpu_model":"an invented machine"}})";
  EXPECT_EQ(mc2_machine_from_json(json.data(), json.size(), &made), MC2_OK) << last_error().message;
  return made;
}

inline mc2_plan* plan_of(const mc2_op_spec& spec) {
  mc2_model* const from = model();
  mc2_plan* made = nullptr;
  EXPECT_EQ(mc2_plan_from_model(from, &spec, nullptr, &made), MC2_OK) << last_error().message;
  EXPECT_EQ(mc2_free_model(from), MC2_OK);
  return made;
}

inline mc2_machine* machine(const mc2_communicator_options& options = two_ranks()) {
  mc2_machine* made = nullptr;
  EXPECT_EQ(mc2_machine_of(&options, &made), MC2_OK) << last_error().message;
  return made;
}

inline mc2_communicator* communicator(const mc2_communicator_options& options = two_ranks()) {
  mc2_communicator* opened = nullptr;
  EXPECT_EQ(mc2_communicator_open(&options, &opened), MC2_OK) << last_error().message;
  return opened;
}

/// The matrices of two ranks of op(). Each number is a multiple of 1/8, so that every sum is exact.
struct Matrices {
  std::array<std::vector<float>, 2> a, b, c;

  explicit Matrices(const mc2_op_spec& spec) {
    const auto m = static_cast<std::size_t>(spec.m), n = static_cast<std::size_t>(spec.n),
               k = static_cast<std::size_t>(spec.k);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      a[rank].resize(m * k);
      b[rank].resize(k * n);
      c[rank].assign(m * n, -1);
      for (std::size_t i = 0; i < a[rank].size(); ++i) a[rank][i] = static_cast<float>((i * 7 + rank) % 17) / 8 - 1;
      for (std::size_t i = 0; i < b[rank].size(); ++i) b[rank][i] = static_cast<float>((i * 5 + rank) % 13) / 8 - 1;
    }
  }

  [[nodiscard]] std::array<mc2_buffers, 2> buffers() {
    std::array<mc2_buffers, 2> views{MC2_INIT(mc2_buffers), MC2_INIT(mc2_buffers)};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      views[rank].a = a[rank].data();
      views[rank].a_bytes = a[rank].size() * sizeof(float);
      views[rank].b = b[rank].data();
      views[rank].b_bytes = b[rank].size() * sizeof(float);
      views[rank].c = c[rank].data();
      views[rank].c_bytes = c[rank].size() * sizeof(float);
    }
    return views;
  }

  /// One element of the sum of A B over the ranks.
  [[nodiscard]] float expected(const mc2_op_spec& spec, std::size_t row, std::size_t column) const {
    const auto n = static_cast<std::size_t>(spec.n), k = static_cast<std::size_t>(spec.k);
    float sum = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (std::size_t l = 0; l < k; ++l) sum += a[rank][row * k + l] * b[rank][l * n + column];
    return sum;
  }
};

/// A plan of op() prepared on a communicator.
struct Running {
  mc2_op_spec spec = op();
  Matrices matrices{spec};
  mc2_communicator* ranks;
  mc2_plan* plan = plan_of(spec);
  mc2_prepared* prepared = nullptr;

  explicit Running(const mc2_communicator_options& options = two_ranks()) : ranks(communicator(options)) {
    mc2_prepare_options accept = MC2_INIT(mc2_prepare_options);
    accept.accept_other_machine = 1;
    const auto buffers = matrices.buffers();
    EXPECT_EQ(mc2_prepare(ranks, plan, buffers.data(), buffers.size(), &accept, &prepared), MC2_OK)
        << last_error().message;
  }
  ~Running() {
    mc2_free_prepared(prepared);
    mc2_free_plan(plan);
    mc2_free_communicator(ranks);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

class Directory {
 public:
  Directory() : path_(std::filesystem::temp_directory_path() / ("mc2-capi-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

} // namespace mc2::capi_tests
