/* Train on what inputs.h holds; print every loss, what the trained model infers, and the stack used, as bits. */
#include "inputs.h"
#include "net.h"

void put(const char *text);

static NET_DECLARE_ARENA(arena);
static net_state state;

static void put_word(uint32_t word) {
    char text[10];
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[word >> (28 - 4 * i) & 15];
    text[8] = '\n';
    text[9] = 0;
    put(text);
}

static void put_float(float value) {
    union { float value; uint32_t word; } bits;
    bits.value = value;
    put_word(bits.word);
}

/* A part of the stack below this function is painted before a call; what is no longer painted was used. */
enum { PAINTED = 4096, PAINT = 0x5A };

__attribute__((noinline)) static uint32_t used(volatile unsigned char *bottom) {
    uint32_t clean = 0;
    while (clean < PAINTED && bottom[clean] == PAINT) clean++;
    return PAINTED - clean;
}

__attribute__((noinline)) static uint32_t stack_of_a_step(void) {
    static float loss[1];
    volatile unsigned char *here = __builtin_frame_address(0);
    volatile unsigned char *bottom = here - 256 - PAINTED;
    for (int i = 0; i < PAINTED; i++) bottom[i] = PAINT;
    net_train(&state, (const float *)inputs[0], labels[0], loss, &arena);
    return used(bottom) + 256;
}

static union { unsigned char bytes[NET_SELFTEST_BYTES]; double aligned; } trial;

int main(void) {
    if (net_selftest(&trial)) return 3;
    /* Byte by byte, and by a loop: an assignment may call memcpy, which is not there. */
    for (unsigned i = 0; i < sizeof state; i++)
        ((volatile unsigned char *)&state)[i] = ((const unsigned char *)&net_initial)[i];
    for (int step = 0; step < STEPS; step++) {
        float loss[1];
        if (net_train(&state, (const float *)inputs[step], labels[step], loss, &arena)) return 1;
        put_float(loss[0]);
    }
    static float out[NET_INFER_RESULT_ITEMS];
    if (net_infer(&state, (const float *)inputs[0], out, &arena)) return 2;
    for (int i = 0; i < NET_INFER_RESULT_ITEMS; i++) put_float(out[i]);
    put_word(stack_of_a_step());
    return 0;
}
