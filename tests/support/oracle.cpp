#include "support/oracle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace mc2::testing {
namespace {

constexpr int kLeastExponent = -24;
constexpr auto kPowersOfTwo = [] {
  std::array<double, 64> powers{1.0 / (1 << -kLeastExponent)};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = 2 * powers[i - 1];
  return powers;
}();

// fraction * 2^exponent from a table, because there are millions of elements.
double scaled(int fraction, int exponent) {
  return fraction * kPowersOfTwo[static_cast<std::size_t>(exponent - kLeastExponent)];
}

} // namespace

double element(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  if (dtype == planner::DType::F32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * 4, sizeof value);
    return value;
  }
  if (dtype == planner::DType::I8) return static_cast<signed char>(bytes[static_cast<std::size_t>(index)]);
  if (dtype == planner::DType::F8E4m3) {
    const int byte = std::to_integer<int>(bytes[static_cast<std::size_t>(index)]);
    const int exponent = (byte >> 3) & 15, fraction = byte & 7;
    if (exponent == 15 && fraction == 7) return std::nan("");
    return (byte >= 128 ? -1 : 1) * (exponent == 0 ? scaled(fraction, -9) : scaled(8 + fraction, exponent - 10));
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * 2, sizeof bits);
  if (dtype == planner::DType::Bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (exponent == 0 ? scaled(fraction, -24) : scaled(1024 + fraction, exponent - 25));
}

std::vector<double> elements(planner::DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(planner::size_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(dtype, bytes, static_cast<std::int64_t>(i));
  return values;
}

namespace {

// A rank's B, with its scales for i8. The Bs of several experts follow one another.
std::vector<double> b_elements(const planner::OpSpec& op, const executor::RankBuffers& rank) {
  auto b = elements(op.dtype, rank.b);
  if (rank.b_scales.empty()) return b;
  const auto scales = elements(planner::DType::F32, rank.b_scales);
  const auto columns = static_cast<std::size_t>(op.n), size = static_cast<std::size_t>(op.k) * columns;
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] *= scales.size() == 1 ? scales[0] : scales[i / size * columns + i % columns];
  return b;
}

// A rank's A, with its scale for i8: the rank's only scale, or its entry where every rank has the scales of all.
std::vector<double> a_elements(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers,
                               std::size_t rank) {
  auto a = elements(op.dtype, buffers[rank].a);
  if (buffers[rank].a_scales.empty()) return a;
  const auto scales = elements(planner::DType::F32, buffers[rank].a_scales);
  for (double& element : a) element *= scales.size() == 1 ? scales[0] : scales[rank];
  return a;
}

} // namespace

bool are_same_bytes(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

std::vector<std::byte> everybodys_a(std::span<const executor::RankBuffers> buffers) {
  std::vector<std::byte> all;
  for (const executor::RankBuffers& rank : buffers) all.insert(all.end(), rank.a.begin(), rank.a.end());
  return all;
}

executor::ProblemExtras with_gathered_a(const planner::OpSpec& op) {
  return {.counts = {}, .wants_gathered_a = planner::traits_of(op.kind).gathers_a};
}

namespace {

// rows x columns of `a` [rows, k] times `b` [k, n], added to `result` [rows, n].
void add_product(std::span<const double> a, std::span<const double> b, std::size_t k, std::size_t n,
                 std::span<double> result) {
  for (std::size_t i = 0; i * n < result.size(); ++i) {
    double* const row = &result[i * n];
    for (std::size_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      const double* const addends = &b[l * n];
      for (std::size_t j = 0; j < n; ++j) row[j] += factor * addends[j];
    }
  }
}

} // namespace

std::vector<double> naive_matmul_all_reduce(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers) {
  std::vector<double> result(static_cast<std::size_t>(op.m * op.n));
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    add_product(a_elements(op, buffers, rank), b_elements(op, buffers[rank]), static_cast<std::size_t>(op.k),
                static_cast<std::size_t>(op.n), result);
  }
  return result;
}

