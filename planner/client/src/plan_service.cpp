#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "mc2/client/plan_service.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::client {
namespace {

using finder::FoundPlan;
using finder::Origin;
using finder::SharedLayers;
using Clock = std::chrono::steady_clock;

/// Whether the code is a refusal by a working service. A refusal is an answer; the next place is then asked.
bool is_refusal(ErrorCode code) {
  switch (code) {
    case ErrorCode::NotFound:
    case ErrorCode::Stale:
    case ErrorCode::Infeasible:
    case ErrorCode::OutOfRange:
    case ErrorCode::CannotFit: return true;
    default: return false;
  }
}

std::string age_text(Clock::duration age) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
  return ms < 1000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
}

class ServiceSource {
 public:
  ServiceSource(Client client, const ServiceOptions& options, SharedLayers* keeper,
                std::function<std::string()> utc_now)
      : client_(std::move(client)),
        options_(options),
        keeper_(keeper),
        utc_now_(std::move(utc_now)),
        background_([this](const std::stop_token& stop) { work(stop); }),
        watcher_(options.watches ? std::jthread([this](const std::stop_token& stop) { watch(stop); })
                                 : std::jthread()) {}
  ~ServiceSource() {
    background_.request_stop();
    watcher_.request_stop();
    changed_.notify_all();
  }
  ServiceSource(const ServiceSource&) = delete;
  ServiceSource& operator=(const ServiceSource&) = delete;

  /// Errors: kUnavailable, or what the service refuses with.
  [[nodiscard]] Result<FoundPlan> find(const PlanQuestion& question);

 private:
  struct Entry {
    PlanQuestion question;
    std::string machine;                             ///< digest of the machine's fingerprint
    std::optional<Result<store::PlanAnswer>> answer; ///< an answer, or a refusal
    Clock::time_point answered_at;
    Clock::time_point used_at;
    bool is_queued = false; ///< waits in queue_ to be asked in the background
  };
  struct Failure {
    Error error;
    Clock::time_point at;
  };

  // The caller of the next four functions holds the mutex.
  [[nodiscard]] Entry& touch(const std::string& key, const PlanQuestion& question);
  void queue(const std::string& key, Entry& entry);
  [[nodiscard]] bool may_ask() const { return !failure_ || Clock::now() - failure_->at >= options_.retry; }
  /// The cached answer, with the service's last failure as a miss if there was one; or the service's refusal.
  [[nodiscard]] Result<FoundPlan> cached(const Entry& entry) const;

  [[nodiscard]] Result<FoundPlan> take(const std::string& key, const PlanQuestion& question,
                                       const Result<store::PlanAnswer>& answer);
  void learn(const std::string& key, const PlanQuestion& question, const Result<store::PlanAnswer>& answer);
  [[nodiscard]] Result<FoundPlan> recall(const PlanQuestion& question, const Error& why);
  void keep(const PlanQuestion& question, const store::PlanAnswer& answer);
  [[nodiscard]] std::string purpose(const PlanQuestion& question) const;

  void work(const std::stop_token& stop);
  /// Waits in the background thread until the service may be asked; returns the key of the question to ask next. None
  /// if there are answers to keep first, or to stop.
  [[nodiscard]] std::optional<std::string> next_question(const std::stop_token& stop);
  void keep_all();

  /// Follows the service's changes; ends early if the service knows no changes.
  void watch(const std::stop_token& stop);
  /// Waits for the first answer; returns its epoch to watch from. None if the answer was a refusal, or to stop.
  [[nodiscard]] std::optional<std::int64_t> first_epoch(const std::stop_token& stop);
  /// Queues the questions whose answers these changes may affect.
  void take_note(const store::Changes& changes);
  void ask_all_anew();

  const Client client_;
  const ServiceOptions options_;
  SharedLayers* const keeper_;
  const std::function<std::string()> utc_now_;

  std::mutex mutex_; ///< guards everything below
  std::condition_variable_any changed_;
  std::map<std::string, Entry> entries_;
  std::deque<std::string> queue_; ///< keys of entries_
  std::deque<std::pair<PlanQuestion, store::PlanAnswer>> to_be_kept_;
  std::optional<Failure> failure_;                   ///< the last failure; unset once the service answers
  std::optional<Result<std::int64_t>> first_answer_; ///< epoch of the first answer, or the refusal

  std::jthread background_, watcher_; ///< declared last: the threads use the members above
};

std::string key_of(const PlanQuestion& question) {
  return question.machine.canonical_text() + "\n" + store::encode(question.request()) +
         (question.may_transfer ? "" : "\nno transfer");
}

