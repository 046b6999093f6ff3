#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace mc2::server {

/// What the service counts, for Prometheus. Threads: safe to share.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// @param route  its pattern, or "none": never what a client sent, of which there are endlessly many; of text that
  /// stays
  void count_request(std::string_view method, std::string_view route, int status, std::chrono::nanoseconds took);
  /// Of an answer with a plan, or with several, whether it was made for this question or known.
  /// @param source  "stored", "model", "what_if"; @param provenance  of the makespan; both of text that stays
  void count_answer(std::string_view source, std::string_view provenance);
  void count_cache(bool is_hit);
  /// A lane of new samples that disagree with the kept model. @param component  "matmul" or "collective"
  void count_drift(std::string_view component);
  void set_drifted_models(std::size_t count);
  void set_raced_plans(std::size_t count);
  /// Of those, whose measured makespan lies in the predicted interval.
  void set_covered_plans(std::size_t count);
  /// @param quantile  "0.5": the median of measured / predicted makespan - 1 of the kept plans that were raced
  void set_prediction_error(std::string_view quantile, double ratio);
  void set_watchers(std::size_t count);
  /// @param benefit  the median of what the raced plans were measured to save
  void set_gain(double benefit);
  /// Kept plans that another cut is predicted to beat at the speed that their machines have now.
  void set_stale_plans(std::size_t count, double worst_loss);

  /// Of a replica. @param behind_s  since it had everything that its leader's had
  void set_replica(bool is_connected, double behind_s);

  /// Since the service started.
  struct Totals {
    double requests = 0, failed_requests = 0; ///< answered, and of those with 500 and above
    double questions = 0, questions_from_memory = 0;
  };
  [[nodiscard]] Totals totals() const;

  void connection_opened();
  void connection_closed();
  /// Closed without an answer, or with 408 or 503. @param reason  "limit", "timeout", "tls"
  void connection_refused(std::string_view reason);

  /// In the text exposition format, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::server