namespace {

// Adds the bias to each row.
void add_bias(const planner::OpSpec& op, std::span<const std::byte> bias, std::span<double> rows) {
  const auto addends = elements(planner::product_type(op), bias);
  for (std::size_t i = 0; i < rows.size() && !addends.empty(); ++i) rows[i] += addends[i % addends.size()];
}

// Number of rows that rank `from` has for each expert of each rank, [to, expert], as seen by dispatch even where the
// rows travel back.
std::vector<std::int64_t> rows_for_experts(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers,
                                           std::size_t from) {
  const auto experts = static_cast<std::size_t>(op.experts_per_rank);
  const auto count = static_cast<std::size_t>(op.world_size) * experts;
  if (buffers[from].send_counts.empty())
    return std::vector<std::int64_t>(count, op.m / static_cast<std::int64_t>(count));
  const auto counts =
      op.kind == planner::OpKind::AllToAllMatmul ? buffers[from].send_counts : buffers[from].receive_counts;
  return {counts.begin(), counts.end()};
}

// The rank that a dispatched row is from, and the expert that multiplies it.
struct Origin {
  std::size_t from, expert;
};
std::vector<Origin> dispatched_rows(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers,
                                    std::size_t rank) {
  std::vector<Origin> rows;
  for (std::size_t expert = 0; expert < static_cast<std::size_t>(op.experts_per_rank); ++expert) {
    for (std::size_t from = 0; from < buffers.size(); ++from) {
      const auto counts = rows_for_experts(op, buffers, from);
      const auto count = counts[rank * static_cast<std::size_t>(op.experts_per_rank) + expert];
      rows.insert(rows.end(), static_cast<std::size_t>(count), {from, expert});
    }
  }
  return rows;
}

// Product of one rank with several experts: its dispatched rows, each times the B of its expert, plus the bias.
std::vector<double> naive_expert_product(const planner::OpSpec& op, const std::vector<double>& a,
                                         std::span<const executor::RankBuffers> buffers, std::size_t rank) {
  const auto n = static_cast<std::size_t>(op.n), k = static_cast<std::size_t>(op.k);
  const auto b = b_elements(op, buffers[rank]), bias = elements(planner::product_type(op), buffers[rank].bias);
  const auto origins = dispatched_rows(op, buffers, rank);
  std::vector<double> product(origins.size() * n);
  for (std::size_t i = 0; i < origins.size(); ++i) {
    const std::size_t expert = origins[i].expert;
    const auto row = std::span(product).subspan(i * n, n);
    add_product(std::span(a).subspan(i * k, k), std::span(b).subspan(expert * k * n, k * n), k, n, row);
    for (std::size_t j = 0; j < n && !bias.empty(); ++j) row[j] += bias[expert * n + j];
  }
  return product;
}

// Exchanges rows between the ranks' own order, by rank and expert, and the order in which experts get them: forward for
// dispatch, back otherwise.
std::vector<std::vector<double>> naive_expert_exchange(const planner::OpSpec& op,
                                                       const std::vector<std::vector<double>>& sent,
                                                       std::span<const executor::RankBuffers> buffers,
                                                       std::size_t columns) {
  std::vector<std::vector<double>> received(sent.size());
  const bool is_dispatch = op.kind == planner::OpKind::AllToAllMatmul;
  std::vector<std::vector<std::size_t>> first(sent.size()); // row of [from, to, expert] in the ranks' own order
  for (std::size_t from = 0; from < sent.size(); ++from) {
    std::size_t row = 0;
    for (const std::int64_t count : rows_for_experts(op, buffers, from)) {
      first[from].push_back(row);
      row += static_cast<std::size_t>(count);
    }
    if (!is_dispatch) received[from].resize(row * columns);
  }
  for (std::size_t holder = 0; holder < sent.size(); ++holder) {
    std::size_t at = 0;
    for (const Origin& origin : dispatched_rows(op, buffers, holder)) {
      auto& own_row = first[origin.from][holder * static_cast<std::size_t>(op.experts_per_rank) + origin.expert];
      const auto begin_of = [columns](auto& rows, std::size_t row) {
        return rows.begin() + static_cast<std::ptrdiff_t>(row * columns);
      };
      if (is_dispatch) {
        const auto row = begin_of(sent[origin.from], own_row);
        received[holder].insert(received[holder].end(), row, row + static_cast<std::ptrdiff_t>(columns));
      } else {
        std::copy_n(begin_of(sent[holder], at), columns, begin_of(received[origin.from], own_row));
      }
      ++own_row;
      ++at;
    }
  }
  return received;
}

std::vector<std::vector<double>> naive_experts(const planner::OpSpec& op,
                                               std::span<const executor::RankBuffers> buffers) {
  std::vector<std::vector<double>> rows;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) rows.push_back(a_elements(op, buffers, rank));
  const bool is_dispatch = op.kind == planner::OpKind::AllToAllMatmul;
  if (is_dispatch) rows = naive_expert_exchange(op, rows, buffers, static_cast<std::size_t>(op.k));
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    rows[rank] = naive_expert_product(op, rows[rank], buffers, rank);
  return is_dispatch ? rows : naive_expert_exchange(op, rows, buffers, static_cast<std::size_t>(op.n));
}

