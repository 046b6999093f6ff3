#include "metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace mc2::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

/// From a cached answer to a large upload, in seconds.
const Histogram::BucketBoundaries kBuckets{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                                           5e-3, 1e-2,   5e-2, 0.1,  0.5,    1,    5,    10};

Family<Counter>& counters(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

} // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  Family<Counter>& requests = counters(registry, "mc2_requests_total", "Requests answered, by route and status.");
  Family<Histogram>& latencies = prometheus::BuildHistogram()
                                     .Name("mc2_request_seconds")
                                     .Help("From a request's last byte to its answer, in seconds.")
                                     .Register(registry);
  Family<Counter>& answers =
      counters(registry, "mc2_plan_answers_total", "Plans answered, by where they came from and provenance.");
  Family<Counter>& cache = counters(registry, "mc2_plan_cache_total", "Lookups in the cache of answers.");
  Counter& cache_hits = cache.Add({{"result", "hit"}});
  Counter& cache_misses = cache.Add({{"result", "miss"}});
  Gauge& connections = prometheus::BuildGauge()
                           .Name("mc2_connections")
                           .Help("Connections that are open.")
                           .Register(registry)
                           .Add({});
  Family<Counter>& refused =
      counters(registry, "mc2_connections_refused_total", "Connections closed before a request was answered, by reason.");
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(std::string_view method, std::string_view route, int status,
                            std::chrono::nanoseconds took) {
  const std::string route_text(route);
  const std::string method_text(route == "none" ? "other" : method); // a client may send any word
  impl_->requests.Add({{"method", method_text}, {"route", route_text}, {"status", std::to_string(status)}})
      .Increment();
  impl_->latencies.Add({{"route", route_text}}, kBuckets).Observe(std::chrono::duration<double>(took).count());
}

void Metrics::count_answer(std::string_view source, std::string_view provenance) {
  impl_->answers.Add({{"source", std::string(source)}, {"provenance", std::string(provenance)}}).Increment();
}

void Metrics::count_cache(bool is_hit) { (is_hit ? impl_->cache_hits : impl_->cache_misses).Increment(); }
void Metrics::connection_opened() { impl_->connections.Increment(); }
void Metrics::connection_closed() { impl_->connections.Decrement(); }
void Metrics::connection_refused(std::string_view reason) {
  impl_->refused.Add({{"reason", std::string(reason)}}).Increment();
}

std::string Metrics::text() const { return prometheus::TextSerializer().Serialize(impl_->registry.Collect()); }

} // namespace mc2::server
