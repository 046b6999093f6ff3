#include <omp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "choices.hpp"
#include "element.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/gemm.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

/// The numbers of rows that have a kernel, so that no run has to build one. A call multiplies as many rows as the next
/// of these numbers; those beyond its own rows are wasted. From 24 rows on that is at most a quarter of the call; with
/// fewer rows the time is that of reading the matrix and does not depend on their number. An expert with more rows than
/// the largest number has several calls.
constexpr std::array<std::int64_t, 19> kRowSteps{1,  2,  4,  8,   16,  24,  32,  40,  48, 56,
                                                 64, 80, 96, 112, 128, 160, 192, 224, 256};
constexpr std::int64_t kMostRows = kRowSteps.back();

constexpr std::int64_t kFewBytes = 64 << 10; ///< so many bytes are copied before other threads are awake
#ifdef __SANITIZE_THREAD__                   // the thread sanitizer does not see how OpenMP's threads synchronise
constexpr bool kIsThreadSanitizer = true;
#else
constexpr bool kIsThreadSanitizer = false;
#endif
constexpr std::int64_t kStripColumns = 128; ///< columns of f32: a whole number of cache lines

/// Calls `work(0)` to `work(count - 1)` on OpenMP's threads, which oneDNN does not use meanwhile; the lane's thread
/// alone would take as long for it as the matmul. For few bytes, or if OpenMP has one thread, the lane's thread does it
/// without OpenMP, which would allocate.
template <typename Work>
void on_all_threads(std::int64_t count, std::int64_t byte_count, const Work& work) {
  if (byte_count <= kFewBytes || omp_get_max_threads() == 1 || kIsThreadSanitizer) {
    for (std::int64_t i = 0; i < count; ++i) work(i);
    return;
  }
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

/// One product that a row needs.
struct Product {
  const std::byte* a = nullptr;
  std::byte* to = nullptr; ///< where the product goes, or the f32 sum that it is added to
  Choice choice;
};

template <typename Element>
void round_sums(const float* sums, std::int64_t count, std::byte* product) {
  auto* elements = reinterpret_cast<Element*>(product);
  for (std::int64_t i = 0; i < count; ++i) store(sums[i], elements[i]);
}

void round_sums(planner::DType dtype, const float* sums, std::int64_t count, std::byte* product) {
  switch (dtype) {
    case planner::DType::F32: return; // the sums were made in the product itself
    case planner::DType::F16: return round_sums<F16>(sums, count, product);
    case planner::DType::Bf16: return round_sums<Bf16>(sums, count, product);
    case planner::DType::I8:
    case planner::DType::F8E4m3: break;
  }
  MC2_CHECK(false, "a type without grouped matmuls");
}

class GroupedDevice final : public ComputeDevice {
 public:
  GroupedDevice(const planner::OpSpec& op, int rank, const RankBuffers& buffers)
      : op_(op),
        rank_(rank),
        reader_(op, buffers.choices),
        is_summed_(planner::traits_of(op.kind).sums()),
        product_type_(planner::product_type(op)),
        a_bytes_(op.k * planner::size_bytes(op.dtype)),
        product_bytes_(op.n * planner::size_bytes(is_summed_ ? planner::DType::F32 : product_type_)),
        gathered_(static_cast<std::size_t>(kMostRows * a_bytes_)),
        made_(static_cast<std::size_t>(kMostRows * product_bytes_)),
        ends_(static_cast<std::size_t>(op.experts->count) + 1) {
    std::vector<GemmShape> shapes;
    for (const std::int64_t rows : kRowSteps) shapes.push_back({rows, 0, op.n});
    for (std::int64_t expert = 0; expert < op.experts->count; ++expert)
      gemms_.push_back(std::make_unique<Gemm>(op, rank, gemm_weights(op, buffers, static_cast<int>(expert)), shapes,
                                              gemms_.empty() ? nullptr : gemms_.front().get()));
    products_.resize(static_cast<std::size_t>(op.m * reader_.top_k()));
    sorted_.resize(products_.size());
    // Room for the longest possible block. Pages that no block uses are never touched.
    if (keeps_sums()) sums_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(op.m * op.n));
  }

  ComputeTimes multiply(const MatmulWork& work, Clock::time_point /*ready*/, const RunControl& control) override {
    control.throw_if_aborted();
    const auto start = Clock::now();
    sort_by_expert(products_of(work));
    for (std::size_t expert = 0; expert < gemms_.size(); ++expert)
      for (std::size_t first = ends_[expert]; first < ends_[expert + 1]; first += kMostRows) {
        const std::size_t count = std::min<std::size_t>(kMostRows, ends_[expert + 1] - first);
        multiply_rows(*gemms_[expert], std::span(sorted_).subspan(first, count));
      }
    if (keeps_sums()) round_all(work);
    return {start, Clock::now()};
  }

 private:
  /// Whether sums in f32 are made in sums_ and not in the product.
  [[nodiscard]] bool keeps_sums() const noexcept { return is_summed_ && product_type_ != planner::DType::F32; }

  /// The products of all rows of `work`. Checks the choices, which may have been refilled since prepare().
  std::span<const Product> products_of(const MatmulWork& work) {
    std::size_t count = 0;
    std::int64_t rows_before = 0;
    for (const MatmulRun& run : work.runs) {
      auto* sums =
          keeps_sums() ? reinterpret_cast<std::byte*>(sums_.get()) + rows_before * product_bytes_ : run.product;
      if (is_summed_) std::memset(sums, 0, static_cast<std::size_t>(run.shape.rows * product_bytes_));
      for (std::int64_t i = 0; i < run.shape.rows * reader_.top_k(); ++i) {
        const std::int64_t place = run.first_row * reader_.top_k() + i, row = i / reader_.top_k();
        products_[count++] = {.a = run.a + (is_summed_ ? i : row) * a_bytes_,
                              .to = is_summed_ ? sums + row * product_bytes_ : run.product + i * product_bytes_,
                              .choice = legal_choice(place)};
      }
      rows_before += run.shape.rows;
    }
    return std::span(products_).first(count);
  }

  /// Sorts products by expert, keeping the order of the rows. An expert's products are at [ends_[expert], ends_[expert
  /// + 1]) of sorted_.
  void sort_by_expert(std::span<const Product> products) {
    std::ranges::fill(ends_, 0);
    for (const Product& product : products) ++ends_[static_cast<std::size_t>(product.choice.expert) + 1];
    for (std::size_t expert = 1; expert < ends_.size(); ++expert) ends_[expert] += ends_[expert - 1];
    for (const Product& product : products) sorted_[ends_[static_cast<std::size_t>(product.choice.expert)]++] = product;
    std::shift_right(ends_.begin(), ends_.end(), 1); // the loop has advanced each to the next expert's beginning
    ends_.front() = 0;
  }

  void multiply_rows(Gemm& gemm, std::span<const Product> products) {
    const auto a_bytes = static_cast<std::size_t>(a_bytes_), made_bytes = static_cast<std::size_t>(product_bytes_);
    const auto count = static_cast<std::int64_t>(products.size());
    on_all_threads(count, count * a_bytes_, [&](std::int64_t row) {
      const auto i = static_cast<std::size_t>(row);
      std::memcpy(gathered_.data() + i * a_bytes, products[i].a, a_bytes);
    });
    gemm.multiply({.a = gathered_.data(), .product = made_.data()},
                  {*std::ranges::lower_bound(kRowSteps, count), 0, op_.n});
    if (is_summed_) return add_up(products);
    on_all_threads(count, count * product_bytes_, [&](std::int64_t row) {
      const auto i = static_cast<std::size_t>(row);
      std::memcpy(products[i].to, made_.data() + i * made_bytes, made_bytes);
    });
  }

  /// Adds products to their sums. Threads share out columns and not rows, because several rows may belong to one sum.
  void add_up(std::span<const Product> products) const {
    const auto add = [&](std::int64_t first, std::int64_t end) {
      const std::byte* made = made_.data();
      for (const Product& product : products) {
        const auto* addends = reinterpret_cast<const float*>(made);
        auto* sums = reinterpret_cast<float*>(product.to);
        for (std::int64_t j = first; j < end; ++j) sums[j] += product.choice.weight * addends[j];
        made += product_bytes_;
      }
    };
    on_all_threads(
        planner::ceil_div(op_.n, kStripColumns), std::ssize(products) * product_bytes_,
        [&](std::int64_t strip) { add(strip * kStripColumns, std::min((strip + 1) * kStripColumns, op_.n)); });
  }

  void round_all(const MatmulWork& work) const {
    const float* sums = sums_.get();
    for (const MatmulRun& run : work.runs) {
      const std::int64_t row_bytes = op_.n * planner::size_bytes(product_type_);
      on_all_threads(run.shape.rows, run.shape.rows * product_bytes_, [&](std::int64_t row) {
        round_sums(product_type_, sums + row * op_.n, op_.n, run.product + row * row_bytes);
      });
      sums += run.shape.rows * op_.n;
    }
  }

  /// Reads and checks a choice. It is read only once, so that the checked choice is the one that is used even if the
  /// caller refills the buffer now.
  [[nodiscard]] Choice legal_choice(std::int64_t place) const {
    const Choice choice = reader_.at(place);
    if (reader_.is_legal(choice)) return choice;
    throw SystemError("choices", EINVAL, rank_text(rank_) + ", " + choice_fault(*op_.experts, place, choice).message);
  }

  planner::OpSpec op_;
  int rank_;
  ChoiceReader reader_;
  bool is_summed_;
  planner::DType product_type_;
  std::int64_t a_bytes_, product_bytes_;     ///< bytes of a row of A, and of the product of one choice
  std::vector<std::unique_ptr<Gemm>> gemms_; ///< by expert
  std::vector<std::byte> gathered_, made_;
  std::vector<Product> products_, sorted_;
  std::vector<std::size_t> ends_; ///< by expert, where its products begin in sorted_; then the number of products
  std::unique_ptr<float[]> sums_;
};

} // namespace

std::unique_ptr<ComputeDevice> make_grouped_device(const planner::OpSpec& op, int rank, const RankBuffers& buffers) {
  return std::make_unique<GroupedDevice>(op, rank, buffers);
}

std::int64_t grouped_scratch_bytes(const planner::OpSpec& op) noexcept {
  if (!op.experts) return 0;
  const std::int64_t row_bytes = (op.k + op.n) * planner::size_bytes(planner::DType::F32);
  const bool keeps_sums = planner::traits_of(op.kind).sums() && planner::product_type(op) != planner::DType::F32;
  return kMostRows * row_bytes + 2 * op.m * op.experts->top_k * std::int64_t{sizeof(Product)} +
         (keeps_sums ? op.m * op.n * planner::size_bytes(planner::DType::F32) : 0);
}

} // namespace mc2::executor::lanes
