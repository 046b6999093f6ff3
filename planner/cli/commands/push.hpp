#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "context.hpp"
#include "mc2/client/client.hpp"
#include "mc2/finder/question.hpp"

namespace mc2::cli {

/// What a service was sent.
struct Pushed {
  std::int64_t sample_count = 0, race_count = 0;
  std::string model_digest, plan_digest; ///< empty: there is none here
  /// e.g. "pushed 40 samples, 4 races, model 0123456789ab, plan 0123456789ab to http://plans:8471".
  [[nodiscard]] std::string text(const std::string& url) const;
  /// The same as mc2.push/1.
  [[nodiscard]] nlohmann::json report(const std::string& url) const;
};

/// Sends a service the samples, the model, the races and the tuned plan that a store keeps for this very question.
/// Nothing is sent twice: a model that the service has already brought its samples with it, and a plan its races.
/// Errors: NotFound when the store has none of them; as client::Client.
[[nodiscard]] Result<Pushed> push(const client::Client& client, const store::Store& store,
                                  const finder::PlanQuestion& question);

} // namespace mc2::cli
