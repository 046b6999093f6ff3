#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "context.hpp"
#include "mc2/client/client.hpp"
#include "mc2/finder/question.hpp"

namespace mc2::cli {

/// What was sent to a service.
struct Pushed {
  std::int64_t sample_count = 0, race_count = 0;
  std::string model_digest, plan_digest; ///< empty: the store has none
  /// e.g. "pushed 40 samples, 4 races, model 0123456789ab, plan 0123456789ab to http://plans:8471".
  [[nodiscard]] std::string text(const std::string& url) const;
  /// The same content as a document mc2.push/1.
  [[nodiscard]] nlohmann::json report(const std::string& url) const;
};

/// Sends to a service the samples, the model, the races and the tuned plan that a store keeps for this question.
/// Nothing is sent twice: if the service has the model, it also has its samples, and if it has the plan, also its
/// races. Errors: NotFound when the store has none of them; as client::Client.
[[nodiscard]] Result<Pushed> push(const client::Client& client, const store::Store& store,
                                  const finder::PlanQuestion& question);

} // namespace mc2::cli
