// Neighbouring pixels that are quantised before they are stored.
struct Pixels {
    typedef Image Element;
    static constexpr int WORDS = LOADED;
    Vector<Image, LOADED> channel[CHANNELS];
    bool inside;
    DEVICE void load(const Image* from, bool exists) {
        inside = exists;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            channel[c] = {};
            if (exists) channel[c] = load_vector<LOADED>(from + c * A_CHANNEL);
        }
    }
    DEVICE Vector<u32, WORDS> pixels() const {
        u32 words[4] = {};
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            u32 y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) y[i] = i < LOADED ? quantize(channel[c].v[i % LOADED]) : quantized_ZERO;
            words[c] = quantized_word(y);
        }
        return pixels_of(words, inside);
    }
};
