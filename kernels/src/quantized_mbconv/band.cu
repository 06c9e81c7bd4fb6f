// A band of rows of a depthwise convolution's input, of CH channels in 8-bit integers, and its products with the taps.
//
// The band lies in shared memory as words of four neighbouring columns of a channel:
// BAND_ROWS lines of QUADS words, PITCH channels side by side. What stands outside of the image is there as the zero point. So
// a dot product of four bytes takes four taps of a row.
constexpr int CH = VECTORS * 16;
constexpr int RUN = 4;                  // Neighbouring outputs of a thread.
constexpr int RUNS = (OUT_COLUMNS + RUN - 1) / RUN;
constexpr int BAND_ROWS = (ROWS - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int QUADS = ((RUNS * RUN - 1) * STEP_W + TAPS_W + 3) / 4;
constexpr int ALL_QUADS = BAND_ROWS * QUADS;
// Words of a line that have a column of the image.
constexpr int FIRST_QUAD = PAD_W / 4 < QUADS ? PAD_W / 4 : QUADS - 1;
constexpr int END_QUAD = (IN_COLUMNS - 1 + PAD_W) / 4 + 1 < QUADS ? (IN_COLUMNS - 1 + PAD_W) / 4 + 1 : QUADS;
constexpr int INNER_QUADS = END_QUAD - FIRST_QUAD;
constexpr bool CONSTANT_PARAMETERS = (~CONSTANT_INPUTS & PARAMETER_INPUTS) == 0;
constexpr u32 OUTSIDE_WORD = (u32)(u8)OUTSIDE * 0x01010101u;
static_assert(TAPS_W <= 5, "taps of a row, moved by three columns, fit into two words");

struct Place {
    int image, channel;  // Channel: the first of the block's.
    int row, top;        // First row of outputs; first row of the band, in the input.
    int first, end;      // Rows of the band that the image has.
};

DEVICE Place this_place() {
    Place p;
    p.image = blockIdx.x / BLOCKS;
    const int block = blockIdx.x % BLOCKS;
    p.channel = block % CHUNKS * CH;
    p.row = block / CHUNKS * ROWS;
    p.top = p.row * STEP_H - PAD_H;
    p.end = p.top + BAND_ROWS < 0 ? 0 : min(p.top + BAND_ROWS, IN_ROWS);
    p.first = min(max(p.top, 0), p.end);
    return p;
}

DEVICE bool inside(int row, int column) { return (u32)row < (u32)IN_ROWS && (u32)column < (u32)IN_COLUMNS; }

// A place in lines of LENGTH that follow each other.
template <int LENGTH>
struct Cursor {
    int line, place;

    DEVICE Cursor(int first, int n) : line(first + n / LENGTH), place(n % LENGTH) {}

    // Without a division, where `n` is known when compiling. Returns whether the place begins anew beside what `n` / LENGTH counts.
    DEVICE bool advance(int n) {
        line += n / LENGTH;
        place += n % LENGTH;
        const bool anew = place >= LENGTH;
        if (anew) place -= LENGTH, line++;
        return anew;
    }
};

// Words of four columns from four pixels, 16 channels at a time.
DEVICE void fill_band(const void* image, const Place& p, u32* band) {
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    const u8* const from = (const u8*)image + IMAGE_OFFSET + (offset_t)p.image * IMAGE;
#pragma unroll 1
    for (int i = threadIdx.x; i < ALL_QUADS * (CH / 16); i += THREADS) {
        const int quad = i / (CH / 16), channel = i % (CH / 16) * 16;
        const int row = p.top + quad / QUADS, first = quad % QUADS * 4 - PAD_W;
        uint4 x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const bool exists = inside(row, first + j) && p.channel + channel < LANES;
            x[j] = exists ? *(const uint4*)(from + ((offset_t)row * IN_COLUMNS + first + j) * PIXEL + p.channel + channel)
                          : make_uint4(OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD);
        }
        auto turn = [](u32 a, u32 b, u32 c, u32 d) {
            const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
            const u32 ef = __byte_perm(a, b, 0x7362), gh = __byte_perm(c, d, 0x7362);
            return make_uint4(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(ef, gh, 0x5410),
                              __byte_perm(ef, gh, 0x7632));
        };
        uint4* const to = (uint4*)(band + quad * PITCH + channel);
        to[0] = turn(x[0].x, x[1].x, x[2].x, x[3].x);
        to[1] = turn(x[0].y, x[1].y, x[2].y, x[3].y);
        to[2] = turn(x[0].z, x[1].z, x[2].z, x[3].z);
        to[3] = turn(x[0].w, x[1].w, x[2].w, x[3].w);
    }
}

// Copies a table of a program into shared memory.
struct CopyTable {
    DEVICE void operator()(void* to, const void* from, int bytes) const {
#pragma unroll 1
        for (int i = threadIdx.x; i < bytes / 4; i += THREADS) ((u32*)to)[i] = ((const u32*)from)[i];
    }
};

DEVICE u32 dot(u32 x, u32 w, u32 sum) {
    u32 result;
    asm("dp4a." WIDE_LETTER "32." FILTER_LETTER "32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
}

