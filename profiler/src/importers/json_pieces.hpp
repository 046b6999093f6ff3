#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "log_reader.hpp"

namespace mc2::profiler {

/// The characters of a log for a JSON parser. Counts lines, because the parser reports no line numbers.
class JsonPieces {
 public:
  /// Reads from a log in bounded memory.
  explicit JsonPieces(LogReader& reader) : reader_(&reader) { advance(); }
  /// Reads from a text, which must outlive this object.
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
    /// Correct only where one side is the end.
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

  LogReader* reader_ = nullptr; ///< null where the whole text is given
  const char* place_ = nullptr;
  const char* end_ = nullptr;
  std::int64_t line_ = 1;
};

} // namespace mc2::profiler
