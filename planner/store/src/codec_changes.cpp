#include "codec_parts.hpp"

namespace mc2::store {

template <>
inline constexpr auto kFields<RawDocument> = std::tuple(field("row_id", &RawDocument::row_id, at_least(1)),
                                                        field("nonce", &RawDocument::nonce, at_least(0)),
                                                        field_if_set("created_at", &RawDocument::created_at),
                                                        field_if_set("document", &RawDocument::document),
                                                        field_if_set("checksum", &RawDocument::checksum));

template <>
inline constexpr auto kFields<RawFingerprint> = std::tuple(field("row_id", &RawFingerprint::row_id, at_least(1)),
                                                           field("digest", &RawFingerprint::digest, Name{}),
                                                           field("document", &RawFingerprint::document),
                                                           field("checksum", &RawFingerprint::checksum));

template <>
inline constexpr auto kFields<Change> = std::tuple(
    field("epoch", &Change::revision, at_least(0)), field("document", &Change::document, Name{}),
    field("is_removal", &Change::is_removal), field("op", &Change::op), field("machine", &Change::fingerprint_digest),
    field_if_set("purpose", &Change::purpose), field("digest", &Change::digest, Name{}), field("row", &Change::row));

template <>
inline constexpr auto kFields<Changes> = std::tuple(document("changes"), field("changes", &Changes::changes),
                                                    field("epoch", &Changes::revision, at_least(0)),
                                                    field_if_set("machines", &Changes::machines));

std::string encode(const Change& change) { return dump(write_described(change)); }
std::string encode(const Changes& changes) { return dump(write_described(changes)); }

template <>
Changes read_document(const Node& node) {
  return read_described<Changes>(node);
}

Result<Changes> decode_changes(std::string_view json) { return decode_document<Changes>(json); }

} // namespace mc2::store
