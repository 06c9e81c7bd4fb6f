DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
DEVICE u32 word_of(const uint2& v, int i) { return i == 0 ? v.x : v.y; }
DEVICE u32 word_of(u32 v, int) { return v; }
// Element `j` of a vector, of 16 or 8 bits.
template <typename V> DEVICE u16 half_of(const V& v, int j) { return (u16)(word_of(v, j / 2) >> j % 2 * 16); }
template <typename V> DEVICE u8 byte_of(const V& v, int j) { return (u8)(word_of(v, j / 4) >> j % 4 * 8); }
