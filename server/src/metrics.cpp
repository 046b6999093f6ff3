#include "metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace mc2::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

/// In seconds; they range from a cached answer to a large upload.
const Histogram::BucketBoundaries kBuckets{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                                           5e-3, 1e-2,   5e-2, 0.1,  0.5,    1,    5,    10};

Family<Counter>& counters(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

/// Requests with equal labels are counted together.
struct RequestLabels {
  std::string_view method, route; ///< of texts that outlive the metrics
  int status = 0;
  bool operator==(const RequestLabels&) const = default;
};

struct RequestLabelsHash {
  std::size_t operator()(const RequestLabels& labels) const noexcept {
    const std::hash<std::string_view> hash;
    return (hash(labels.route) * 31 + hash(labels.method)) * 31 + static_cast<std::size_t>(labels.status);
  }
};

struct RequestChildren {
  Counter* count = nullptr;
  Histogram* seconds = nullptr;
};

/// Source and provenance, of texts that outlive the metrics.
using AnswerLabels = std::pair<std::string_view, std::string_view>;

/// Bounds the number of labels: a client may send any word as its method.
std::string_view known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "POST", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"})
    if (known == method) return known;
  return "other";
}

} // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  Family<Counter>& requests = counters(registry, "mc2_requests_total", "Requests answered, by route and status.");
  Family<Histogram>& latencies =
      prometheus::BuildHistogram()
          .Name("mc2_request_seconds")
          .Help(
              "From a request's last byte to its answer, in seconds; without refusals before "
              "that, and without waits that the client asked for.")
          .Register(registry);
  Family<Counter>& answers =
      counters(registry, "mc2_plan_answers_total", "Plans answered, by where they came from and provenance.");
  Family<Counter>& cache = counters(registry, "mc2_plan_cache_total", "Lookups in the cache of answers.");
  Counter& cache_hits = cache.Add({{"result", "hit"}});
  Counter& cache_misses = cache.Add({{"result", "miss"}});
  Family<Counter>& drifts = counters(registry, "mc2_model_drift_alarms_total",
                                     "Arrivals of samples that disagree with the kept model, by component.");
  Counter& damages = counters(registry, "mc2_damaged_documents_total",
                              "Kept documents that answers passed over because they cannot be read, each once.")
                         .Add({});
  Gauge& drifted_models =
      gauges(registry, "mc2_models_drifted", "Kept models that the samples which came last disagree with.").Add({});
  Family<Gauge>& gain = // without a value where no plan was raced, as prediction_errors
      gauges(registry, "mc2_plan_gain_ratio", "Median measured benefit over serial of those plans.");
  Family<Gauge>& stale_plans = // without a value until set_stale_plans() is called
      gauges(registry, "mc2_plans_stale", "Kept plans that another cut beats at their machines' present speed.");
  Family<Gauge>& worst_loss =
      gauges(registry, "mc2_plan_worst_loss_ratio", "What the worst of those loses, predicted: kept / best - 1.");
  Gauge& watchers = gauges(registry, "mc2_watchers", "Clients that wait for changes of the store.").Add({});
  Family<Gauge>& replica_connected = // without a value where the service is no replica
      gauges(registry, "mc2_replica_connected", "Of a replica: 1 while its leader answers.");
  Family<Gauge>& replica_behind = gauges(registry, "mc2_replica_behind_seconds",
                                         "Of a replica: since it had everything that its leader's store had.");
  Gauge& raced_plans =
      gauges(registry, "mc2_plans_raced", "Kept plans with a measured makespan, of the newest 500.").Add({});
  Gauge& covered_plans =
      gauges(registry, "mc2_plans_covered", "Of those plans, whose measured makespan lies in the predicted interval.")
          .Add({});
  Family<Gauge>& prediction_errors = gauges(registry, "mc2_plan_prediction_error_ratio",
                                            "Measured / predicted makespan - 1 of those plans, by quantile.");
  Gauge& connections =
      prometheus::BuildGauge().Name("mc2_connections").Help("Connections that are open.").Register(registry).Add({});
  Family<Counter>& refused = counters(registry, "mc2_connections_refused_total",
                                      "Connections closed before a request was answered, by reason.");
  std::shared_mutex children_mutex;
  std::unordered_map<RequestLabels, RequestChildren, RequestLabelsHash> children; ///< under children_mutex
  std::map<AnswerLabels, Counter*> answer_children;                               ///< under children_mutex

  /// What `known` has under the key, under children_mutex; made first where it has nothing yet.
  template <typename Known, typename Make>
  [[nodiscard]] Known::mapped_type find_or_make(Known& known, const typename Known::key_type& key, const Make& make);
  /// Finds or makes the metrics of these labels. Finding them through the families takes longer than a cached answer.
  [[nodiscard]] RequestChildren children_of(const RequestLabels& labels);
  /// The count of these labels; made with 0 where there is none.
  Counter& count_of(const RequestLabels& labels);
  [[nodiscard]] Counter& answers_of(const AnswerLabels& labels);
  /// Sets the gauge of these labels; leaves it out where there is no value.
  void show(Family<Gauge>& family, const prometheus::Labels& labels, std::optional<double> value);
  std::mutex show_mutex; ///< a gauge that is left out must not be set meanwhile
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  // From 0 on: Prometheus sees no rise in a series that begins with its first count.
  for (const char* reason : {"limit", "address", "timeout", "tls"}) impl_->refused.Add({{"reason", reason}});
  for (const char* component : {"matmul", "collective"}) impl_->drifts.Add({{"component", component}});
}
Metrics::~Metrics() = default;