// Each rank's matrix [rows, k] times its own B, plus its bias where it has one.
std::vector<std::vector<double>> naive_products(const planner::OpSpec& op, const std::vector<std::vector<double>>& a,
                                                std::span<const executor::RankBuffers> buffers) {
  std::vector<std::vector<double>> products;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    const auto n = static_cast<std::size_t>(op.n), k = static_cast<std::size_t>(op.k);
    products.emplace_back(a[rank].size() / k * n);
    add_product(a[rank], b_elements(op, buffers[rank]), k, n, products.back());
    add_bias(op, buffers[rank].bias, products.back());
  }
  return products;
}

// MPI_Alltoallv of matrices with `columns` columns: they are packed by receiver before and by sender after. Each pair
// exchanges m / R rows where the ranks have no counts.
std::vector<std::vector<double>> naive_all_to_all(const planner::OpSpec& op,
                                                  const std::vector<std::vector<double>>& sent,
                                                  std::span<const executor::RankBuffers> buffers,
                                                  std::int64_t columns) {
  std::vector<std::vector<double>> received(sent.size());
  for (std::size_t from = 0; from < sent.size(); ++from) {
    auto at = sent[from].begin();
    const auto counts = buffers[from].send_counts;
    for (std::size_t to = 0; to < sent.size(); ++to) {
      const std::int64_t rows = counts.empty() ? op.m / op.world_size : counts[to];
      const auto end = at + static_cast<std::ptrdiff_t>(rows * columns);
      received[to].insert(received[to].end(), at, end);
      at = end;
    }
  }
  return received;
}

// One rank's pooled features [m, n] by the definition of torch.nn.EmbeddingBag. Offsets and row numbers are int64.
std::vector<double> naive_pooled(const planner::OpSpec& op, const executor::RankBuffers& rank) {
  const auto number = [](std::span<const std::byte> from, std::int64_t index) {
    std::int64_t value = 0;
    std::memcpy(&value, from.data() + index * 8, sizeof value);
    return value;
  };
  const std::int64_t width = op.n / op.tables->table_count;
  const auto rows = elements(op.dtype, rank.b);
  std::vector<double> pooled(static_cast<std::size_t>(op.m * op.n));
  for (std::int64_t bag = 0; bag < op.tables->table_count * op.m; ++bag) {
    const std::int64_t table = bag / op.m, sample = bag % op.m;
    const std::int64_t first = number(rank.bags.offsets, bag), end = number(rank.bags.offsets, bag + 1);
    for (std::int64_t at = first; at < end; ++at) {
      const std::int64_t row = table * op.tables->row_count + number(rank.bags.indices, at);
      for (std::int64_t j = 0; j < width; ++j) {
        const double share = rows[static_cast<std::size_t>(row * width + j)];
        pooled[static_cast<std::size_t>(sample * op.n + table * width + j)] +=
            op.tables->pooling == planner::Pooling::Mean ? share / static_cast<double>(end - first) : share;
      }
    }
  }
  return pooled;
}

// For each rank, its samples [m / R, R n], with the features of rank 0's tables first.
std::vector<std::vector<double>> naive_embedding_all_to_all(const planner::OpSpec& op,
                                                            std::span<const executor::RankBuffers> buffers) {
  std::vector<std::vector<double>> pooled, results(buffers.size());
  for (const auto& rank : buffers) pooled.push_back(naive_pooled(op, rank));
  for (std::int64_t sample = 0; sample < op.m; ++sample) {
    auto& result = results[static_cast<std::size_t>(sample / (op.m / op.world_size))];
    for (const auto& from : pooled) {
      const auto row = from.begin() + static_cast<std::ptrdiff_t>(sample * op.n);
      result.insert(result.end(), row, row + static_cast<std::ptrdiff_t>(op.n));
    }
  }
  return results;
}

