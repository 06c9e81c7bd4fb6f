// Convolution of one to four channels on tensor cores: the first layer of a network, straight from its input.
//
// The input under a tile is converted into shared memory as four channels a pixel, 8 bytes. In a step of 16 the lane t of four
// multiplies the channels of place t of a part.
DEVICE u32 pack_elements(f32 low, f32 high) {
    return (u32)store_as<BElement>(low).bits | (u32)store_as<BElement>(high).bits << 16;
}

// Neighbouring pixels, of which each thread loads LOADED at a time.
struct Pixels {
    typedef AElement Element;
    static constexpr int WORDS = 2 * LOADED;
    Vector<AElement, LOADED> channel[CHANNELS];
    DEVICE void load(const AElement* from, bool inside) {
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            channel[c] = {};
            if (inside) channel[c] = load_vector<LOADED>(from + c * A_CHANNEL);
        }
    }
    DEVICE Vector<u32, WORDS> pixels() const {
        Vector<u32, WORDS> y;
#pragma unroll
        for (int i = 0; i < LOADED; i++) {
            f32 x[4] = {};
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) x[c] = to_f32(channel[c].v[i]);
            y.v[i * 2] = pack_elements(x[0], x[1]), y.v[i * 2 + 1] = CHANNELS > 2 ? pack_elements(x[2], x[3]) : 0;
        }
        return y;
    }
};

struct Weights {
    // Of two columns, the channels of one place each.
    DEVICE static uint4 load(const Operands& o, const int (&columns)[2], int step, int t) {
        uint2 of[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            bool exists;
            const u32* const from = weights_at(o, columns[i], step / PARTS, step % PARTS * 4 + t, exists);
            of[i] = exists ? *(const uint2*)from : make_uint2(0, 0);
        }
        return make_uint4(of[0].x, of[0].y, of[1].x, of[1].y);
    }
};

struct Reader {
    u32 own;
    // Whether this lane has a tap in the last part of a row. Zero weights do not silence an infinity.
    bool has_last;
    DEVICE explicit Reader(const unsigned char* pixels) {
        const int t = threadIdx.x % 4;
        own = shared_address(pixels) + (own_pixel() + t * DILATION_W) * 8;
        has_last = t < TAPS_W - PLACES + 4;
    }
    DEVICE uint2 read(int step, int pixel) const {
        const u32 at = own + (pixel + step / PARTS * DILATION_H * PITCH + step % PARTS * 4 * DILATION_W) * 8;
        uint2 y = make_uint2(0, 0);
        if (TAPS_W % 4 == 0 || step % PARTS + 1 < PARTS)
            asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(y.x), "=r"(y.y) : "r"(at));
        else
            asm volatile("{\n.reg .pred exists;\nsetp.ne.u32 exists, %3, 0;\n@exists ld.shared.v2.u32 {%0,%1}, [%2];\n}"
                         : "+r"(y.x), "+r"(y.y)
                         : "r"(at), "r"((u32)has_last));
        return y;
    }
};

DEVICE void first_layer(const Operands& o) { first_layer<Pixels, Weights, Reader>(o, BElement()); }
