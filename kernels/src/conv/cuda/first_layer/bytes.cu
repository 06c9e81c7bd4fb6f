// LOADED neighbouring pixels of which each channel is a word of bytes; outside of the image they are OUTSIDE_WORD.
DEVICE Vector<u32, LOADED> pixels_of(const u32 (&channel)[4], bool inside) {
    Vector<u32, LOADED> y;
    // The channels of two pixels, of which the lower halves are the first's.
    const u32 first = __byte_perm(channel[0], channel[1], 0x5140), second = __byte_perm(channel[2], channel[3], 0x5140);
    y.v[0] = __byte_perm(first, second, 0x5410);
#if LOADED == 4
    y.v[1] = __byte_perm(first, second, 0x7632);
    const u32 third = __byte_perm(channel[0], channel[1], 0x7362), fourth = __byte_perm(channel[2], channel[3], 0x7362);
    y.v[2] = __byte_perm(third, fourth, 0x5410), y.v[3] = __byte_perm(third, fourth, 0x7632);
#endif
#pragma unroll
    for (int i = 0; i < LOADED; i++) y.v[i] = inside ? y.v[i] : OUTSIDE_WORD;
    return y;
}

// Neighbouring pixels of bytes, of which each thread loads LOADED at a time.
struct Bytes {
    typedef AElement Element;
    static constexpr int WORDS = LOADED;
    u32 channel[4] = {};  // A word of LOADED bytes each.
    bool inside;
    DEVICE void load(const AElement* from, bool exists) {
        inside = exists;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            if (!exists) continue;
            const Vector<AElement, LOADED> some = load_vector<LOADED>(from + c * A_CHANNEL);
            channel[c] = LOADED == 4 ? *(const u32*)&some : (u32)*(const u8*)&some;
        }
    }
    DEVICE Vector<u32, WORDS> pixels() const { return pixels_of(channel, inside); }
};
