#include "codec_parts.hpp"

namespace mc2::store {

template <>
inline constexpr auto kFields<Change> = std::tuple(field("epoch", &Change::revision, at_least(0)),
                                                   field("document", &Change::document, Name{}),
                                                   field("is_removal", &Change::is_removal), field("op", &Change::op),
                                                   field("machine", &Change::fingerprint_digest),
                                                   field_if_set("purpose", &Change::purpose),
                                                   field("digest", &Change::digest, Name{}));

template <>
inline constexpr auto kFields<Changes> = std::tuple(document("changes"), field("changes", &Changes::changes),
                                                    field("epoch", &Changes::revision, at_least(0)));

std::string encode(const Change& change) { return dump(write_described(change)); }
std::string encode(const Changes& changes) { return dump(write_described(changes)); }

template <>
Changes read_document(const Node& node) {
  return read_described<Changes>(node);
}

} // namespace mc2::store