std::string what_of(const store::PlanAnswer& answer) {
  return (answer.source == "stored" ? "tuned plan of epoch " : "plan from its model of epoch ") +
         std::to_string(answer.epoch);
}

ServiceSource::Entry& ServiceSource::touch(const std::string& key, const PlanQuestion& question) {
  if (!entries_.contains(key) && entries_.size() >= options_.cached_answer_count)
    entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& each) { return each.second.used_at; }));
  Entry& entry = entries_[key];
  entry.question = question;
  if (entry.machine.empty()) entry.machine = store::digest(question.machine);
  entry.used_at = Clock::now();
  return entry;
}

void ServiceSource::queue(const std::string& key, Entry& entry) {
  if (std::exchange(entry.is_queued, true)) return;
  queue_.push_back(key);
  changed_.notify_all();
}

Result<FoundPlan> ServiceSource::cached(const Entry& entry) const {
  if (!*entry.answer) return entry.answer->error();
  const store::PlanAnswer& answer = entry.answer->value();
  FoundPlan found = finder::served_plan(answer, "service " + client_.url() + ", " + what_of(answer) + ", asked " +
                                                    age_text(Clock::now() - entry.answered_at) + " ago");
  if (failure_) found.misses.push_back("service: " + failure_->error.text());
  return found;
}

Result<FoundPlan> ServiceSource::find(const PlanQuestion& question) {
  if (question.variant) return Error{ErrorCode::NotFound, "variant", "no service chooses by a variant"};
  if (question.time_lanes) return finder::not_at_present_speed();
  const std::string key = key_of(question);
  std::optional<Error> refused; // set if the service must not be asked now
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = touch(key, question);
    if (entry.answer) {
      if (Clock::now() - entry.answered_at >= options_.refresh) queue(key, entry);
      return cached(entry);
    }
    if (!may_ask()) {
      queue(key, entry);
      refused = failure_->error;
      refused->message += " (" + age_text(Clock::now() - failure_->at) + " ago; not waited for again within " +
                          age_text(options_.retry) + ")";
    }
  }
  if (refused) return recall(question, *refused);
  return take(key, question,
              client_.find_plan(question, {.deadline = options_.patience, .deadline_name = options_.patience_name}));
}

Result<FoundPlan> ServiceSource::take(const std::string& key, const PlanQuestion& question,
                                      const Result<store::PlanAnswer>& answer) {
  learn(key, question, answer);
  if (answer) return finder::served_plan(answer.value(), "service " + client_.url() + ", " + what_of(answer.value()));
  if (is_refusal(answer.error().code)) return answer.error();
  {
    const std::lock_guard lock(mutex_);
    queue(key, touch(key, question));
  }
  return recall(question, answer.error());
}

void ServiceSource::learn(const std::string& key, const PlanQuestion& question,
                          const Result<store::PlanAnswer>& answer) {
  std::unique_lock lock(mutex_);
  if (!answer && !is_refusal(answer.error().code)) {
    failure_ = Failure{{kUnavailable, answer.error().field, answer.error().message}, Clock::now()};
    return;
  }
  failure_.reset();
  if (!first_answer_)
    first_answer_ = answer ? Result<std::int64_t>(answer.value().epoch) : Result<std::int64_t>(answer.error());
  Entry& entry = touch(key, question);
  const bool is_another = entry.answer && (entry.answer->ok() != answer.ok() ||
                                           (answer && entry.answer->value().digest != answer.value().digest));
  entry.answer = answer;
  entry.answered_at = Clock::now();
  if (answer && keeper_ != nullptr) to_be_kept_.emplace_back(question, answer.value());
  changed_.notify_all();
  lock.unlock();
  if (is_another && options_.on_change) options_.on_change();
}

std::string ServiceSource::purpose(const PlanQuestion& question) const {
  const std::string served = std::string(kServedBy) + client_.url();
  const std::string asked =
      question.options ? served + " for " + store::digest(store::encode(question.request())) : served;
  return question.may_transfer ? asked : asked + " without transfer";
}

Result<FoundPlan> ServiceSource::recall(const PlanQuestion& question, const Error& why) {
  const Error failed{kUnavailable, why.field, why.message};
  if (keeper_ == nullptr) return failed;
  auto kept = keeper_->use([&](store::Layers& layers) {
    return layers.find_plan({question.op, store::digest(question.machine), purpose(question)});
  });
  if (!kept) return failed;
  const bool is_stopgap = finder::is_stopgap(kept.value().plan);
  FoundPlan found{std::move(kept).value(), {}, Origin::Service, is_stopgap, {"service: " + failed.text()}};
  found.source = "what service " + client_.url() + " answered at " + found.stored.created_at;
  return found;
}

