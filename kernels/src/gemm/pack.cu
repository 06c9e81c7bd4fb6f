// Four whole numbers as 8-bit integers, saturated, the first lowest; NaN gives 0.
#define PACK(NAME, KIND) \
    DEVICE u32 NAME(const Value* y) { \
        const i32 a = __float2int_rz(y[0]), b = __float2int_rz(y[1]), c = __float2int_rz(y[2]), d = __float2int_rz(y[3]); \
        u32 word; \
        asm("{\n.reg .b32 high;\ncvt.pack.sat." KIND ".s32.b32 high, %4, %3, 0;\n" \
            "cvt.pack.sat." KIND ".s32.b32 %0, %2, %1, high;\n}" \
            : "=r"(word) \
            : "r"(a), "r"(b), "r"(c), "r"(d)); \
        return word; \
    }
PACK(pack_u8, "u8")
PACK(pack_i8, "s8")
