// Neighbouring pixels of bytes, of which each thread loads LOADED at a time.
struct Bytes {
    typedef AElement Element;
    static constexpr int AT_ONCE = LOADS;
    u32 pixel[LOADED];
    // The pixels of these channels, a word of LOADED bytes each.
    DEVICE void interleave(const u32 (&channel)[4]) {
        // The channels of two pixels, of which the lower halves are the first's.
        const u32 first = __byte_perm(channel[0], channel[1], 0x5140), second = __byte_perm(channel[2], channel[3], 0x5140);
        pixel[0] = __byte_perm(first, second, 0x5410);
#if LOADED == 4
        pixel[1] = __byte_perm(first, second, 0x7632);
        const u32 third = __byte_perm(channel[0], channel[1], 0x7362), fourth = __byte_perm(channel[2], channel[3], 0x7362);
        pixel[2] = __byte_perm(third, fourth, 0x5410), pixel[3] = __byte_perm(third, fourth, 0x7632);
#endif
    }
    DEVICE void load(const AElement* from) {
        u32 channel[4] = {};
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            const Vector<AElement, LOADED> some = load_vector<LOADED>(from + c * A_CHANNEL);
            channel[c] = LOADED == 4 ? *(const u32*)&some : (u32)*(const u8*)&some;
        }
        interleave(channel);
    }
    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < LOADED; i++) pixel[i] = OUTSIDE_WORD;
    }
    DEVICE void store(unsigned char* to) const {
#if LOADED == 4
        *(uint4*)to = make_uint4(pixel[0], pixel[1], pixel[2], pixel[3]);
#else
        *(u32*)to = pixel[0];
#endif
    }
};
