#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "answer_cache.hpp"
#include "change_signal.hpp"
#include "damage_watch.hpp"
#include "drift_watch.hpp"
#include "http/target.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/server/config.hpp"
#include "mc2/server/message.hpp"
#include "mc2/server/service.hpp"
#include "metrics.hpp"
#include "prediction_gauges.hpp"
#include "question_cache.hpp"
#include "store_gate.hpp"

namespace mc2::server {

class Follower;

/// What every route uses.
struct Context {
  const Config& config;
  StoreGate& store;
  const ChangeSignal& changes;
  AnswerCache& answers;
  QuestionCache& questions;
  Metrics& metrics;
  const std::atomic<bool>& is_draining;
  DriftWatch& drift;
  PredictionGauges& predictions;
  DamageWatch& damage;
  Surroundings surroundings;
  const Follower* follower = nullptr; ///< null: this service is no replica
};

/// One request on its way through a route.
struct Call {
  const Request& request;
  const Query& query;
  std::string id;                     ///< what the route's "{id}" stands for
  planner::StopCheck is_stopped = {}; ///< whether to give up; set for routes of Work::Plan
};

/// A JSON answer.
[[nodiscard]] Response json_response(std::string body, int status = 200);
/// A JSON answer. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] Response json_response(const nlohmann::json& document, int status = 200);

/// 201 with the digest of a kept document and its path as Location.
/// @param folder  e.g. "/v1/plans/"
[[nodiscard]] Response kept_response(const std::string& folder, const std::string& digest);

} // namespace mc2::server