void ServiceSource::keep(const PlanQuestion& question, const store::PlanAnswer& answer) {
  keeper_->use([&](store::Layers& layers) {
    // If the store cannot be written, the answer is not kept, but the caller still gets it: ignore Errors and throws.
    try {
      const auto known = layers.find_plan({question.op, store::digest(question.machine), purpose(question)});
      if (known && known.value().digest == answer.digest) return;
      static_cast<void>(layers.writable().put_plan(answer.plan, purpose(question), utc_now_()));
    } catch (const SystemError&) {
      // Ignored, as said above.
    }
  });
}

void ServiceSource::keep_all() {
  for (;;) {
    std::optional<std::pair<PlanQuestion, store::PlanAnswer>> next;
    {
      const std::lock_guard lock(mutex_);
      if (to_be_kept_.empty()) return;
      next = std::move(to_be_kept_.front());
      to_be_kept_.pop_front();
    }
    keep(next->first, next->second);
  }
}

std::optional<std::string> ServiceSource::next_question(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [this] { return !queue_.empty() || !to_be_kept_.empty(); });
  if (!to_be_kept_.empty()) return std::nullopt;
  while (!stop.stop_requested() && failure_ && !may_ask())
    changed_.wait_until(lock, stop, failure_->at + options_.retry, [this] { return !failure_; });
  if (stop.stop_requested() || queue_.empty()) return std::nullopt;
  std::string key = std::move(queue_.front());
  queue_.pop_front();
  return key;
}

void ServiceSource::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto key = next_question(stop);
    keep_all();
    if (!key) continue;
    std::optional<PlanQuestion> question;
    {
      const std::lock_guard lock(mutex_);
      const auto entry = entries_.find(*key);
      if (entry == entries_.end()) continue; // dropped from the cache meanwhile
      entry->second.is_queued = false;
      question = entry->second.question;
    }
    const auto answer = client_.find_plan(*question, {.stop = stop});
    if (stop.stop_requested()) break;
    learn(*key, *question, answer);
    if (answer || is_refusal(answer.error().code)) continue;
    const std::lock_guard lock(mutex_);
    queue(*key, touch(*key, *question));
  }
  keep_all();
}

std::optional<std::int64_t> ServiceSource::first_epoch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [this] { return first_answer_.has_value(); });
  return first_answer_ && *first_answer_ ? std::optional(first_answer_->value()) : std::nullopt;
}

void ServiceSource::take_note(const store::Changes& changes) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_)
    if (std::ranges::any_of(changes.changes, [&entry = entry](const store::Change& change) {
          return change.fingerprint_digest == entry.machine && change.op.kind == entry.question.op.kind;
        }))
      queue(key, entry);
}

void ServiceSource::ask_all_anew() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) queue(key, entry);
}

void ServiceSource::watch(const std::stop_token& stop) {
  constexpr std::chrono::seconds kPatience{25};
  constexpr std::chrono::milliseconds kLongestPause{60'000};
  std::minstd_rand random{std::random_device()()}; // so that the programs of a job do not all ask at the same time
  std::chrono::milliseconds pause = options_.retry;
  auto epoch = first_epoch(stop);
  while (!stop.stop_requested()) {
    const bool has_begun = epoch.has_value();
    const auto asked_at = Clock::now();
    const auto changes = client_.changes_since(epoch, has_begun ? kPatience : std::chrono::seconds(0), stop);
    if (changes) {
      epoch = changes.value().revision;
      has_begun ? take_note(changes.value()) : ask_all_anew(); // earlier changes are unknown
      const bool has_waited = Clock::now() - asked_at > kPatience / 2;
      if (!has_begun || !changes.value().changes.empty() || has_waited) {
        pause = options_.retry;
        continue;
      }
    } else {
      if (changes.error().code == ErrorCode::NotFound) return; // an older service, which does not report changes
      if (changes.error().code == ErrorCode::Stale) epoch.reset();
      if (changes.error().code == ErrorCode::Stale && has_begun) continue;
    }
    std::unique_lock lock(mutex_); // the service failed, or answered at once without changes: pause
    changed_.wait_for(lock, stop, pause + pause * (random() % 64) / 128, [] { return false; });
    pause = std::max(pause, std::min(2 * pause, kLongestPause));
  }
}

} // namespace

finder::PlanSource plan_service(const Client& client, const ServiceOptions& options, SharedLayers* keeper,
                                std::function<std::string()> utc_now) {
  // Co-owned by the copies of the place.
  auto source = std::make_shared<ServiceSource>(client, options, keeper, std::move(utc_now));
  return {"service", [source](const PlanQuestion& question) { return source->find(question); }};
}

} // namespace mc2::client
