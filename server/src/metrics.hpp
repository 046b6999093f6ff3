#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mc2::server {

/// Counts what happens in the service, for Prometheus. Threads: safe to share.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// @param route  the route's pattern, or "none"; never text from a client, which would make endlessly many labels.
  ///               Must outlive this object
  /// @param took  nothing for a request whose time says nothing about the service's speed: a refusal, or a wait that
  ///              the client asked for
  void count_request(std::string_view method, std::string_view route, int status,
                     std::optional<std::chrono::nanoseconds> took);
  /// Tells the counts of this route's answers 500 and 503 from 0 on, so that an alert sees the first one.
  void expect_failures(std::string_view method, std::string_view route);
  /// Counts an answer with one or several plans, whether it was made now or was known.
  /// @param source  "stored", "model" or "what_if"; must outlive this object
  /// @param provenance  of the makespan; must outlive this object
  void count_answer(std::string_view source, std::string_view provenance);
  void count_cache(bool is_hit);
  /// Counts a lane whose new samples disagree with the kept model.
  /// @param component  "matmul" or "collective"
  void count_drift(std::string_view component);
  /// Counts a kept document that cannot be read.
  void count_damage();
  void set_drifted_models(std::size_t count);
  void set_raced_plans(std::size_t count);
  /// How many of the raced plans have a measured makespan within the predicted interval.
  void set_covered_plans(std::size_t count);
  /// @param quantile  which quantile `ratio` is, e.g. "0.5" for the median
  /// @param ratio  that quantile of measured / predicted makespan - 1 over the raced plans; none without such plans
  void set_prediction_error(std::string_view quantile, std::optional<double> ratio);
  void set_watchers(std::size_t count);
  /// @param benefit  the median of the measured benefits of the raced plans; none without such plans
  void set_gain(std::optional<double> benefit);
  /// @param count  kept plans that another cut is predicted to beat at the present speed of their machines
  /// @param worst_loss  the largest predicted loss of them: kept / best - 1
  void set_stale_plans(std::size_t count, double worst_loss);

  /// The state of a replica.
  /// @param behind_s  seconds since the store last had all that the leader's store had
  void set_replica(bool is_connected, double behind_s);

  /// Counts since the service started.
  struct Totals {
    double requests = 0, failed_requests = 0; ///< answered; of those, failed by the service (500, 503)
    double questions = 0, questions_from_memory = 0;
  };
  [[nodiscard]] Totals totals() const;

  void connection_opened();
  void connection_closed();
  /// Counts a connection that was closed without an answer, or with 503.
  /// @param reason  "limit", "address", "timeout" or "tls"
  void connection_refused(std::string_view reason);

  /// All figures in Prometheus' text exposition format, version 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace mc2::server
