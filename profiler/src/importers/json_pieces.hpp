#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "log_reader.hpp"

namespace mc2::profiler {

/// Characters of a log for a JSON parser, which says no line numbers itself, with the line that it has come to.
class JsonPieces {
 public:
  /// In bounded memory.
  explicit JsonPieces(LogReader& reader) : reader_(&reader) { advance(); }
  /// Of a text, which must outlive it.
  explicit JsonPieces(std::string_view text)
      : place_(text.empty() ? nullptr : text.data()), end_(text.data() + text.size()) {}
  JsonPieces(const JsonPieces&) = delete;
  JsonPieces& operator=(const JsonPieces&) = delete;

  [[nodiscard]] const std::int64_t& line() const noexcept { return line_; }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Iterator() = default; ///< the end
    explicit Iterator(JsonPieces& pieces) : pieces_(&pieces) {}
    reference operator*() const { return *pieces_->place_; }
    Iterator& operator++() {
      pieces_->line_ += *pieces_->place_ == '\n' ? 1 : 0;
      if (++pieces_->place_ == pieces_->end_) pieces_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    /// Only ever with the end.
    bool operator==(const Iterator& other) const {
      const auto is_end = [](const Iterator& it) { return it.pieces_ == nullptr || it.pieces_->place_ == nullptr; };
      return is_end(*this) == is_end(other);
    }

   private:
    JsonPieces* pieces_ = nullptr;
  };

  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] static Iterator end() { return {}; }

 private:
  void advance() {
    std::string_view piece;
    const bool has_more = reader_ != nullptr && reader_->next_piece(piece);
    place_ = has_more ? piece.data() : nullptr;
    end_ = has_more ? piece.data() + piece.size() : nullptr;
  }

  LogReader* reader_ = nullptr; ///< null: all is there
  const char* place_ = nullptr;
  const char* end_ = nullptr;
  std::int64_t line_ = 1;
};

} // namespace mc2::profiler
