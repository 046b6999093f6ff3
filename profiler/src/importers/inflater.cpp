#include <algorithm>

#include "log_reader.hpp"

namespace mc2::profiler {
namespace {

constexpr std::size_t kFirstInputBytes = 4 << 10, kInputBytes = 64 << 10;

} // namespace

Inflater::Inflater(ByteSource& source) : source_(source), input_(kFirstInputBytes) {
  while (!is_at_end_ && end_ < kMagicBytes) fill();
  decoder_ = decoder_of({input_.data(), end_});
  is_member_open_ = is_compressed();
}

void Inflater::fill() {
  std::copy(input_.begin() + static_cast<std::ptrdiff_t>(begin_), input_.begin() + static_cast<std::ptrdiff_t>(end_),
            input_.begin());
  end_ -= std::exchange(begin_, 0);
  if (source_bytes_ > 0) input_.resize(kInputBytes);
  const std::size_t got = source_.read(std::span(input_).subspan(end_));
  end_ += got;
  source_bytes_ += static_cast<std::int64_t>(got);
  is_at_end_ = got == 0;
}

std::size_t Inflater::copy(std::span<char> into) {
  if (begin_ == end_ && !is_at_end_) {
    const std::size_t got = source_.read(into); // input_ is empty, so no copy is needed
    source_bytes_ += static_cast<std::int64_t>(got);
    is_at_end_ = got == 0;
    return got;
  }
  const std::size_t size = std::min(into.size(), end_ - begin_);
  std::copy_n(input_.data() + begin_, size, into.data());
  begin_ += size;
  return size;
}

void Inflater::skip_padding() {
  while (true) {
    while (begin_ < end_ && input_[begin_] == '\0') ++begin_;
    if (begin_ < end_ || is_at_end_) return;
    fill();
  }
}

bool Inflater::begin_next_member() {
  skip_padding();
  while (!is_at_end_ && end_ - begin_ < kMagicBytes) fill();
  if (begin_ == end_) return false;
  const auto next = decoder_of({input_.data() + begin_, end_ - begin_});
  if (!next || next->name() != decoder_->name()) {
    fault_ = "behind the " + std::string(decoder_->name()) + " data stands something else, which is not read";
    return false;
  }
  decoder_->begin_member();
  is_member_open_ = true;
  return true;
}

std::size_t Inflater::read(std::span<char> into) {
  if (!is_compressed()) return copy(into);
  if (source_.is_cancelled()) return 0; // a piece of the source may hold a thousand pieces of text
  std::span<char> left = into;
  while (left.size() == into.size() && fault_.empty()) {
    if (!is_member_open_ && !begin_next_member()) break;
    if (begin_ == end_ && !is_at_end_) fill();
    std::span<const char> from(input_.data() + begin_, end_ - begin_);
    const bool is_last = from.empty();
    const Decoder::Step step = decoder_->decode(from, left);
    begin_ = end_ - from.size();
    if (step == Decoder::Step::MemberEnded) is_member_open_ = false;
    if (step == Decoder::Step::Damaged) fault_ = "the " + std::string(decoder_->name()) + " file is damaged";
    if (step == Decoder::Step::GoesOn && is_last && left.size() == into.size())
      fault_ = "the " + std::string(decoder_->name()) + " file is cut: its end is missing";
  }
  return into.size() - left.size();
}

} // namespace mc2::profiler
