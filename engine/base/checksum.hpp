// A checksum of memory, for what storage brings back: packs have theirs in the format (engine/model/pack_checksums.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace vitro {

// Eight lanes that take eight bytes each in turn, so that eight products are under way at a time. Every step is a bijection of the lane's
// state and of the word that it takes: any change within eight aligned bytes is found for certain, any other one but for one in 2^64.
// Not cryptographic. The same on every machine of one byte order.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace vitro
