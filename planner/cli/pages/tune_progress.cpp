#include "pages/tune_progress.hpp"

#include <iostream>

namespace mc2::cli {
namespace {

/// What is left of the budget, in whole seconds; nothing once it is spent. The least that statistics need may take
/// longer: then this says nothing either.
std::string limit_text(const profiler::Progress& progress) {
  const auto left = progress.budget_left;
  if (!left || left->count() <= 0 || *left < progress.remaining) return {};
  return "; at most " + std::to_string((left->count() + 999) / 1000) + " s";
}

} // namespace

profiler::TuneHooks TuneProgressLine::hooks() {
  return {.on_progress = [this](const profiler::Progress& progress) { show(progress); },
          .on_line = [this](const std::string& text) { tell(text); },
          .on_race = {}, // the page shows the race
          .is_cancelled = &is_interrupted};
}

void TuneProgressLine::show(const profiler::Progress& progress) {
  if (!line_ || progress.label != label_) {
    clear();
    label_ = progress.label;
    line_.emplace(label_);
  }
  line_->update(progress.fraction, progress.remaining, progress.detail + limit_text(progress));
}

void TuneProgressLine::tell(const std::string& text) {
  clear();
  std::cerr << text << "\n";
}

} // namespace mc2::cli