// One choice of a row: an expert (int64) and the weight of its product (f32).
struct Chosen {
  std::size_t expert;
  double weight;
};
Chosen chosen_at(const executor::RankBuffers& rank, std::size_t place) {
  std::int64_t expert = 0;
  std::memcpy(&expert, rank.choices.experts.data() + place * 8, sizeof expert);
  const bool is_weighted = !rank.choices.weights.empty();
  return {static_cast<std::size_t>(expert),
          is_weighted ? element(planner::DType::F32, rank.choices.weights, static_cast<std::int64_t>(place)) : 1.0};
}

// Adds to a row [n] the product of one row [k] and the chosen expert's matrix, times the weight.
void add_chosen(const planner::OpSpec& op, std::span<const double> row, std::span<const double> b, const Chosen& chosen,
                std::span<double> result) {
  const auto n = static_cast<std::size_t>(op.n), k = static_cast<std::size_t>(op.k);
  std::vector<double> product(n);
  add_product(row, b.subspan(chosen.expert * k * n, k * n), k, n, product);
  for (std::size_t j = 0; j < n; ++j) result[j] += chosen.weight * product[j];
}

// A row of C for every choice of every token, with the expert's bias.
std::vector<std::vector<double>> naive_gathered_choices(const planner::OpSpec& op,
                                                        std::span<const executor::RankBuffers> buffers) {
  const auto n = static_cast<std::size_t>(op.n), k = static_cast<std::size_t>(op.k);
  const auto top_k = static_cast<std::size_t>(op.experts->top_k);
  const auto gathered = elements(op.dtype, everybodys_a(buffers));
  std::vector<std::vector<double>> results;
  for (const auto& rank : buffers) {
    const auto b = elements(op.dtype, rank.b), bias = elements(planner::product_type(op), rank.bias);
    auto& c = results.emplace_back(static_cast<std::size_t>(op.m) * top_k * n);
    for (std::size_t place = 0; place < c.size() / n; ++place) {
      const Chosen chosen = chosen_at(rank, place);
      const auto row = std::span(c).subspan(place * n, n);
      add_chosen(op, std::span(gathered).subspan(place / top_k * k, k), b, chosen, row);
      for (std::size_t j = 0; j < n && !bias.empty(); ++j) row[j] += bias[chosen.expert * n + j];
    }
  }
  return results;
}

// The weighted products of every token, summed over its choices and the ranks [m, n].
std::vector<double> naive_sum_of_choices(const planner::OpSpec& op, std::span<const executor::RankBuffers> buffers) {
  const auto n = static_cast<std::size_t>(op.n), k = static_cast<std::size_t>(op.k);
  const auto top_k = static_cast<std::size_t>(op.experts->top_k);
  std::vector<double> sum(static_cast<std::size_t>(op.m) * n);
  for (const auto& rank : buffers) {
    const auto a = elements(op.dtype, rank.a), b = elements(op.dtype, rank.b);
    for (std::size_t place = 0; place < a.size() / k; ++place)
      add_chosen(op, std::span(a).subspan(place * k, k), b, chosen_at(rank, place),
                 std::span(sum).subspan(place / top_k * n, n));
  }
  return sum;
}

