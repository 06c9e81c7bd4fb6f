// Neighbouring pixels that are quantised before they are stored. HELD at once stay as loaded until then, so that no load waits for
// arithmetic.
struct Pixels {
    typedef Image Element;
    static constexpr int AT_ONCE = LOADS < HELD ? LOADS : HELD;
    Vector<Image, LOADED> channel[CHANNELS];
    bool inside;
    DEVICE void load(const Image* from) {
        inside = true;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) channel[c] = load_vector<LOADED>(from + c * A_CHANNEL);
    }
    DEVICE void clear() { inside = false; }
    DEVICE void store(unsigned char* to) const {
        Bytes bytes;
        bytes.clear();
        if (inside) {
            u32 words[4] = {};
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                u32 y[4];
#pragma unroll
                for (int i = 0; i < 4; i++) y[i] = i < LOADED ? quantize(channel[c].v[i % LOADED]) : quantized_ZERO;
                words[c] = quantized_word(y);
            }
            bytes.interleave(words);
        }
        bytes.store(to);
    }
};
