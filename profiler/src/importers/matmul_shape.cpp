#include "matmul_shape.hpp"

#include <algorithm>
#include <vector>

#include "fields.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kMaxDimensions = 8;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;

struct Tensor {
  std::vector<std::int64_t> sizes;
  std::int64_t element_count = 1;

  /// Columns are the last dimension; all others together are rows.
  [[nodiscard]] std::int64_t columns() const { return sizes.back(); }
  [[nodiscard]] std::int64_t rows() const { return element_count / sizes.back(); }
};

std::optional<Tensor> read_tensor(std::string_view text) {
  Tensor tensor;
  for (const std::string_view part : split(bare(text), ',')) {
    const auto size = parse_whole(bare(part));
    if (!size || *size < 1 || *size > planner::kMaxSize || tensor.element_count > kMaxElements / *size)
      return std::nullopt;
    tensor.sizes.push_back(*size);
    tensor.element_count *= *size;
    if (tensor.sizes.size() > kMaxDimensions) return std::nullopt;
  }
  return tensor.sizes.size() < 2 ? std::nullopt : std::optional(tensor);
}

/// The inner length k of a product with m rows, from the shape of A alone.
std::optional<std::int64_t> inner_length(const Tensor& a, std::int64_t m) {
  if (a.rows() == m) return a.columns();
  if (a.sizes.size() == 2 && a.columns() == m) return a.rows(); // transposed
  return std::nullopt;
}

bool has_size(const Tensor& b, std::int64_t n, std::int64_t k) {
  if (b.sizes.size() == 2) return (b.rows() == k && b.columns() == n) || (b.rows() == n && b.columns() == k);
  if (b.element_count == n * k) return true; // tiled
  if (b.sizes.size() < 4) return false;
  // A tiled format rounds both lengths up to its tiles, whose sizes come last.
  const std::int64_t tile = b.sizes.back(), other = b.sizes[b.sizes.size() - 2];
  const auto padded = [](std::int64_t size, std::int64_t to) { return planner::ceil_div(size, to) * to; };
  return b.element_count == padded(n, tile) * padded(k, other) || b.element_count == padded(k, tile) * padded(n, other);
}

} // namespace

std::optional<MatmulShape> find_matmul_shape(std::string_view inputs, std::string_view outputs) {
  const auto in = split(bare(inputs), ';'), out = split(bare(outputs), ';');
  if (in.size() < 2) return std::nullopt;
  const auto a = read_tensor(in[0]), b = read_tensor(in[1]), c = read_tensor(out[0]);
  if (!a || !b || !c) return std::nullopt;
  MatmulShape shape{c->rows(), c->columns(), 0, 1};
  const auto k = inner_length(*a, shape.m);
  if (!k || *k > planner::kMaxSize || shape.m > planner::kMaxSize || shape.n > kMaxElements / *k ||
      !has_size(*b, shape.n, *k))
    return std::nullopt;
  shape.k = *k;
  return shape;
}

SizeFault size_fault_of(std::string_view shapes) {
  SizeFault fault = SizeFault::None;
  for (const std::string_view tensor : split(bare(shapes), ';'))
    for (const std::string_view part : split(bare(tensor), ',')) {
      const std::string_view digits = bare(part);
      if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
      const auto size = parse_whole(digits);
      if (!size || *size > planner::kMaxSize) return SizeFault::TooLarge;
      if (*size == 0) fault = SizeFault::Zero;
    }
  return fault;
}

std::optional<MatmulShape> find_fused_shape(std::string_view inputs, std::string_view outputs) {
  const auto in = split(bare(inputs), ';'), out = split(bare(outputs), ';');
  if (in.size() < 2) return std::nullopt;
  const auto a = read_tensor(in[0]), b = read_tensor(in[1]), c = read_tensor(out[0]);
  if (!a || !b || !c) return std::nullopt;
  const std::int64_t part = std::min(a->rows(), c->rows());
  const MatmulShape shape{std::max(a->rows(), c->rows()), c->columns(), a->columns(),
                          std::max(a->rows(), c->rows()) / part};
  const bool are_shards = shape.m % part == 0;
  if (!are_shards || shape.m > planner::kMaxSize || shape.n > kMaxElements / shape.k || !has_size(*b, shape.n, shape.k))
    return std::nullopt;
  return shape;
}

} // namespace mc2::profiler