// C of each rank by the definition of its kind, row-major, in double. Without the residual, and without the bias of
// kinds that sum or gather.
//   matmul_all_reduce      the sum of all A_r B_r
//   matmul_reduce_scatter  rank r's m / R rows of that sum
//   all_gather_matmul      all ranks' rows of A, one below the other, times the rank's own B
//   matmul_all_to_all      the r-th m / R rows of every A_q B_q, one below the other
//   all_to_all_matmul      the r-th m / R rows of every A_q, one below the other, times the rank's own B
//   embedding_all_to_all   the r-th m / R samples of every rank's pooled features, side by side
//   all_gather_grouped_matmul      all ranks' rows of A, each times the matrices of the experts that it chose
//   grouped_matmul_reduce_scatter  rank r's m / R rows of the sum of all weighted products of each row
std::vector<std::vector<double>> naive_plain_results(const planner::OpSpec& op,
                                                     std::span<const executor::RankBuffers> buffers) {
  if (op.kind == planner::OpKind::AllGatherGroupedMatmul) return naive_gathered_choices(op, buffers);
  if (op.kind == planner::OpKind::EmbeddingAllToAll) return naive_embedding_all_to_all(op, buffers);
  if (op.experts_per_rank > 1) return naive_experts(op, buffers);
  if (op.kind == planner::OpKind::AllGatherMatmul) {
    std::vector<double> gathered;
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      const auto shard = a_elements(op, buffers, rank);
      gathered.insert(gathered.end(), shard.begin(), shard.end());
    }
    std::vector<std::vector<double>> results;
    for (const auto& rank : buffers) {
      results.emplace_back(static_cast<std::size_t>(op.m * op.n));
      add_product(gathered, b_elements(op, rank), static_cast<std::size_t>(op.k), static_cast<std::size_t>(op.n),
                  results.back());
    }
    return results;
  }
  if (op.kind == planner::OpKind::MatmulAllToAll || op.kind == planner::OpKind::AllToAllMatmul) {
    std::vector<std::vector<double>> a;
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) a.push_back(a_elements(op, buffers, rank));
    if (op.kind == planner::OpKind::MatmulAllToAll)
      return naive_all_to_all(op, naive_products(op, a, buffers), buffers, op.n);
    return naive_products(op, naive_all_to_all(op, a, buffers, op.k), buffers);
  }
  const auto sum = op.experts ? naive_sum_of_choices(op, buffers) : naive_matmul_all_reduce(op, buffers);
  if (planner::traits_of(op.kind).collective == planner::Collective::AllReduce) return {buffers.size(), sum};
  std::vector<std::vector<double>> shards;
  const auto length = static_cast<std::ptrdiff_t>(op.m / op.world_size * op.n);
  for (std::ptrdiff_t rank = 0; rank < op.world_size; ++rank) {
    shards.emplace_back(sum.begin() + rank * length, sum.begin() + (rank + 1) * length);
  }
  return shards;
}

} // namespace

std::vector<std::vector<double>> naive_results(const planner::OpSpec& op,
                                               std::span<const executor::RankBuffers> buffers) {
  auto results = naive_plain_results(op, buffers);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const std::span<double> c(results[rank]);
    const bool has_bias_already = op.kind == planner::OpKind::MatmulAllToAll ||
                                  op.kind == planner::OpKind::AllToAllMatmul ||
                                  op.kind == planner::OpKind::AllGatherGroupedMatmul;
    if (!has_bias_already) add_bias(op, buffers[rank].bias, c);
    const auto residual = elements(planner::product_type(op), buffers[rank].residual);
    for (std::size_t i = 0; i < residual.size(); ++i) c[i] += residual[i];
  }
  return results;
}

double allowed_error(const planner::OpSpec& op) {
  const double products = static_cast<double>(op.k * planner::products_per_row(op)) * op.world_size;
  const double added = op.epilogue.adds() ? 2 : 0, terms = products + added;
  switch (op.dtype) {
    case planner::DType::F32:
      return op.tables ? 0x1p-24 * 4 * static_cast<double>(op.k * op.k) : 0x1p-24 * terms * 4; // bags of 2 k rows
    case planner::DType::F16: return 0x1p-10 * terms; // partial sums are rounded, and what they come to
    case planner::DType::I8: return 0x1p-8 * terms * 2.25;
    case planner::DType::F8E4m3: return 0x1p-8 * (products * 0x9p-16 + added); // two scales below 3/256
    case planner::DType::Bf16: break;
  }
  return 0x1p-7 * terms;
}

double norm_error_ratio(const planner::OpSpec& op, const executor::RankBuffers& rank, std::span<const double> c,
                        double allowed) {
  if (op.epilogue.norm == planner::Norm::None) return 0;
  const planner::DType dtype = planner::product_type(op);
  const auto normed = elements(dtype, rank.normed), weight = elements(dtype, rank.norm_weight);
  const double roundoff = dtype == planner::DType::F32 ? 0x1p-20 : 0x1p-7;
  const auto n = static_cast<std::size_t>(op.n);
  double worst = 0;
  for (std::size_t row = 0; row < c.size() / n; ++row) {
    double squares = 0;
    for (const double element : c.subspan(row * n, n)) squares += element * element;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + rank.norm_epsilon);
    for (std::size_t j = 0; j < n; ++j) {
      const double normed_c = c[row * n + j] * factor;
      // An error e in every element moves an element by e * factor and the root of the mean square by at most e.
      const double bound = std::abs(weight[j]) * 1.1 * (allowed * factor * (1 + std::abs(normed_c)) + roundoff);
      const double ratio = std::abs(normed[row * n + j] - normed_c * weight[j]) / std::max(bound, 0x1p-100); // weight 0
      if (std::isnan(ratio)) return ratio;
      worst = std::max(worst, ratio);
    }
  }
  return worst;
}

} // namespace mc2::testing