template <typename Known, typename Make>
Known::mapped_type Metrics::Impl::find_or_make(Known& known, const typename Known::key_type& key, const Make& make) {
  {
    const std::shared_lock lock(children_mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const auto made = make();
  const std::unique_lock lock(children_mutex);
  return known.emplace(key, made).first->second;
}

Counter& Metrics::Impl::count_of(const RequestLabels& labels) {
  return requests.Add({{"method", std::string(labels.method)},
                       {"route", std::string(labels.route)},
                       {"status", std::to_string(labels.status)}});
}

RequestChildren Metrics::Impl::children_of(const RequestLabels& labels) {
  return find_or_make(children, labels, [&] {
    return RequestChildren{&count_of(labels), &latencies.Add({{"route", std::string(labels.route)}}, kBuckets)};
  });
}

void Metrics::expect_failures(std::string_view method, std::string_view route) {
  for (const int status : {500, 503}) impl_->count_of({method, route, status});
}

void Metrics::count_request(std::string_view method, std::string_view route, int status,
                            std::optional<std::chrono::nanoseconds> took) {
  const RequestChildren counted = impl_->children_of({known_method(method), route, status});
  counted.count->Increment();
  if (took) counted.seconds->Observe(std::chrono::duration<double>(*took).count());
}

Counter& Metrics::Impl::answers_of(const AnswerLabels& labels) {
  return *find_or_make(answer_children, labels, [&] {
    return &answers.Add({{"source", std::string(labels.first)}, {"provenance", std::string(labels.second)}});
  });
}

void Metrics::Impl::show(Family<Gauge>& family, const prometheus::Labels& labels, std::optional<double> value) {
  const std::lock_guard lock(show_mutex);
  Gauge& gauge = family.Add(labels);
  if (value)
    gauge.Set(*value);
  else
    family.Remove(&gauge);
}

void Metrics::count_answer(std::string_view source, std::string_view provenance) {
  impl_->answers_of({source, provenance}).Increment();
}

void Metrics::count_cache(bool is_hit) { (is_hit ? impl_->cache_hits : impl_->cache_misses).Increment(); }
void Metrics::count_drift(std::string_view component) {
  impl_->drifts.Add({{"component", std::string(component)}}).Increment();
}
void Metrics::count_damage() { impl_->damages.Increment(); }
void Metrics::set_drifted_models(std::size_t count) { impl_->drifted_models.Set(static_cast<double>(count)); }
void Metrics::set_covered_plans(std::size_t count) { impl_->covered_plans.Set(static_cast<double>(count)); }
void Metrics::set_raced_plans(std::size_t count) { impl_->raced_plans.Set(static_cast<double>(count)); }
void Metrics::set_prediction_error(std::string_view quantile, std::optional<double> ratio) {
  impl_->show(impl_->prediction_errors, {{"quantile", std::string(quantile)}}, ratio);
}
void Metrics::set_watchers(std::size_t count) { impl_->watchers.Set(static_cast<double>(count)); }
void Metrics::connection_opened() { impl_->connections.Increment(); }
void Metrics::connection_closed() { impl_->connections.Decrement(); }
void Metrics::connection_refused(std::string_view reason) {
  impl_->refused.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::set_replica(bool is_connected, double behind_s) {
  impl_->replica_connected.Add({}).Set(is_connected ? 1 : 0);
  impl_->replica_behind.Add({}).Set(behind_s);
}

void Metrics::set_gain(std::optional<double> benefit) { impl_->show(impl_->gain, {}, benefit); }
void Metrics::set_stale_plans(std::size_t count, double worst_loss) {
  impl_->stale_plans.Add({}).Set(static_cast<double>(count));
  impl_->worst_loss.Add({}).Set(worst_loss);
}

Metrics::Totals Metrics::totals() const {
  constexpr int kFailed = 500, kNotImplemented = 501; // the latter is the client's doing
  Totals totals{.questions = impl_->cache_hits.Value() + impl_->cache_misses.Value(),
                .questions_from_memory = impl_->cache_hits.Value()};
  const std::shared_lock lock(impl_->children_mutex);
  for (const auto& [labels, counted] : impl_->children) {
    totals.requests += counted.count->Value();
    if (labels.status >= kFailed && labels.status != kNotImplemented) totals.failed_requests += counted.count->Value();
  }
  return totals;
}

std::string Metrics::text() const { return prometheus::TextSerializer().Serialize(impl_->registry.Collect()); }

} // namespace mc2::server
