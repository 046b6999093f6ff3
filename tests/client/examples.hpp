#pragma once

#include <string>

#include "mc2/client/client.hpp"
#include "mc2/planner/cost_curve.hpp"
#include "mc2/store/codec.hpp"
#include "support/fake_service.hpp"

/// A question, its plan, and the service's answer around it.
namespace mc2::client::examples {

inline PlanQuestion question(std::int64_t m = 1024) {
  return {.op = {planner::OpKind::MatmulAllReduce, m, 512, 256, planner::DType::F32, 2},
          .machine = {{{"backend", "host"}, {"cpu_model", "Example CPU"}}}};
}

inline planner::Plan plan(const PlanQuestion& asked, std::int64_t short_rows = 128) {
  planner::Plan plan;
  plan.op = asked.op;
  plan.fingerprint = asked.machine;
  plan.strategy = "search";
  plan.variant = {"direct", {}};
  plan.cut = {{short_rows, asked.op.m - short_rows}};
  plan.makespan = {90, 88, 92, planner::Provenance::Interpolated, "inside the profiled range"};
  plan.serial_us = 120;
  plan.compute_us = 70;
  plan.communication_us = 50;
  plan.ideal_us = 70;
  plan.timeline = {{{0, 20}, {20, 70}}, {{20, 40}, {70, 90}}, 90, 20};
  plan.reason = "an example";
  return plan;
}

inline std::string answer_document(const planner::Plan& plan, std::int64_t epoch, const std::string& digest = {}) {
  const std::string document = store::encode(plan);
  return R"({"created_at":"2025-01-02T03:04:05Z","digest":")" + (digest.empty() ? store::digest(document) : digest) +
         R"(","epoch":)" + std::to_string(epoch) + R"(,"plan":)" + document +
         R"(,"provenance":"interpolated","schema":"mc2.answer/1","source":"stored"})";
}

/// What a service that is well says to question().
inline std::string good_answer(std::int64_t epoch = 7, std::int64_t short_rows = 128) {
  return support::http_answer(answer_document(plan(question(), short_rows), epoch));
}

inline Client client_of(const std::string& url, std::size_t max_answer_bytes = 1 << 20) {
  Options options;
  options.url = url;
  options.deadline = std::chrono::seconds(20);
  options.max_answer_bytes = max_answer_bytes;
  return Client::open(options).value();
}

} // namespace mc2::client::examples
